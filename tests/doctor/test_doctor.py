"""Each check tries the real thing, and finds a fault if there is one."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import metadata
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from orchestrator.cli import doctor
from orchestrator.cli.run import _ask_for_a_doctor
from orchestrator.doctor import gpu, machine, surroundings
from orchestrator.doctor.finding import Finding, Verdict, ok, slow, wrong
from orchestrator.doctor.machine import NAME, check_up, examined, passed_here
from orchestrator.report.figures import style
from orchestrator.space import hardware
from orchestrator.space.container import Limits
from orchestrator.space.hardware import Hardware
from tests.cli.program import command

ROOT = Path(__file__).resolve().parents[2]
GPU = "Some GPU"


@pytest.mark.slow
def test_this_machine_passes_and_the_findings_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = command("doctor", "--home", tmp_path)
    assert ended.code == 0, ended.out
    kept = json.loads((tmp_path / NAME).read_text())
    assert kept["passed"]
    names = [each["name"] for each in kept["findings"]]
    assert names == ["software", "machine", "home", "directories", "names", "training", "drawing", "MLflow", "Ray"]
    for each in kept["findings"]:
        assert f"{each['verdict']:<6}{each['name']}" in ended.out
        assert bool(each["todo"]) == (each["verdict"] != Verdict.OK)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".doctor")] == []
    assert not (tmp_path / "mlflow.db").exists()


def test_a_store_that_does_not_answer_is_wrong_and_costs_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setattr(doctor, "machine_checks", lambda home: [("MLflow", lambda: machine.record(home))])
    ended = command("doctor", "--home", tmp_path)
    assert ended.code == 1
    assert "wrong MLflow" in ended.out
    assert not json.loads((tmp_path / NAME).read_text())["passed"]


def test_a_check_that_raises_has_found_something_wrong_and_the_next_one_runs() -> None:
    def broken() -> Finding:
        raise OSError("the cable\nis out")

    cable, lamp = examined([("cable", broken), ("lamp", lambda: ok("it burns"))])
    assert (cable.name, cable.verdict, cable.text) == ("cable", Verdict.WRONG, "OSError: the cable")
    assert cable.todo
    assert (lamp.name, lamp.verdict) == ("lamp", Verdict.OK)


def test_a_check_up_holds_for_the_gpu_and_the_torch_it_was_made_with(tmp_path: Path) -> None:
    assert not passed_here(tmp_path, GPU)
    for found, holds in ((wrong("gone", "find it"), False), (slow("far away", "move it"), True)):
        check_up(tmp_path, GPU, [("place", lambda found=found: found)], lambda found: None)  # type: ignore[misc]
        assert passed_here(tmp_path, GPU) is holds
    kept = json.loads((tmp_path / NAME).read_text())
    for said, holds in ((kept, True), (kept | {"torch": "1.0"}, False), (kept | {"passed": False}, False), ([], False)):
        (tmp_path / NAME).write_text(json.dumps(said))
        assert passed_here(tmp_path, GPU) is holds
    (tmp_path / NAME).write_text(json.dumps(kept))
    assert not passed_here(tmp_path, "Another GPU")


def test_a_sweep_on_a_gpu_without_a_check_up_recommends_one(tmp_path: Path) -> None:
    said, quiet = StringIO(), StringIO()
    here = Hardware(16, 128, 1, GPU)
    _ask_for_a_doctor(tmp_path, here, Console(file=said, width=200))
    assert "Some GPU" in said.getvalue()
    assert "orchestrator doctor" in said.getvalue()
    check_up(tmp_path, GPU, [], lambda found: None)
    _ask_for_a_doctor(tmp_path, here, Console(file=quiet, width=200))
    assert quiet.getvalue() == ""


def test_a_container_smaller_than_ray_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "limits", lambda: Limits(memory_bytes=9e8, cpus=0.5))
    found = machine.machine_part()
    assert found.verdict is Verdict.SLOW
    assert found.text.startswith("1 CPU cores and 0.9 GB of memory, of ")
    monkeypatch.setattr(hardware, "limits", Limits)
    assert machine.machine_part().verdict is Verdict.OK


def test_packages_out_of_range_are_named() -> None:
    here = {"torch": "2.9.1+cpu", "numpy": "2.4.0", "ray": "2.50.0"}
    asked = ["torch>=2.10", "numpy<3,>=1.26", "ray[tune]<3,>=2.50", "pyte>=0.8; extra == 'test'", "scipy>=1.13"]
    assert machine.unmet(asked, here) == ["torch 2.9.1+cpu is not >=2.10", "scipy is missing"]
    found = machine.software()
    assert found.verdict is not Verdict.WRONG, found.text


def test_the_home_is_left_as_it_was_and_a_lock_without_effect_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = machine.home_directory(tmp_path)
    assert found.verdict is not Verdict.WRONG
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(machine, "HOLD", machine.HOLD.replace("sys.argv[1]", "sys.argv[1] + '-elsewhere'"))
    assert machine.home_directory(tmp_path).verdict is Verdict.WRONG


@pytest.mark.slow
def test_a_stack_that_does_not_learn_and_bits_that_differ_are_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    still = ("settings.training.learning_rate=1.0e-12", "settings.training.learning_rate_end=1.0e-13")
    assert machine.training(tmp_path, overrides=still).verdict is Verdict.WRONG
    apart = machine.apart

    def disturbed(*args: Any, **kwargs: Any) -> Any:
        found = apart(*args, **kwargs)
        return replace(found, digest="others") if kwargs.get("resumed") else found

    monkeypatch.setattr(machine, "apart", disturbed)
    found = machine.training(tmp_path)
    assert found.verdict is Verdict.WRONG
    assert "other bits" in found.text


def test_without_mlflow_a_machine_is_slow_and_not_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = list(metadata.distributions())
    without = [each for each in there if not each.metadata["Name"].startswith("mlflow")]
    assert len(without) < len(there)
    monkeypatch.setattr(metadata, "distributions", lambda: without)
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    assert machine.software().verdict is not Verdict.WRONG
    found = machine.record(tmp_path)
    assert found.verdict is Verdict.SLOW
    assert "sync" in found.todo


@pytest.mark.slow
def test_the_checks_of_a_gpu_pass_where_the_cpu_stands_in_for_it(tmp_path: Path) -> None:
    found = gpu.side_by_side(tmp_path, "cpu")
    assert found.verdict is Verdict.OK, found.text
    assert found.text.startswith("differences from the losses on the CPU: 37 float32 0, 37 bf16 ")
    assert "64 float32 0, 64 bf16 0.0" in found.text


@pytest.mark.parametrize(
    ("name", "verdict"), [("orchestrator", Verdict.WRONG), ("trainables", Verdict.SLOW), ("numpy", Verdict.OK)]
)
def test_names_of_the_program_in_the_working_directory_are_found(
    name: str, verdict: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{name}.py").write_text("")
    found = surroundings.names()
    assert found.verdict is verdict
    assert (f"{tmp_path / name}.py" in found.text) == (verdict is not Verdict.OK)


def test_what_stops_figures_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert surroundings.drawing().verdict is Verdict.OK
    monkeypatch.setitem(style.SETTINGS, "svg.fonttype", "no such type")
    found = surroundings.drawing()
    assert found.verdict is Verdict.WRONG
    assert "svg.fonttype" in found.text
    assert "matplotlibrc" in found.todo
