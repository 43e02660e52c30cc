"""Sweeps on disk, read and never written: state, progress, findings.

The truth is a sweep's ``space.yaml`` and ``journal.jsonl``, and the home's ``runs/``. Reading needs neither Ray nor
MLflow nor torch, so it is quick and works while a sweep runs, after the machine was switched off, and on a copy.
"""
