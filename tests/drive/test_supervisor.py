"""A sweep outlives what dies beneath it: the driver, Ray's daemon, Ray's head; and says so."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

from orchestrator.drive.stopping import AT_ONCE_S
from orchestrator.drive.supervisor import resuming
from orchestrator.store import lifecycle
from orchestrator.store.files import Home
from tests.chaos.paced import RUNS, write_space
from tests.chaos.program import ROOT, Program, journalled


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


PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from orchestrator import supervised
from orchestrator.drive.supervisor import supervise

supervised.begin()
plan = Path(sys.argv[1])

def say(said):
    print(said, flush=True)
    if "Going on" in said and plan.with_name("asked").exists():
        os.kill(os.getpid(), signal.SIGTERM)

def drive():
    from orchestrator.drive.stopping import TimeLimit, stop_on_interrupt
    told = 0
    signal.signal(signal.SIGURG, lambda *_: os.write(1, b"alive\\n"))
    signal.signal(signal.SIGUSR1, lambda *_: [signal.raise_signal(signal.SIGTERM) for _ in range(2)])
    with stop_on_interrupt(lambda: os.write(1, b"stopping\\n"), TimeLimit()):
        os.write(1, b"driver %d\\n" % os.getpid())
        while True:
            time.sleep(0.02)
            if supervised.asked() > told:
                told = supervised.asked()
                os.write(1, b"handed on %d\\n" % told)

if not supervised.is_supervised():
    sys.exit(supervise(sys.argv[1:], say))
now, *later = plan.read_text().split()
plan.write_text(" ".join(later))
if now in ("dies", "ends", "waits", "drives"):
    supervised.tell(home="nowhere", sweep="ID")
if now == "drives":
    drive()
if now in ("waits", "begins"):
    print("waiting", flush=True)
    signal.pause()
if now == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
code = {"ends": 0, "fails": 1, "refuses": 2}[now]
supervised.tell(ended=code)
sys.exit(code)
"""
"""Watched over by itself, it does what the file that it is given says, word by word, each time that it is started."""


@pytest.mark.parametrize(
    ("plan", "code", "said"),
    [
        ("fails ends", 1, ""),
        ("dies ends", 0, "KILLED (1 of 3)."),
        ("dies fails ends", 0, "KILLED (1 of 3). FAILED (2 of 3)."),
        ("dies dies fails fails ends", 1, "KILLED (1 of 3). KILLED (2 of 3). FAILED (3 of 3). FAILED AGAIN"),
        ("dies refuses ends", 2, "KILLED (1 of 3)."),
    ],
)
def test_a_start_that_does_not_come_to_the_sweep_is_tried_again(
    plan: str, code: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "plan").write_text(plan)
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py", tmp_path / "plan"],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    kept, going = "0 runs of ID are kept.", "Going on with a new Ray"
    words = {
        "KILLED": f"the program that drives the sweep was killed (SIGKILL); {kept} {going}",
        "FAILED AGAIN": f"the new start failed, as said above; {kept} It has died 4 times. "
        "Continue with the same command and --resume ID",
        "FAILED": f"the new start failed, as said above; {kept} {going}",
    }
    expected = re.sub("KILLED|FAILED AGAIN|FAILED", lambda found: words[found[0]], said)
    assert done.stdout.split() == expected.split()


KEPT = "0 runs of ID are kept. Continue with the same command and --resume ID"


@contextmanager
def begin(tmp_path: Path, plan: str) -> Iterator[subprocess.Popen[str]]:
    """A block in which the program with this plan runs, and after which it has ended."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "plan").write_text(plan)
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "plan")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    ) as running:
        try:
            yield running
        except BaseException:
            running.kill()
            raise


def read_until(running: subprocess.Popen[str], words: str) -> str:
    """What is said up to the line that begins with these words, the rest of that."""
    assert running.stdout is not None
    said = ""
    for line in running.stdout:
        said += line
        if line.startswith(words):
            return line.removeprefix(words).strip()
    raise AssertionError(f"no {words} in {said!r}")


def rest(running: subprocess.Popen[str]) -> str:
    """What is said from now on, to the end."""
    assert running.stdout is not None
    return running.stdout.read()


@pytest.mark.parametrize("plan", ["waits ends", "dies begins ends"])
def test_a_sweep_that_was_asked_to_stop_and_could_not_as_it_should_is_not_gone_on_with(
    plan: str, tmp_path: Path
) -> None:
    with begin(tmp_path, plan) as running:
        read_until(running, "waiting")
        running.send_signal(signal.SIGTERM)
        assert rest(running) == f"asked to stop, the sweep has ended at once; {KEPT}\n"
    assert running.returncode == 130
    assert (tmp_path / "plan").read_text() == "ends"


def test_one_that_is_asked_to_stop_between_two_starts_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "asked").touch()
    with begin(tmp_path, "dies ends") as running:
        read_until(running, "the program that drives the sweep was killed (SIGKILL)")
        assert rest(running) == f"asked to stop before the new start; {KEPT}\n"
    assert running.returncode == 130
    assert (tmp_path / "plan").read_text() == "ends"


@pytest.mark.parametrize("driver_first", [True, False])
def test_what_asks_all_processes_asks_once_and_who_asks_again_means_at_once(driver_first: bool, tmp_path: Path) -> None:
    with begin(tmp_path, "drives") as running:
        driver = int(read_until(running, "driver"))
        order = [driver, running.pid] if driver_first else [running.pid, driver]
        os.kill(order[0], signal.SIGUSR1 if driver_first else signal.SIGTERM)  # Which it takes as two SIGTERM at once.
        read_until(running, "stopping" if driver_first else "handed on 1")
        os.kill(order[1], signal.SIGTERM)
        if driver_first:
            read_until(running, "handed on 1")
        os.kill(driver, signal.SIGURG)
        read_until(running, "alive")
        time.sleep(AT_ONCE_S)
        os.kill(order[1], signal.SIGTERM)
        assert "stopping" not in (said := rest(running))
    assert said.endswith(f"asked to stop, the sweep has ended at once; {KEPT}\n")
    assert running.returncode == 130


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """A sweep that has begun: two of its runs have ended."""
    begun = Program(write_space(tmp_path, pace_s=0.3), tmp_path / "home", tmp_path / "said")
    try:
        begun.wait_for_runs(2)
        yield begun
    finally:
        begun.kill()


NIGHT = pytest.mark.night


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["raylet", pytest.param("gcs", marks=NIGHT), pytest.param("driver", marks=NIGHT)])
def test_the_sweep_goes_on_by_itself(victim: str, program: Program) -> None:
    getattr(program, victim).send_signal(signal.SIGKILL)
    assert program.end() == 0
    said = program.log.read_text()
    [sweep_id] = Home(program.home).sweep_ids()
    what = {
        "raylet": r"Ray's raylet \(.*\) died",
        "gcs": r"Ray's GCS \(.*\) died",
        "driver": r"the program that drives the sweep was killed \(SIGKILL\)",
    }[victim]
    kept = rf"\d+ runs of {sweep_id} are kept. Going on with a new Ray \(1 of 3\)"
    assert re.search(rf"^error: {what}; {kept}", said, re.MULTILINE)
    assert said.count("90% intervals") == 1
    assert lifecycle.recall(Home(program.home).sweep(sweep_id)).answered
    runs = journalled(program.home)
    assert len(runs) == len({entry.key for entry in runs}) == RUNS


@pytest.mark.slow
def test_the_driver_dies_with_its_supervisor_and_resume_goes_on_and_later_prints_the_answer_again(
    program: Program, tmp_path: Path
) -> None:
    driver = program.driver
    program.process.kill()
    driver.wait(timeout=30)
    kept = journalled(program.home)
    space = tmp_path / "paced.yaml"
    first = Program(space, program.home, tmp_path / "first", "--resume")
    assert first.end() == 0
    assert journalled(program.home)[: len(kept)] == kept
    again = Program(space, program.home, tmp_path / "again", "--resume")
    assert again.end() == 0
    [sweep_id] = Home(program.home).sweep_ids()
    assert f"{sweep_id} has its answer already" in again.log.read_text()
    said = first.log.read_text()
    table = said[said.index("target add") :].partition("figure ")[0]
    assert table in again.log.read_text()
    assert len(journalled(program.home)) == RUNS


@pytest.mark.night
def test_where_the_head_of_a_cluster_dies_it_is_said_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "10")  # Ray's own is 60.
    cluster = Cluster()
    head = cluster.add_node(num_cpus=2)
    space, home = write_space(tmp_path, pace_s=0.3), tmp_path / "home"
    program = Program(space, home, tmp_path / "said", "--address", cluster.address)
    try:
        program.wait_for_runs(2)
        head.kill_gcs_server()
        assert program.end() == 1
    finally:
        program.kill()
        cluster.shutdown()
    [sweep_id] = Home(home).sweep_ids()
    said = program.log.read_text()
    assert re.search(rf"^error: .*; \d+ runs of {sweep_id} are kept. Continue with", said, re.MULTILINE)
    assert said.rstrip().endswith(f"--resume {sweep_id}")
    assert Program(space, home, tmp_path / "resumed", "--resume", sweep_id).end() == 0
    assert len(journalled(home)) == RUNS
