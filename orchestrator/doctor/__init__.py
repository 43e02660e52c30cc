"""Whether a machine can run sweeps: one check for each thing that goes wrong on new machines, each tried for real."""
