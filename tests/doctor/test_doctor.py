"""The whole check-up of this machine, by the command."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from orchestrator.commands.asking import _ask_for_a_doctor
from orchestrator.doctor import checkup, services
from orchestrator.doctor.checkup import NAME, CheckUp
from orchestrator.doctor.findings import Check, Verdict
from orchestrator.space.hardware import Hardware
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
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setattr(checkup, "cpu_checks", lambda home: (Check("MLflow", lambda: services.record(home), 1),))
    ended = program(capsys)("doctor", "--home", tmp_path, "--no-gpu")
    assert ended.code == 1
    assert "wrong MLflow" in ended.out
    assert not json.loads((tmp_path / NAME).read_text())["passed"]


def test_a_sweep_on_a_gpu_that_nobody_has_looked_at_says_so(tmp_path: Path) -> None:
    said = StringIO()
    gpu = Hardware(16, 128, 1, "Some GPU")
    _ask_for_a_doctor(tmp_path, gpu, Console(file=said, width=200))
    assert "Some GPU" in said.getvalue()
    assert "orchestrator doctor" in said.getvalue()
    (tmp_path / NAME).write_text(json.dumps(CheckUp(gpu, (), ()).to_json()))
    quiet = StringIO()
    _ask_for_a_doctor(tmp_path, gpu, Console(file=quiet, width=200))
    assert quiet.getvalue() == ""
