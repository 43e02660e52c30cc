"""A sweep recorded as JSON lines: ``--record jsonl``."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from orchestrator.home.directories import DATABASE, LINES
from tests.cli.program import Program
from tests.sweep.sweeps import ended, interrupt_after, only_sweep, run_here, spec


def lines(home: Path) -> list[dict[str, Any]]:
    return list(map(json.loads, (home / LINES).read_bytes().splitlines()))


def last(home: Path) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return the last line about each thing, without times."""
    newest = {tuple(line[name] for name in ("sweep", "kind", "key", "mix")): line for line in lines(home)}
    return {identity: line | {"started": "", "ended": ""} for identity, line in newest.items()}


def test_a_sweep_and_its_resume_are_recorded_and_can_be_recorded_again(
    run: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orchestrator.sweep.answering.INTERRUPTED_TIMEOUT_S", 120.0)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "ftp://for-other-work")
    small = spec(sizes=[16, 64], seeds=1)
    with monkeypatch.context() as patch:
        interrupt_after(5, patch)
        with pytest.raises(KeyboardInterrupt):
            run_here(small, tmp_path, record="jsonl")
    assert [line["state"] for line in lines(tmp_path) if line["kind"] == "sweep"] == ["running", "interrupted"]
    run_here(small, tmp_path, record="jsonl", resume="")
    assert [line["state"] for line in lines(tmp_path) if line["kind"] == "sweep"][:3] == [
        *("running", "interrupted", "running")
    ]
    records = last(tmp_path)
    assert Counter(identity[1] for identity in records) == {"sweep": 1, "run": 4, "transition": 2}
    [sweep] = [line for identity, line in records.items() if identity[1] == "sweep"]
    assert sweep["state"] == "finished"
    assert sweep["params"]["mixes"] == "add, add+prod"
    answer = json.loads(sweep["texts"]["answer.json"])
    assert answer["target"] == "add"
    transitions = [line for identity, line in records.items() if identity[1] == "transition"]
    for mix in (*answer["mixes"], *(json.loads(line["texts"]["transition.json"]) for line in transitions)):
        # How long a run took is in its own record: an answer must not change with it.
        assert {tuple(point) for task in mix["tasks"] for point in task["transition"]["points"]} == {
            ("size", "seed", "accuracy", "floor", "settled")
        }
    outcomes = {run.key: run.outcome for run in ended(tmp_path)}
    for line in records.values():
        if line["kind"] == "run":
            outcome = outcomes[line["key"]]
            assert line["metrics"]["test_accuracy/add"] == outcome.accuracy["add"]
            assert line["curves"]["loss"] == [[point.step, point.loss] for point in outcome.curve]
    assert not (tmp_path / DATABASE).exists()

    (tmp_path / LINES).rename(tmp_path / "before.jsonl")
    assert "4 runs in" in run("sync", "--record", "jsonl", "--home", tmp_path).succeeded()
    again = last(tmp_path)
    for identity, line in records.items():
        for name in line:
            assert again[identity][name] == line[name], name
    count = len(lines(tmp_path))
    run("sync", "--record", "jsonl", "--home", tmp_path).succeeded()
    assert len(lines(tmp_path)) == count + 2  # The sweep was running again and ended, and nothing else.
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    run("rm", only_sweep(tmp_path).id, "--home", tmp_path, "--yes").succeeded()
    assert lines(tmp_path) == []


@pytest.mark.parametrize("words", [("run", "add_vs_add_prod"), ("sync",)])
def test_an_unknown_record_is_refused(words: tuple[str, ...], run: Program) -> None:
    refused = run(*words, "--record", "json")
    assert (refused.code, refused.out) == (2, "")
    assert "unknown record 'json'. Did you mean 'jsonl'" in refused.err
