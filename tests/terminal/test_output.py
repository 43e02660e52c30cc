"""Output in odd places: a reader that ends, a terminal without a size, letters that an encoding lacks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.system import environment
from orchestrator.terminal.output import Output
from tests.cli.program import ROOT, line, process
from tests.scripted import FAMILY
from tests.sweep.sweeps import spec
from tests.waiting import wait_for

CHINESE = "小模型能学会加法吗"
HEAD = "import sys; next(line for line in sys.stdin if 'sweep ' in line)"
"""A program that reads until the sweep has begun and ends, as ``head`` does after its lines."""
TEE = "import sys; sys.stdin.read()"


def slow_space(tmp_path: Path, **values: object) -> Path:
    """Write a search space whose runs take a minute."""
    settings = {"log": str(tmp_path / "log"), "steps": 200, "pace_s": 0.3}
    path = tmp_path / "space.yaml"
    path.write_text(spec(family=FAMILY, sizes=[8, 16], seeds=1, settings=settings, **values).to_yaml())
    return path


def run_into(reader: str, tmp_path: Path, *, stop_after: str = "", together: bool = False) -> tuple[int, str]:
    """Run a sweep whose output is read by a program. Return the sweep's exit code and its stderr.

    After the text ``stop_after`` is in the sweep's home, Ctrl-C reaches the sweep. With ``together``, its stderr goes
    to the reader, too.
    """
    command = line("run", slow_space(tmp_path), "--engine=local", "--record=jsonl", "--home", tmp_path / "home")
    with subprocess.Popen([sys.executable, "-c", reader], stdin=subprocess.PIPE) as reading:
        assert reading.stdin is not None
        errors = subprocess.STDOUT if together else subprocess.PIPE
        with subprocess.Popen(command, cwd=ROOT, stdout=reading.stdin, stderr=errors, text=True) as sweep:
            reading.stdin.close()
            try:
                if stop_after:
                    wait_for(lambda: list((tmp_path / "home").glob(stop_after)), 120)
                    reading.kill()
                    reading.wait()
                    sweep.send_signal(signal.SIGINT)
                _, said = sweep.communicate(timeout=120)
            finally:
                sweep.kill()
    return sweep.returncode, said or ""


def resumes(tmp_path: Path) -> str:
    """Return the end of the command that resumes the only sweep."""
    (sweep,) = (tmp_path / "home" / "sweeps").iterdir()
    return f"--engine local --record jsonl --resume {sweep.name}"


@pytest.mark.slow
def test_a_sweep_says_why_it_ends_with_its_reader(tmp_path: Path) -> None:
    """As with ``run ... | head -20``, which reads past the start of the sweep."""
    code, said = run_into(HEAD, tmp_path)
    assert code == 130
    assert "The program that reads this output (such as `head`) has ended" in said
    assert "Continue with" in said
    assert resumes(tmp_path) in said


@pytest.mark.slow
def test_a_reader_that_ends_at_once_starts_nothing(tmp_path: Path) -> None:
    code, said = run_into("", tmp_path)
    assert (code, "nothing was started" in said) == (1, True), said
    assert not list((tmp_path / "home").glob("sweeps/*"))


@pytest.mark.slow
def test_an_interruption_that_also_ends_the_reader_prints_how_to_resume(tmp_path: Path) -> None:
    """As with ``run ... | tee log`` and Ctrl-C."""
    code, said = run_into(TEE, tmp_path, stop_after="sweeps/*/stacks/*")
    assert code == 130
    assert resumes(tmp_path) in said
    assert "Stopped; " in said


@pytest.mark.slow
def test_a_sweep_that_nobody_hears_can_still_be_resumed(tmp_path: Path) -> None:
    """As with ``run ... 2>&1 | head -20``."""
    code, _ = run_into(HEAD, tmp_path, together=True)
    assert code == 130
    assert len(list((tmp_path / "home").glob("sweeps/*/checkpoints/*"))) == 1


@pytest.mark.parametrize("name", ["COLUMNS", "LINES"])
@pytest.mark.parametrize("value", ["0", "00"])
def test_a_terminal_without_a_size_has_the_usual_one(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert Output().size == Output().size
    assert Output().width >= 80
    assert Output().height >= 20
    environment.begin()
    assert name not in os.environ
    monkeypatch.setenv(name, "101")
    environment.begin()
    assert os.environ[name] == "101"


@pytest.mark.slow
@pytest.mark.parametrize("words", [("plan", "add_vs_add_prod", "--profile", "smoke"), ("plan", "nope"), ("--help",)])
def test_columns_of_zero_print_the_same(words: tuple[str, ...]) -> None:
    usual = process(line(*words), environment={**os.environ, "COLUMNS": "80"})
    assert process(line(*words), environment={**os.environ, "COLUMNS": "0"}) == usual
    assert len(usual.out + usual.err) > 100


@pytest.mark.slow
@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONIOENCODING": "latin-1"},
        pytest.param({"PYTHONIOENCODING": "ascii"}, marks=pytest.mark.night),
        {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ],
)
def test_a_question_that_the_terminal_cannot_show_is_escaped(variables: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text(spec(question=f"{CHINESE}?", sizes=[8, 16], seeds=1).to_yaml())
    escaped = CHINESE.encode("ascii", "backslashreplace").decode()
    given, home = {**os.environ, **variables}, tmp_path / "home"
    run = line("run", tmp_path / "space.yaml", "--engine=local", "--home", home)
    for command in (
        run,
        line("status", "--home", home),
        line("explain", "--home", home),
        line("sweeps", "--home", home),
    ):
        ended = process(command, environment=given)
        assert (ended.code, "Error" in ended.err) == (0, False), ended
        if "status" in command or "explain" in command:
            assert escaped[:12] in ended.out.replace("\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["variable", pytest.param("option", marks=pytest.mark.night)])
def test_warnings_as_errors_lose_no_records(how: str, tmp_path: Path) -> None:
    (tmp_path / "space.yaml").write_text(spec(sizes=[8, 16], seeds=1).to_yaml())
    command = line("run", tmp_path / "space.yaml", "--engine=local", "--home", tmp_path / "home")
    variables = dict(os.environ)
    if how == "variable":
        variables["PYTHONWARNINGS"] = "error"
    else:
        command.insert(1, "-Werror")
    ended = process(command, environment=variables, within_s=200)
    assert "not in MLflow yet" not in ended.out
    assert "Warning" not in ended.out + ended.err
    assert ended.code == 0
