"""Journals, stored sweeps, `--resume`, `--extend`, earlier looks at the same runs, and archives."""
