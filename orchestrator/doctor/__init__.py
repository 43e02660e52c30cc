"""Checks of a machine. Each check does the real work on a small scale."""
