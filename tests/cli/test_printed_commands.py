"""Every command that a sweep prints does what it says: it is cut out of the output and run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from orchestrator.home.files import Home
from tests.cli.program import Ended, Program, program
from tests.sweep.sweeps import ended, spec


@pytest.fixture(name="run")
def run_program(capsys: pytest.CaptureFixture[str]) -> Program:
    return program(capsys)


def printed_command(said: str, after: str) -> list[str]:
    """The words of the command on the line after the one that begins so."""
    [line] = re.findall(rf"^{after}.*\n +python -m orchestrator (.*)$", said, re.MULTILINE)
    return shlex.split(line)


def newest(home: Path) -> str:
    return Home(home).sweep_ids()[0]


def trained(home: Path) -> int:
    """Runs that the newest sweep trained itself."""
    return sum(not entry.reused_from for entry in ended(home, newest(home)))


def begin(run: Program, tmp_path: Path, *words: str, **changes: object) -> Ended:
    space = tmp_path / "asked.yaml"
    space.write_text(spec(**changes).to_yaml())
    done = run("run", space, "--home", tmp_path / "home", "--local-debug", *words)
    assert done.code == 0, done.err
    return done


@pytest.mark.parametrize(
    ("changes", "trains"),
    [
        ({"search": {"method": "bayes", "max_runs": 2}}, "seeds=4"),
        ({"sizes": [8, 12]}, "x2"),
        ({"sizes": [64, 96]}, "sizes="),
        ({"sizes": [24, 32], "settings": {"curve": {"midpoint": 60, "help": 1.5}}}, "sizes="),
    ],
    ids=["undecided after max_runs=2", "nothing learned", "learned at every size", "one not learned"],
)
def test_the_next_step_trains_what_it_says(
    run: Program, tmp_path: Path, changes: dict[str, object], trains: str
) -> None:
    home = tmp_path / "home"
    first = begin(run, tmp_path, **changes)
    words, before = printed_command(first.out, "next"), newest(home)
    assert trains in " ".join(words)
    done = run(*words)
    assert done.code == 0, done.err
    assert newest(home) != before
    assert trained(home) > 0


def test_explain_prints_the_same_step_as_a_command_of_its_own(run: Program, tmp_path: Path) -> None:
    home = tmp_path / "home"
    first = begin(run, tmp_path, search={"method": "bayes", "max_runs": 2})
    said = run("explain", newest(home), "--home", home).out
    [why] = re.findall(r"^next +(.*)$", first.out, re.MULTILINE)
    assert why in " ".join(said.split())
    [line] = re.findall(r"^ +python -m orchestrator (.*)$", said, re.MULTILINE)
    done = run(*shlex.split(line), "--local-debug")
    assert done.code == 0, done.err
    assert trained(home) > 0
