"""Takes a sweep out of the record for good: its MLflow run, all that is nested in it, and their artifacts."""

from __future__ import annotations

import os
import subprocess
import sys
from urllib.parse import urlsplit

from mlflow import MlflowClient
from mlflow.entities import Run, ViewType
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

from orchestrator.errors import SweepError
from orchestrator.tracking.outage import outages
from orchestrator.tracking.store import Store

ROWS_A_PAGE = 1000
DATABASES = ("sqlite", "postgresql", "mysql", "mssql")


def remove_sweep(store: Store, experiment: str, sweep_id: str) -> int:
    """Delete every record of a sweep and its artifacts; returns how many records there were, 0 where there are none.

    In a database of our own they are gone. A server keeps deleted records, without their artifacts, until its owner
    empties its trash (``mlflow gc``). A repetition deletes what an earlier attempt left.

    Raises :class:`OutageError` where the store cannot be reached, :class:`SweepError` where it refuses.
    """
    with outages():
        client = MlflowClient(store.uri)
        runs = _runs(client, experiment, sweep_id)
        for run in runs:
            if run.info.lifecycle_stage == "active":
                client.delete_run(run.info.run_id)
        if runs and urlsplit(store.uri).scheme.split("+")[0] in DATABASES:
            _purge(store, [run.info.run_id for run in runs])
        else:
            for run in runs:
                files = get_artifact_repository(run.info.artifact_uri, store.uri)
                files.delete_artifacts()  # type: ignore[no-untyped-call]  # mlflow's
    return len(runs)


def _runs(client: MlflowClient, experiment: str, sweep_id: str) -> list[Run]:
    """The sweep's records, those deleted before included."""
    found = client.get_experiment_by_name(experiment)
    runs: list[Run] = []
    token = None
    while found is not None:
        page = client.search_runs(
            [found.experiment_id], f"tags.sweep = '{sweep_id}'", ViewType.ALL, ROWS_A_PAGE, page_token=token
        )
        runs += page
        if not (token := page.token):
            break
    return runs


def _purge(store: Store, run_ids: list[str]) -> None:
    """Empty these runs out of MLflow's trash, artifacts first, as MLflow itself does it."""
    command = [sys.executable, "-m", "mlflow", "gc", "--run-ids", ",".join(run_ids)]
    # Not as options: they may hold a password, and everybody on a machine can read command lines.
    environment = os.environ | {"MLFLOW_BACKEND_STORE_URI": store.uri, "MLFLOW_TRACKING_URI": store.uri}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:] or ["it says nothing"]
        raise SweepError(f"MLflow could not empty its trash of {len(run_ids)} records: {said[0]}")
