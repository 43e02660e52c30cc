"""Figures of answers."""
