"""Homes: runs by key, checkpoints, locks, the owner of a home, and the code that a home may name."""
