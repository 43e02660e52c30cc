"""Whether a server lets in who records there: asked before a sweep trains anything."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from mlflow import MlflowClient

from orchestrator.tracking.base import OutageError, RefusedError
from orchestrator.tracking.outage import outages
from orchestrator.tracking.store import Store


def settle_client() -> None:
    """Have MLflow's client give up early, since its own retries take minutes in which nobody hears that a store is out;
    and say nothing at a run's end, where with a server it would print two lines each."""
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")


def check_login(store: Store) -> None:
    """Raise :class:`RefusedError`, with the store's name, where a server wants another login; nothing where it cannot
    say so now."""
    if urlsplit(store.uri).scheme not in ("http", "https"):
        return
    settle_client()
    try:
        with outages():
            MlflowClient(store.uri).search_experiments(max_results=1)
    except RefusedError as error:
        raise RefusedError(f"the MLflow store {store.shown} {error}") from error
    except OutageError:
        return  # It answered a moment ago; records wait for it.
