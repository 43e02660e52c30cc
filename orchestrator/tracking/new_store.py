"""A new store of our own: whole or not at all, and quick after the first one on a machine."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import mlflow
from mlflow import MlflowClient

from orchestrator.store.machine import scratch
from orchestrator.tracking.store import DATABASE, Store, alone


def make_whole(chosen: Store) -> None:
    """Make the database of a store of our own, where there is none; a server sees to its own.

    MLflow takes seconds over an empty database, in hundreds of steps, and cannot go on with one that a kill left half
    made. So it is made aside, once for all homes of this machine, copied, and renamed.

    Raises :class:`SweepError` where there is no room for it.
    """
    if chosen.artifacts is None:
        return
    database = chosen.artifacts.parent / DATABASE
    with alone(chosen):
        if database.exists() and database.stat().st_size:
            return
        with tempfile.TemporaryDirectory(prefix=f".{DATABASE}-", dir=database.parent) as aside:
            made = Path(aside) / DATABASE
            shutil.copyfile(_pattern(), made)
            with closing(sqlite3.connect(made)) as connection, connection:  # MLflow wrote where the pattern was made.
                place = f"{chosen.artifacts.as_uri()}/Default"
                connection.execute("UPDATE experiments SET artifact_location = ? WHERE name = 'Default'", (place,))
            os.replace(made, database)


def _pattern() -> Path:
    """An empty database of this version of MLflow."""
    pattern = scratch(None) / f"mlflow-{mlflow.__version__}.db"
    if not pattern.exists():
        with tempfile.TemporaryDirectory(prefix=f".{pattern.name}-", dir=pattern.parent) as aside:
            made = Path(aside) / DATABASE
            MlflowClient(f"sqlite:///{made}").search_experiments(max_results=1)  # The first call makes the tables.
            os.replace(made, pattern)
    return pattern
