"""A YAML file as a checked sweep (``spec.py``), and its runs.

``runs.py`` has the runs as values. ``problem.py`` makes the searcher of a sweep. ``comparisons.py`` has the statistics of
a sweep's runs: what its searcher sees of each run, its comparisons, and which ones can still be decided.
"""
