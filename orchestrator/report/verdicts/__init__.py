"""Statements of papers, from ``expects:`` of a search space, judged by what sweeps found. `reproduce` prints them."""
