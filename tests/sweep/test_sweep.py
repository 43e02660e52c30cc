"""Whole sweeps in this process, with real journal, files and record: new, resumed, extended, interrupted."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from orchestrator.engine.messages import StackReport
from orchestrator.engine.worker import StackWorker
from orchestrator.history.sweeps import load_sweep
from orchestrator.home.directories import Home
from orchestrator.report.sentences.findings import sentences
from orchestrator.space.spec import SweepSpec
from orchestrator.system import provenance
from orchestrator.system.errors import SweepError, UserError
from orchestrator.transition.types import Verdict
from tests.sweep.sweeps import ended, only_sweep, printed, quiet, run_here, spec
from trainables.base import Status


def run(wanted_spec: SweepSpec, home: Path, **options: Any) -> str:
    """Run a sweep in this process. Return its ID."""
    before = set(Home(home).sweep_ids())
    run_here(wanted_spec, home, **options)
    new = set(Home(home).sweep_ids()) - before
    return new.pop() if new else ""


def test_a_sweep_finds_both_transitions_and_records_them(tmp_path: Path) -> None:
    console = quiet()
    # With two seeds, chance at a single size could leave the comparison undecided.
    result = run_here(spec(seeds=3), tmp_path, console=console, record="mlflow")
    alone, joint = (mix.target.transition for mix in result.mixes)
    assert alone.verdict is joint.verdict is Verdict.FOUND
    assert alone.relative.low is not None
    assert alone.relative.high is not None
    assert alone.relative.low < 47 < alone.relative.high
    assert sentences(result)[0] in printed(console)
    entries, files = ended(tmp_path), only_sweep(tmp_path)
    assert (files.directory / "transitions.png").is_file()
    assert files.id in (files.directory / "report.html").read_text(encoding="utf-8")
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")
    [experiment] = [experiment_ for experiment_ in client.search_experiments() if experiment_.name == "logistic"]
    recorded = client.search_runs([experiment.experiment_id], filter_string="tags.kind = 'run'")
    assert {run.data.tags["run_key"] for run in recorded} == {entry.key for entry in entries}
    assert len(recorded) == len(entries)
    assert {run.data.params["units"] for run in recorded} == {str(entry.request.size) for entry in entries}


def test_stored_runs_that_are_not_in_the_journal_are_adopted(tmp_path: Path) -> None:
    wanted_spec = spec(search={"method": "grid"}, sizes=[8, 16])
    sweep_id = run(wanted_spec, tmp_path)
    path = Home(tmp_path).sweep(sweep_id).journal
    before = ended(tmp_path, sweep_id)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]))  # Keep the head and two runs, as after a crash.
    run(wanted_spec, tmp_path, resume=sweep_id)
    after = ended(tmp_path, sweep_id)
    assert {entry.key for entry in after} == {entry.key for entry in before}
    assert len(after) == len(before)


def test_extending_trains_only_the_new_runs(tmp_path: Path) -> None:
    first = run(spec(search={"method": "grid"}, sizes=[8, 16]), tmp_path)
    second = run(spec(search={"method": "grid"}, sizes=[8, 16], seeds=3), tmp_path, extend=first)
    entries = ended(tmp_path, second)
    new = [entry for entry in entries if not entry.trained_for]
    assert {entry.request.seed for entry in new} == {2}
    assert len(new) == 4
    assert len(entries) == 12
    assert {entry.trained_for for entry in entries if entry.trained_for} == {first}
    for entry in entries:
        assert (Home(tmp_path).runs / entry.key / "outcome.json").is_file()
    with pytest.raises(UserError, match="seed"):
        run(spec(search={"method": "grid"}, sizes=[8], seed=9), tmp_path, extend=first)


def test_resuming_with_other_settings_or_while_another_process_drives_is_refused(tmp_path: Path) -> None:
    sweep_id = run(spec(sizes=[8, 16]), tmp_path)
    with pytest.raises(UserError, match=r"seeds \(now 3, was 2\)"):
        run(spec(sizes=[8, 16], seeds=3), tmp_path, resume=sweep_id)
    with pytest.raises(UserError, match="no unfinished sweep"):
        run(spec(sizes=[8, 16], seeds=3), tmp_path, resume="")
    with pytest.raises(UserError, match=f"{sweep_id} cannot be resumed"):
        run(spec(), tmp_path, resume=sweep_id[:-1])
    with pytest.raises(UserError, match=sweep_id):
        run(spec(), tmp_path, resume="logistic-2")
    with only_sweep(tmp_path).driving(), pytest.raises(UserError, match="another process"):
        run(spec(sizes=[8, 16]), tmp_path, resume=sweep_id)


def test_a_family_that_raises_fails_its_runs_and_names_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(worker: StackWorker) -> StackReport:
        raise ZeroDivisionError("the loss was divided by nothing")

    monkeypatch.setattr(StackWorker, "advance", broken)
    with pytest.raises(SweepError, match="divided by nothing"):
        run(spec(sizes=[8, 16]), tmp_path)
    assert {entry.outcome.status for entry in ended(tmp_path)} == {Status.FAILED}


@pytest.mark.parametrize(
    ("family", "output"),
    [
        ("PercentFamily", r"on 'add' is 1\d\.\d+; it must be a share from 0 to 1; divide percentages by 100"),
        ("EndlessFamily", "it reported on none, so the sweep would never end"),
    ],
)
def test_a_family_that_breaks_its_contract_stops_the_sweep(tmp_path: Path, family: str, output: str) -> None:
    wanted_spec = spec(sizes=[8, 16], family=f"tests.sweep.broken:{family}")
    with pytest.raises(SweepError, match=rf"the family '\w+' does not keep its contract: .*{output}.*check-family"):
        run(wanted_spec, tmp_path)
    assert ended(tmp_path) == []


def test_a_sweep_runs_without_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def version(package: str) -> str:
        if package == "mlflow":
            raise PackageNotFoundError(package)
        return "1.0"

    monkeypatch.setattr(provenance, "version", version)
    monkeypatch.delitem(sys.modules, "orchestrator.record.mlflow_tracker", raising=False)
    monkeypatch.setitem(sys.modules, "mlflow", None)  # Its import now raises ModuleNotFoundError.
    console = quiet()
    run_here(spec(), tmp_path, console=console, record="mlflow")
    assert {entry.outcome.status for entry in ended(tmp_path)} == {Status.FINISHED}
    assert "MLflow is not installed, so nothing is recorded in it" in " ".join(printed(console).split())
    assert load_sweep(Home(tmp_path), only_sweep(tmp_path).id).environment["versions"]["mlflow"] == "not installed"
