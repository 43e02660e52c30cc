"""A sweep outlives what dies beneath it: the driver, Ray's daemon, Ray's head; and says so."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from orchestrator.drive.supervisor import resuming
from orchestrator.store import lifecycle
from orchestrator.store.files import Home
from orchestrator.store.journal import Ended, read_journal
from tests.drive.slow_space import write_space

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["run", "a"], ["run", "a", "--resume=ID"]),
        (["run", "a", "--resume=", "--debug"], ["run", "a", "--debug", "--resume=ID"]),
        (["run", "--resume", "--debug", "a"], ["run", "--debug", "a", "--resume=ID"]),
        (["run", "a", "--resume", "old", "--retry-failed"], ["run", "a", "--retry-failed", "--resume=ID"]),
        (["run", "a", "--fresh", "--extend", "old"], ["run", "a", "--resume=ID"]),
        (["run", "a", "--extend=old", "--set", "seeds=3"], ["run", "a", "--set", "seeds=3", "--resume=ID"]),
    ],
)
def test_the_same_command_is_given_with_resume(given: list[str], expected: list[str]) -> None:
    assert resuming(given, "ID") == expected


@pytest.fixture
def program(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A slow sweep in ``tmp_path/home``, begun: some of its runs have ended."""
    path = write_space(tmp_path)
    command = [sys.executable, "-m", "orchestrator", "run", str(path), "--home", str(tmp_path / "home")]
    begun = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ
    )
    try:
        wait_for_runs(tmp_path / "home", 2)
        yield begun
    finally:
        begun.kill()
        begun.communicate()


def runs(home: Path) -> list[Ended]:
    entries = [each for one in Home(home).sweep_ids() for each in read_journal(Home(home).sweep(one).journal)]
    return [entry for entry in entries if isinstance(entry, Ended)]


def wait_for_runs(home: Path, count: int, within_s: float = 200.0) -> None:
    until = time.monotonic() + within_s
    while len(runs(home)) < count:
        assert time.monotonic() < until, f"fewer than {count} runs ended"
        time.sleep(0.1)


def driver_of(program: subprocess.Popen[str]) -> psutil.Process:
    [driver] = [each for each in psutil.Process(program.pid).children() if "orchestrator" in " ".join(each.cmdline())]
    return driver


def part_of(program: subprocess.Popen[str], name: str) -> psutil.Process:
    [part] = [each for each in driver_of(program).children() if each.name() == name]
    return part


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["raylet", "gcs_server", "driver"])
def test_the_sweep_goes_on_by_itself(victim: str, program: subprocess.Popen[str], tmp_path: Path) -> None:
    home = tmp_path / "home"
    killed = driver_of(program) if victim == "driver" else part_of(program, victim)
    killed.send_signal(signal.SIGKILL)
    said, told = program.communicate(timeout=250)
    assert program.returncode == 0, told
    [sweep_id] = Home(home).sweep_ids()
    what = {"raylet": "Ray's raylet", "gcs_server": "Ray's GCS", "driver": "the program that drives the sweep"}[victim]
    assert re.search(
        rf"^error: {what} .*(died|killed).*; \d+ runs of {sweep_id} are kept. Going on with a new Ray \(1 of 3\)",
        told,
        re.MULTILINE,
    )
    assert "add+prod needs" in said or "90% intervals" in said
    assert lifecycle.recall(Home(home).sweep(sweep_id)).answered
    assert len(runs(home)) == len({entry.key for entry in runs(home)}) == 12


@pytest.mark.slow
def test_the_driver_dies_with_its_supervisor_and_bare_resume_goes_on_and_later_prints_the_answer_again(
    program: subprocess.Popen[str], tmp_path: Path
) -> None:
    home, driver = tmp_path / "home", driver_of(program)
    program.kill()
    driver.wait(timeout=30)
    kept = runs(home)
    resumed = [*program.args, "--resume"]  # type: ignore[misc] # what Popen was given is a list here
    first = subprocess.run(resumed, capture_output=True, text=True, timeout=250, cwd=ROOT)
    assert first.returncode == 0, first.stderr
    assert runs(home)[: len(kept)] == kept
    again = subprocess.run(resumed, capture_output=True, text=True, timeout=250, cwd=ROOT)
    assert again.returncode == 0, again.stderr
    [sweep_id] = Home(home).sweep_ids()
    assert f"{sweep_id} has its answer already" in again.stdout
    table = first.stdout[first.stdout.index("target add") :].partition("figure ")[0]
    assert table in again.stdout
    assert len(runs(home)) == 12
