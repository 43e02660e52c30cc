"""``rm`` deletes a sweep from disk and from its records, with its artifacts and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import ViewType

from orchestrator.home.directories import Home
from orchestrator.record.mlflow_store import choose_store
from orchestrator.sweep.run_options import RunOptions
from orchestrator.sweep.several_sweeps import run_sweep
from tests.catalog.fabricated import write_sweep
from tests.cli.program import Program
from tests.sweep.sweeps import quiet, spec


def records(home: Path) -> dict[str, int]:
    """Return the number of records of each sweep in the store, including deleted ones."""
    client = MlflowClient(choose_store(home, {}).uri)
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    counts: dict[str, int] = {}
    for run in client.search_runs(experiments, run_view_type=ViewType.ALL):
        sweep = run.data.tags["sweep"]
        counts[sweep] = counts.get(sweep, 0) + 1
    return counts


def artifacts(home: Path) -> int:
    return sum(path.is_file() for path in (home / "artifacts").rglob("*"))


def test_a_sweep_is_deleted_everywhere_and_others_stay(run: Program, tmp_path: Path) -> None:
    small = spec(sizes=[16, 64], seeds=1)
    for _ in range(2):
        run_sweep(small, RunOptions(home=tmp_path, engine="local"), quiet())
    other, gone = Home(tmp_path).sweep_ids()
    before, files = records(tmp_path), artifacts(tmp_path)
    assert before[other] < before[gone], "runs of two sweeps are one record"
    assert f"{before[gone]} records in MLflow" in run("rm", gone, "--home", tmp_path, "--yes").succeeded()
    assert Home(tmp_path).sweep_ids() == [other]
    assert records(tmp_path) == {other: before[other]}
    assert 0 < artifacts(tmp_path) < files
    assert not list((tmp_path / "sweeps").glob(".*"))
    assert run("sync", "--home", tmp_path).code == 0
    assert records(tmp_path) == {other: before[gone]}, "the runs of the deleted sweep are recorded for the other one"


def test_rm_asks_before_it_deletes(run: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = write_sweep(Home(tmp_path), runs=[])
    monkeypatch.setattr("typer.confirm", lambda question: False)
    ended = run("rm", sweep.id, "--home", tmp_path)
    assert ended.code == 1
    assert "aborted" in ended.err
    assert Home(tmp_path).sweep_ids() == [sweep.id]


def test_a_sweep_that_was_never_recorded_is_deleted_too(run: Program, tmp_path: Path) -> None:
    sweep = write_sweep(Home(tmp_path))
    assert "0 records in MLflow" in run("rm", "logistic", "--home", tmp_path, "--yes").succeeded()
    assert not sweep.files.directory.exists()


def test_a_running_sweep_is_not_deleted(run: Program, tmp_path: Path) -> None:
    sweep = write_sweep(Home(tmp_path), answered=False)
    with Home(tmp_path).sweep(sweep.id).driving():
        assert "is running: stop it first" in run("rm", sweep.id, "--home", tmp_path, "--yes").refused()
    assert sweep.files.directory.is_dir()


def test_nothing_is_deleted_while_the_store_is_unreachable(
    run: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = write_sweep(Home(tmp_path))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    ended = run("rm", sweep.id, "--home", tmp_path, "--yes")
    assert ended.code == 1
    assert "Connection refused" in ended.err
    assert sweep.files.directory.is_dir()
