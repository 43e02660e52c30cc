"""Deleting a sweep's record: through a server nothing is left but what its owner's trash holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient

from orchestrator.tracking.base import Ending
from orchestrator.tracking.mlflow_tracker import MlflowTracker
from orchestrator.tracking.removal import remove_sweep
from tests.tracking.samples import finish
from tests.tracking.servers import free_port, serving


@pytest.mark.slow
def test_through_a_server_records_are_deleted_with_their_artifacts(tmp_path: Path) -> None:
    done = finish(tmp_path / "sweeps")
    with serving(tmp_path, free_port()) as store:
        tracker = MlflowTracker(store)
        tracker.begin(done.sweep)
        for run in done.runs:
            tracker.run_ended(done.sweep, run)
        tracker.end(done.sweep, done.answer, Ending.FINISHED)
        client = MlflowClient(store.uri)
        experiment = client.get_experiment_by_name(done.sweep.spec.name)
        assert experiment is not None
        count = len(client.search_runs([experiment.experiment_id]))
        assert any(path.is_file() for path in (tmp_path / "artifacts").rglob("*"))
        assert remove_sweep(store, done.sweep.spec.name, done.sweep.id) == count
        assert client.search_runs([experiment.experiment_id]) == []
        assert not any(path.is_file() for path in (tmp_path / "artifacts").rglob("*"))
        assert remove_sweep(store, done.sweep.spec.name, done.sweep.id) == count  # Again, without harm.
        assert remove_sweep(store, "no_such_space", done.sweep.id) == 0
