"""``sweeps``, ``status`` and ``logs``: output for people, output for programs, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.home.files import Home
from tests.catalogue.fabricated import failed, leave_stack, runs_of, write_sweep
from tests.cli.program import Program
from tests.sweep.sweeps import spec


def test_sweeps_lists_the_newest_first(run: Program, tmp_path: Path) -> None:
    home = Home(tmp_path)
    ids = {write_sweep(home).id, write_sweep(home, spec(name="other"), runs=[], answered=False).id}
    output = run("sweeps", "--home", tmp_path).succeeded()
    assert all(name in output for name in ids)
    assert "finished" in output
    assert "interrupted" in output
    listed = json.loads(run("sweeps", "--home", tmp_path, "--json").out)
    assert [row["id"] for row in listed] == home.sweep_ids()
    assert all(row["disk_bytes"] > 0 for row in listed)


def test_an_empty_home_has_no_sweeps(run: Program, tmp_path: Path) -> None:
    assert "has no sweep yet" in run("sweeps", "--home", tmp_path).out
    assert json.loads(run("sweeps", "--home", tmp_path, "--json").out) == []
    ended = run("status", "--home", tmp_path)
    assert (ended.code, "has no sweep yet" in ended.err) == (2, True)


def test_status_shows_the_newest_or_the_named_sweep(run: Program, tmp_path: Path) -> None:
    home = Home(tmp_path)
    sweep = write_sweep(home)
    for words in ([], [sweep.id], ["logistic"], [sweep.id[:-2]]):
        assert sweep.id in run("status", *words, "--home", tmp_path).succeeded()
    with_runs = run("status", "--home", tmp_path, "--runs").out
    keys = [sweep.spec.make_family().key(config) for config in runs_of(sweep.spec)]
    assert all(key in with_runs for key in keys)
    assert json.loads(run("status", "--home", tmp_path, "--json").out)["id"] == sweep.id


def test_logs_are_shown_of_ended_failed_and_training_runs(run: Program, tmp_path: Path) -> None:
    home = Home(tmp_path)
    sweep_spec = spec()
    runs = runs_of(sweep_spec)
    sweep = write_sweep(home, sweep_spec, runs=runs[:2], outcomes={1: failed()}, answered=False)
    (training,) = leave_stack(home, sweep, [runs[2]], 3)
    key = sweep_spec.make_family().key
    assert "test accuracy of add" in run("logs", key(runs[0])[:12], "--home", tmp_path).out
    assert "ZeroDivisionError: by zero" in run("logs", key(runs[1]), "--home", tmp_path).out
    assert "0.30" in run("logs", training, "--home", tmp_path).out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["status", "lgistic"], "Did you mean 'logistic'?"),
        (["logs", "zzzz"], "there is no run 'zzzz'"),
        (["logs"], "Missing argument 'RUN'"),
    ],
)
def test_mistakes_in_arguments_of_status_and_logs_are_explained(
    run: Program, tmp_path: Path, words: list[str], message: str
) -> None:
    write_sweep(Home(tmp_path), runs=[])
    error = run(*words, "--home", tmp_path).refused()
    assert message in error
    assert "Traceback" not in error
