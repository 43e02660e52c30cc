"""Refusals come first: before any output, and without starting anything or leaving files."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path

import pytest

from orchestrator.home.directories import Home
from tests.catalog.fabricated import write_sweep
from tests.cli.program import Program
from tests.sweep.sweeps import UNITS, spec


@pytest.fixture(autouse=True)
def units(tmp_path: Path) -> None:
    (tmp_path / "units.yaml").write_text(UNITS + "search: {method: grid}\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--resume", "nothing"], "there is no sweep 'nothing'"),
        (["--extend", "nothing"], "there is no sweep 'nothing'"),
        (["--resume", "logistic"], "cannot be resumed with these settings: they differ in"),
        (["--extend", "logistic"], "has no finished run that this sweep could reuse: they differ in"),
        (["--set", "resources.cpu_per_stack=500"], "resources.cpu_per_stack is 500, but only"),
        (["--set", "seeds=0"], "--set seeds=0: must be greater than or equal to 1; got 0"),
        (["--scratch", "units.yaml"], "units.yaml cannot be created: File exists; pass another directory as --scratch"),
        (["--max-time", "soon"], "--max-time 'soon': write a time such as 2h, 45min or 1h 30min"),
        (["--max-time", "0s"], "--max-time '0s': the time must be greater than zero"),
        (["--address", "127.0.0.1:1"], "no Ray cluster answers at 127.0.0.1:1"),
        (["--address", "ray://127.0.0.1:1"], "--address 'ray://127.0.0.1:1' is not the address of a Ray cluster"),
    ],
)
def test_a_refusal_comes_before_everything_else(run: Program, tmp_path: Path, words: list[str], message: str) -> None:
    write_sweep(Home(tmp_path / "home"), spec(seed=70))
    before, begun = sorted((tmp_path / "home").rglob("*")), time.monotonic()
    ended = run("run", "units.yaml", "--home", "home", *words)
    assert ended.code == 2
    assert message in ended.err
    assert ended.out == ""
    assert sorted((tmp_path / "home").rglob("*")) == before
    assert time.monotonic() - begun < 30


def test_a_running_sweep_named_by_a_prefix_is_refused(run: Program, tmp_path: Path) -> None:
    sweep = write_sweep(Home(tmp_path / "home"), answered=False)
    (tmp_path / "same.yaml").write_text(sweep.spec.to_yaml())
    with Home(tmp_path / "home").sweep(sweep.id).driving():
        ended = run("run", "same.yaml", "--home", "home", "--resume", sweep.id[:-2])
    assert (ended.code, ended.out) == (2, "")
    assert f"{sweep.id} is being run by another process" in ended.err


def test_a_refused_resume_creates_no_home(run: Program, tmp_path: Path) -> None:
    message = run("run", "units.yaml", "--home", "new", "--resume", "nothing").refused()
    assert "no sweep 'nothing' was found" in message
    assert not (tmp_path / "new").exists()


def test_a_precision_that_the_device_lacks_is_refused(run: Program) -> None:
    words = ("add_vs_add_prod", "--profile", "smoke", "--set", "settings.training.precision=tf32")
    assert "precision is tf32; it must be float32 or bf16 on a CPU" in run("run", *words).refused()
    assert "precision is tf32; it must be float32 or bf16 on a CPU" in run("plan", *words).refused()


def test_a_circular_link_as_home_is_refused(run: Program, tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to("circle")
    assert "circle" in run("sweeps", "--home", "circle").refused()
    assert "circle" in run("run", "units.yaml", "--home", "circle/home").refused()


@pytest.mark.parametrize("command", [["run", "units.yaml"], ["sweeps"]])
def test_a_home_that_is_not_a_directory_is_refused(run: Program, tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "file").write_text("")
    message = run(*command, "--home", "file/home").refused()
    assert message.startswith("error: Invalid value for '--home': file is a file")


def test_the_error_for_a_taken_port_names_a_free_one(run: Program, tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "mlflow.db").touch()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = run("ui", "--port", port)
    assert ended.code == 2
    assert f"port {port} cannot be used (Address already in use; another `ui` may use it): try --port " in ended.err
    assert "127.0.0.1" not in ended.out


def test_a_store_elsewhere_leaves_nothing_in_the_working_directory(
    run: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{elsewhere / 'mlflow.db'}")
    output = run("run", "units.yaml", "--home", "home", "--engine=local", "--quiet").succeeded()
    assert not (tmp_path / "mlruns").exists()
    assert any((elsewhere / "artifacts" / "units").iterdir())
    answer_alone = (
        "Nothing was learned up to units 16.\nadd: size at 80% of the asymptote, with 90% intervals\nmix  units "
    )
    assert output.startswith(answer_alone)


def test_the_version_is_printed(run: Program) -> None:
    output = run("--version").succeeded()
    assert re.fullmatch(r"orchestrator \d+\.\d+\.\d+\n", output)


def test_an_inherited_question_about_other_mixes_causes_a_warning(run: Program, tmp_path: Path) -> None:
    (tmp_path / "near.yaml").write_text("like: units.yaml\nmixes: [add, add+max]")
    warning = "warning: near.yaml changes the mixes but inherits the question of units.yaml: write `question:`"
    assert run("show", "near.yaml").err.strip() == warning
    (tmp_path / "same.yaml").write_text("like: units.yaml\nmixes: [add]")
    assert run("show", "units.yaml").err == run("show", "same.yaml").err == ""
