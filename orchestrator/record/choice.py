"""Opens the kind of record that a user chose: ``--record mlflow`` or ``--record jsonl``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from orchestrator.home.directories import LINES
from orchestrator.record.json_lines import JsonLinesTracker
from orchestrator.record.mlflow_store import Store, check_store, choose_store
from orchestrator.record.tracker import StoreError, Tracker


def opener(kind: str, home: Path, warn: Callable[[StoreError], None] | None = None) -> Callable[[], Tracker]:
    """Return a function that opens the record of a home.

    Args:
        kind: ``mlflow`` or ``jsonl``.
        home: The home's directory.
        warn: Called with the error if the store does not respond. If it is None, the error is raised.

    Raises:
        UserError: If the store cannot be used.
        StoreError: If the store does not respond, and ``warn`` is None.
    """
    if kind == "jsonl":
        return partial(JsonLinesTracker, home / LINES)
    store = choose_store(home)
    try:
        check_store(store)
    except StoreError as error:
        if warn is None:
            raise
        warn(error)
    return partial(open_mlflow, store)


def open_mlflow(store: Store) -> Tracker:
    """Return a tracker of an MLflow store. Raises :class:`StoreError` if MLflow is not installed."""
    try:
        from orchestrator.record.mlflow_tracker import MlflowTracker  # MLflow takes 2 s to import.
    except ModuleNotFoundError as error:
        if error.name != "mlflow":
            raise
        raise StoreError("MLflow is not installed, so nothing is recorded in it") from None
    return MlflowTracker(store)
