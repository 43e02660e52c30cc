"""Read-only access to the sweeps of a home: state, progress, findings.

The sources are a sweep's ``space.yaml`` and ``journal.jsonl``, and the home's ``runs/``. Reading does not need Ray,
MLflow or torch, so it is fast and works while a sweep runs, after a power failure, and on a copy.
"""
