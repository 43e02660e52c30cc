"""Trains the jobs of any plan on workers."""
