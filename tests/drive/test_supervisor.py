"""A sweep outlives what dies beneath it: the driver, Ray's daemon, Ray's head; and says so."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray.cluster_utils import Cluster

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
import os, signal, sys
from pathlib import Path
from orchestrator import supervised
from orchestrator.drive.supervisor import supervise

supervised.begin()
if not supervised.is_supervised():
    sys.exit(supervise(sys.argv[1:], lambda said: print(said, flush=True)))
plan = Path(sys.argv[1])
now, *later = plan.read_text().split()
plan.write_text(" ".join(later))
if now in ("dies", "ends", "waits"):
    supervised.tell(home="nowhere", sweep="ID")
if now == "waits":
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


def test_a_sweep_that_was_asked_to_stop_and_could_not_as_it_should_is_not_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "plan").write_text("waits ends")
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "plan")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "waiting\n"
        running.send_signal(signal.SIGTERM)
        said = running.stdout.read()
    assert running.returncode == 128 + signal.SIGTERM
    kept = "0 runs of ID are kept. Continue with the same command and --resume ID"
    assert said == f"asked to stop, the sweep has ended at once; {kept}\n"
    assert (tmp_path / "plan").read_text() == "ends"


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
