"""The whole check-up of this machine, by the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.doctor import services
from orchestrator.doctor.checkup import NAME
from orchestrator.doctor.findings import Verdict
from tests.commands.program import program


@pytest.mark.slow
def test_this_machine_passes_and_what_was_found_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = program(capsys)("doctor", "--home", tmp_path, "--no-gpu")
    assert ended.code == 0, ended.out
    kept = json.loads((tmp_path / NAME).read_text())
    assert kept["passed"]
    names = [each["name"] for each in kept["findings"]]
    assert names[:3] == ["python", "packages", "torch"]
    assert names[-1] == "Ray"
    for each in kept["findings"]:
        assert each["verdict"] in list(Verdict)
        assert f"{each['verdict']:<6}{each['name']}" in ended.out
        assert bool(each["todo"]) == (each["verdict"] != Verdict.OK)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".doctor")] == []
    assert not (tmp_path / "mlflow.db").exists()


def test_a_store_that_does_not_answer_is_wrong_and_costs_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from orchestrator.doctor import checkup
    from orchestrator.doctor.findings import Check

    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setattr(checkup, "cpu_checks", lambda home: (Check("MLflow", lambda: services.record(home), 1),))
    ended = program(capsys)("doctor", "--home", tmp_path, "--no-gpu")
    assert ended.code == 1
    assert "wrong MLflow" in ended.out
    assert not json.loads((tmp_path / NAME).read_text())["passed"]
