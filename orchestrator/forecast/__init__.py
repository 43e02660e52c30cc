"""Predicts the cost and the outcome of sweeps from simulated searches."""
