"""Sweeps that the store still takes for running, though their driver has died: the next that writes there says so."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from mlflow import MlflowClient

from orchestrator.store.files import Home, SweepFiles
from orchestrator.store.lifecycle import is_driven
from orchestrator.store.records import Sweep
from orchestrator.tracking.base import Ending
from orchestrator.tracking.outage import outages
from orchestrator.tracking.store import Store

MOST = 200
"""Of the records that run at once."""


def mark_interrupted(client: MlflowClient, experiment: str, by: Sweep) -> list[str]:
    """Mark as interrupted what lies beside the sweep ``by`` in the same home, runs in the store and is not driven: the
    records of sweeps and their provisional transitions. Returns the ids of the sweeps. Sweeps of other homes, which
    may share the store, are left alone."""
    return _mark(client, [experiment], by.directory.parent, by.id)


def mark_home(store: Store, home: Home) -> list[str]:
    """The same for every sweep of a home. Raises :class:`OutageError` where the store does not answer."""
    with outages():
        client = MlflowClient(store.uri)
        experiments = [each.experiment_id for each in client.search_experiments()]
        return _mark(client, experiments, home.sweep("").directory, "") if experiments else []


def _mark(client: MlflowClient, experiments: list[str], sweeps: Path, but: str) -> list[str]:
    running = client.search_runs(experiments, "attributes.status = 'RUNNING'", max_results=MOST)
    marked = []
    for run in running:
        sweep_id = run.data.tags.get("sweep", but)
        directory = sweeps / sweep_id
        if sweep_id == but or not directory.is_dir() or is_driven(SweepFiles(directory)):
            continue
        now_ms = int(datetime.now(UTC).timestamp() * 1000)
        client.set_terminated(run.info.run_id, "KILLED", now_ms)
        if run.data.tags.get("kind") == "sweep":
            client.set_tag(run.info.run_id, "state", Ending.INTERRUPTED)
            marked.append(sweep_id)
    return marked
