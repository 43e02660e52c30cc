"""Probes of trained models: pure functions of a model, its family and its data."""
