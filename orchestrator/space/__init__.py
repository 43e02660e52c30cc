"""A YAML file as a checked sweep (``spec.py``), and its runs.

``runs.py`` has the runs as values, ``problem.py`` makes the searcher, and ``differences.py`` compares two sweeps.
``comparisons.py`` has the statistics of a sweep's runs: what its searcher sees of each run, its comparisons, and
why one of them can no longer be decided.
"""
