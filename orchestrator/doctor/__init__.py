"""Checks of a machine: each tries the real thing."""
