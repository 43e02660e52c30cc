"""A real MLflow server that is stopped in the middle of a sweep, and never records its password."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from mlflow import MlflowClient

from orchestrator.jobs.state import State
from orchestrator.record.mlflow_store import Store, check_store
from orchestrator.record.mlflow_tracker import MlflowTracker, delete_record
from orchestrator.record.recorder import Recorder
from orchestrator.record.sweep_records import SweepRecords
from orchestrator.record.tracker import StoreError
from tests.record.samples import finish, record
from tests.record.servers import free_port, serving
from tests.waiting import wait_for

pytestmark = pytest.mark.slow


def test_records_wait_for_a_stopped_server_and_arrive_once_each(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    shutil.copyfile(empty, tmp_path / "mlflow.db")
    finished = finish(tmp_path / "sweeps")
    port = free_port()

    with serving(tmp_path, port):
        store = Store(f"http://ann:secret-Jq8wVz@127.0.0.1:{port}")
        recorder = Recorder(lambda: MlflowTracker(store), retry_s=0.2)
        records = SweepRecords(finished.sweep, recorder.put)
        records.begin()
        for run in finished.runs[:3]:
            records.run_ended(run)
        wait_for(lambda: recorder.waiting == 0)
    for run in finished.runs[3:]:
        records.run_ended(run)
    records.end(finished.answer, State.FINISHED)
    wait_for(lambda: "records waiting" in recorder.warning)
    with pytest.raises(StoreError, match="refused"):
        check_store(store)

    with serving(tmp_path, port):
        wait_for(lambda: recorder.waiting == 0)
        assert recorder.warning == ""
        assert recorder.close(10) == 0
        record(MlflowTracker(store), finished)

        client = MlflowClient(store.uri)
        experiment = client.get_experiment_by_name(finished.sweep.spec.name)
        assert experiment is not None
        runs = client.search_runs([experiment.experiment_id])
        assert Counter(run.data.tags["kind"] for run in runs) == {
            "sweep": 1,
            "run": len(finished.runs),
            "transition": 2,
        }
        assert {run.data.tags["run_key"] for run in runs if "run_key" in run.data.tags} == {
            run.key for run in finished.runs
        }
        solved = next(run for run in runs if "loss" in run.data.metrics)
        assert len(client.get_metric_history(solved.info.run_id, "loss")) == 60
        assert {file.path for file in client.list_artifacts(solved.info.run_id)} == {"arrays.npz", "similarity.png"}

        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert {"mlflow.db", "arrays.npz", "answer.json"} <= {path.name for path in files}
        assert not [path for path in files if b"secret-Jq8wVz" in path.read_bytes()]
        assert delete_record(store, finished.sweep.spec.name, finished.sweep.id) == len(runs)
        assert client.search_runs([experiment.experiment_id]) == []
        assert not any(path.is_file() for path in (tmp_path / "artifacts").rglob("*"))
