"""Which run comes next: a searcher per file, with its settings. The default is ``pairs.py``."""
