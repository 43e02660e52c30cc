"""The parts of the contract in base.py: runs, arms, settings, `SimpleFamily`, and the checks of a family."""
