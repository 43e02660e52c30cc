"""The contract of a family (base.py at the root): its runs, arms and settings, and the suites that hold it to it."""
