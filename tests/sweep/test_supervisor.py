"""A sweep survives the death of its driver, of Ray's daemon and of Ray's head, and reports it."""

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

import psutil
import pytest
from ray.cluster_utils import Cluster

from orchestrator import supervisor
from orchestrator.home.directories import Home
from orchestrator.home.journal import recall
from orchestrator.supervisor import RESTARTS
from orchestrator.sweep.interruption import AT_ONCE_S
from orchestrator.sweep.run_options import RunOptions
from tests.chaos.paced import RUNS, SEEDS, write_space
from tests.chaos.program import ROOT, Program, journalled, wait_until_gone

PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from orchestrator import supervisor

supervisor.begin()
plan = Path(sys.argv[1])
if not supervisor.has_parent():
    sys.exit(supervisor.supervise(sys.argv[1:], lambda said: print(said, flush=True)))
now, *later = plan.read_text().split()
first = plan.with_suffix(".begun")
first, _ = not first.exists(), first.touch()
plan.write_text(" ".join(later))
assert supervisor.resumed() == (None if first else "ID")
if now != "fails":
    supervisor.tell("sweep", "ID")
if now == "drives":
    from types import SimpleNamespace as Fake
    from orchestrator.sweep.interruption import stop_on_interrupt
    campaign = Fake(table=Fake(busy=0), stopping=False)
    with stop_on_interrupt(campaign):
        os.write(1, b"driver %d\\n" % os.getpid())
        while not campaign.stopping:
            time.sleep(0.02)
        os.write(1, b"stopping\\n")
        while True:
            time.sleep(0.02)
if now == "late":
    time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGKILL)
if now == "limited":
    from orchestrator.sweep.run_options import TimeLimit
    print("over" if TimeLimit(1.0).is_over else "left", flush=True)
    now = "ends"
if now == "waits":
    print("waiting", flush=True)
    signal.pause()
if now == "dies":
    os.kill(os.getpid(), signal.SIGKILL)
if now == "lost":
    os._exit(supervisor.LOST_RAY)
supervisor.tell("ended")
sys.exit({"ends": 0, "fails": 1, "refuses": 2}[now])
"""
"""A supervisor whose driver follows a plan file: at each start it takes one word of it."""

AGAIN = "Continue with the same command and --resume ID"


@pytest.mark.parametrize(
    ("plan", "code", "output"),
    [
        ("fails ends", 1, []),
        ("dies ends", 0, ["was killed (SIGKILL)"]),
        ("lost ends", 0, ["Ray died"]),
        ("dies fails ends", 0, ["was killed", "could not start"]),
        ("dies dies fails fails ends", 1, ["was killed", "was killed", "could not start", "could not start"]),
        ("dies refuses ends", 2, ["was killed"]),
    ],
)
def test_a_driver_that_dies_is_restarted_up_to_three_times(
    plan: str, code: int, output: list[str], tmp_path: Path
) -> None:
    with begin(tmp_path, plan) as running:
        lines = rest(running).splitlines()
    assert running.returncode == code
    for number, (line, cause) in enumerate(zip(lines, output, strict=True), start=1):
        assert cause in line
        assert line.endswith(AGAIN if number > RESTARTS else f"Resuming with a new Ray ({number} of {RESTARTS})")


@contextmanager
def begin(tmp_path: Path, plan: str) -> Iterator[subprocess.Popen[str]]:
    """Run the program with this plan for the duration of a block."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "plan").write_text(plan)
    command = [sys.executable, str(tmp_path / "program.py"), str(tmp_path / "plan")]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        process_group=0,  # Like a job of a shell. SIGTSTP does not stop an orphaned process group.
    ) as running:
        try:
            yield running
        except BaseException:
            running.kill()
            raise


def read_until(running: subprocess.Popen[str], words: str) -> str:
    """Return the rest of the first line that begins with these words."""
    assert running.stdout is not None
    for line in running.stdout:
        if line.startswith(words):
            return line.removeprefix(words).strip()
    raise AssertionError(f"no {words}")


def rest(running: subprocess.Popen[str]) -> str:
    """Return all remaining output."""
    assert running.stdout is not None
    return running.stdout.read()


def test_a_restarted_driver_resumes_its_sweep_with_any_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_resumed", "ID")
    for given in (RunOptions(extend="old"), RunOptions(fresh=True)):
        again = given.started()
        assert (again.resume, again.extend, again.fresh) == ("ID", None, False)


def test_a_time_limit_includes_the_time_before_a_restart(tmp_path: Path) -> None:
    with begin(tmp_path, "late limited") as running:
        assert "over" in rest(running).splitlines()


def test_a_driver_that_dies_while_stopping_is_not_restarted(tmp_path: Path) -> None:
    with begin(tmp_path, "waits ends") as running:
        read_until(running, "waiting")
        running.send_signal(signal.SIGTERM)
        assert f"stopped immediately, as requested; finished runs are kept. {AGAIN}" in rest(running)
    assert running.returncode == 130
    assert (tmp_path / "plan").read_text() == "ends"


@pytest.mark.parametrize("all_at_once", [True, False], ids=["to all", "to the parent"])
def test_a_second_signal_ends_the_driver_at_once(all_at_once: bool, tmp_path: Path) -> None:
    with begin(tmp_path, "drives") as running:
        driver = int(read_until(running, "driver"))
        running.send_signal(signal.SIGTERM)
        if all_at_once:
            os.kill(driver, signal.SIGTERM)
        read_until(running, "stopping")
        time.sleep(2 * AT_ONCE_S)
        assert running.poll() is None
        running.send_signal(signal.SIGTERM)
        assert "stopping" not in rest(running)
    assert running.returncode == 130


def test_a_driver_dies_with_its_parent(tmp_path: Path) -> None:
    with begin(tmp_path, "drives") as running:
        driver = psutil.Process(int(read_until(running, "driver")))
        running.kill()
        assert wait_until_gone([driver], 30) == []


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """A sweep of which two runs have ended."""
    begun = Program(write_space(tmp_path, pace_s=0.3, seeds=1), tmp_path / "home", tmp_path / "output")
    try:
        begun.wait_for_runs(2)
        yield begun
    finally:
        begun.kill()


NIGHT = pytest.mark.night


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["raylet", pytest.param("gcs", marks=NIGHT), pytest.param("driver", marks=NIGHT)])
def test_a_sweep_is_resumed_automatically_after_a_process_dies(victim: str, program: Program) -> None:
    getattr(program, victim).send_signal(signal.SIGKILL)
    assert program.end() == 0
    output = program.log.read_text()
    [sweep_id] = Home(program.home).sweep_ids()
    what = r"the driver was killed \(SIGKILL\)" if victim == "driver" else "Ray died|the driver exited with code"
    assert re.search(rf"^error: ({what}).*; finished runs are kept. Resuming with a new Ray \(1 of 3\)", output, re.M)
    assert output.count("90% intervals") == 1
    assert recall(Home(program.home).sweep(sweep_id)).answered
    runs = journalled(program.home)
    assert len(runs) == len({entry.key for entry in runs}) == RUNS // SEEDS


@pytest.mark.night
def test_a_sweep_resumes_after_its_supervisor_died_and_can_reprint_its_answer(program: Program, tmp_path: Path) -> None:
    driver = program.driver
    program.process.kill()
    driver.wait(timeout=30)
    stored = journalled(program.home)
    space = tmp_path / "paced.yaml"
    first = Program(space, program.home, tmp_path / "first", "--resume")
    assert first.end() == 0
    assert journalled(program.home)[: len(stored)] == stored
    again = Program(space, program.home, tmp_path / "again", "--resume")
    assert again.end() == 0
    [sweep_id] = Home(program.home).sweep_ids()
    assert f"{sweep_id} already has an answer" in again.log.read_text()
    output = first.log.read_text()
    table = output[output.index(": size at") :].partition("figure ")[0]
    assert table in again.log.read_text()
    assert len(journalled(program.home)) == RUNS // SEEDS


@pytest.mark.night
def test_the_message_for_a_dead_cluster_head_explains_how_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "10")  # Ray's default is 60.
    cluster = Cluster()
    head = cluster.add_node(num_cpus=2)
    space, home = write_space(tmp_path, pace_s=0.3), tmp_path / "home"
    program = Program(space, home, tmp_path / "output", "--address", cluster.address)
    try:
        program.wait_for_runs(2)
        head.kill_gcs_server()
        assert program.end() == 1
    finally:
        program.kill()
        cluster.shutdown()
    [sweep_id] = Home(home).sweep_ids()
    output = program.log.read_text()
    assert re.search(r"^error: .*; finished runs are kept. Continue with", output, re.MULTILINE)
    assert output.rstrip().endswith(f"--resume {sweep_id}")
    assert Program(space, home, tmp_path / "resumed", "--resume", sweep_id).end() == 0
    assert len(journalled(home)) == RUNS
