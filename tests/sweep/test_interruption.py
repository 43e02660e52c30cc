"""Ctrl-C, or the loss of the terminal, leaves checkpoints from which a resumed sweep continues."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from orchestrator.home.checkpoints import Checkpoints
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.interruption import AT_ONCE_S, stop_signals
from orchestrator.sweep.invocation import Invocation, TimeLimit
from orchestrator.system.errors import SweepError
from tests.chaos.paced import write_space
from tests.chaos.program import ENVIRONMENT, ROOT, evaluations, wait_until_gone
from tests.cli.program import line
from tests.scripted import ScriptedLearner, begun, events
from tests.sweep.sweeps import only_sweep, printed, quiet, run_here, scripted
from tests.waiting import meanwhile, wait_for
from trainables.base import Report

pytestmark = pytest.mark.usefixtures("undrawn")


def interrupt() -> None:
    """Send this process a Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)


def trained_once(log: Path, steps: int) -> bool:
    """Return whether every step of both sizes was trained exactly once."""
    trained = sorted((item.size, item.step) for item in events(log))
    return trained == [(size, step) for size in (8, 16) for step in range(1, steps + 1)]


def test_ctrl_c_leaves_a_checkpoint_of_the_stack_in_this_process(tmp_path: Path) -> None:
    log, console = tmp_path / "log", quiet()
    sweep = scripted(log, {"steps": 20, "pace_s": 0.1})
    meanwhile(lambda: len(events(log)) >= 5, interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_here(sweep, tmp_path, console=console)
    assert 4 <= len(events(log)) < 19
    output = "the stack in training will save a checkpoint by its next evaluation. Press Ctrl-C again"
    assert f"{output} to stop now" in printed(console)
    message = "Stopped; (0 runs|1 run) kept, and 1 checkpoint of runs in training"
    assert re.search(rf"{message}(; \d records? not in MLflow yet; add with `.*`)?\. Continue with", printed(console))
    run_here(sweep, tmp_path, resume="")
    assert trained_once(log, 20)


@contextmanager
def on_a_terminal(space: Path, home: Path, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run a sweep as the first process of a new terminal, until it has trained. Yield the process and the terminal's
    other end."""
    terminal, theirs = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-c", LEADER, *line("run", space, "--home", home, "--record=jsonl", *words)],
        cwd=ROOT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env=os.environ | ENVIRONMENT | {"TERM": "xterm"},
    )
    os.close(theirs)
    try:
        wait_for(lambda: home.exists() and evaluations(home) > 1, 200)
        yield running, terminal
    finally:
        if running.poll() is None:
            for item in psutil.Process(running.pid).children(recursive=True):
                item.kill()
            running.kill()
            running.wait()


LEADER = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # Tests under nohup ignore it, and their children would, too.
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Makes stdin the terminal of this session, then executes the command."""


def everything(terminal: int) -> str:
    """Return what is printed on a terminal until its programs have ended."""
    output = b""
    with suppress(OSError):
        while chunk := os.read(terminal, 1 << 16):
            output += chunk
    return output.decode()


@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=pytest.mark.slow)])
def test_a_sweep_that_loses_its_terminal_leaves_a_checkpoint(engine: str, tmp_path: Path) -> None:
    space, home = write_space(tmp_path, pace_s=0.3, settings={"steps": 60, "pace_s": 0.3}), tmp_path / "home"
    with on_a_terminal(space, home, "--engine", engine) as (running, terminal):
        family = psutil.Process(running.pid).children(recursive=True)
        os.close(terminal)  # The kernel sends SIGHUP, and every later write is an error.
        assert running.wait(timeout=100) == 130
    assert wait_until_gone(family, 60) == []
    assert len(Checkpoints(only_sweep(home).checkpoints).stacks()) == 1


def test_a_second_ctrl_c_ends_a_sweep_at_once_and_shows_the_cursor(tmp_path: Path) -> None:
    space, home = write_space(tmp_path, pace_s=0.3, settings={"steps": 3, "pace_s": 5}), tmp_path / "home"
    with on_a_terminal(space, home, "--engine", "local") as (running, terminal):
        os.write(terminal, b"\x03")
        time.sleep(2 * AT_ONCE_S)
        assert running.poll() is None, "it trains to the next evaluation"
        os.write(terminal, b"\x03")
        output = everything(terminal)
        assert running.wait() == 130
    _, message = output.split("\x1b[?25h")
    assert f"error: {only_sweep(home).id} has stopped: it was interrupted twice" in message
    assert message.rstrip().endswith(
        f"run {space} --home {home} --engine local --record jsonl --resume {only_sweep(home).id}"
    )


def test_under_nohup_the_loss_of_the_terminal_does_not_stop_a_sweep() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert signal.SIGHUP not in stop_signals()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_sweep_stops_at_its_time_limit_and_can_be_resumed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    sweep = scripted(log, {"steps": 20, "pace_s": 0.15})
    with pytest.raises(SweepError, match=r"it reached its time limit of 4 s.*Continue with"):
        run_here(sweep, tmp_path, invocation=Invocation(limit=TimeLimit(4.0)))
    assert 1 <= len(events(log)) < 29
    run_here(sweep, tmp_path, resume="", invocation=Invocation(limit=TimeLimit(600)))
    assert trained_once(log, 20)


def test_an_interrupt_inside_training_leaves_a_sweep_that_this_process_can_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a notebook, any code of the model may raise it."""
    log, advance, raised = tmp_path / "log", ScriptedLearner.advance, list[int]()

    def advance_or_raise(learner: ScriptedLearner) -> list[Report]:
        if learner.runs[0].size == 16 and not raised:
            raised.append(1)
            raise KeyboardInterrupt
        return advance(learner)

    monkeypatch.setattr(ScriptedLearner, "advance", advance_or_raise)
    sweep = scripted(log, {"steps": 3})
    with pytest.raises(KeyboardInterrupt):
        run_here(sweep, tmp_path)
    run_here(sweep, tmp_path, resume="")
    assert trained_once(log, 3)


def interrupted(tmp_path: Path, sweep: SweepSpec, ready: Callable[[], bool]) -> tuple[str, float]:
    """Run a sweep under Ray and send Ctrl-C to all its processes as a terminal does. Return its output and the
    seconds it took to end."""
    (tmp_path / "space.yaml").write_text(sweep.to_yaml())
    with subprocess.Popen(
        line("run", tmp_path / "space.yaml", "--home", tmp_path / "home", "--record=jsonl"),
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    ) as driver:  # fmt: skip
        deadline = time.monotonic() + 400
        while not ready() and time.monotonic() < deadline and driver.poll() is None:
            time.sleep(0.05)
        pressed = time.monotonic()
        os.killpg(driver.pid, signal.SIGINT)
        output, _ = driver.communicate(timeout=300)
        assert driver.returncode == 130, output
        return output, time.monotonic() - pressed


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_ctrl_c_leaves_checkpoints_of_all_stacks_under_ray(tmp_path: Path) -> None:
    log = tmp_path / "log"
    sweep = scripted(log, {"steps": 30, "pace_s": 0.25})
    output, _ = interrupted(
        tmp_path, sweep, lambda: {(8, 4), (16, 4)} <= {(item.size, item.step) for item in events(log)}
    )
    assert "2 stacks will save checkpoints by their next evaluations" in output
    assert "Traceback" not in output
    [again] = [line.strip() for line in output.splitlines() if "--resume" in line]
    home = tmp_path / "home"
    sweep_id = only_sweep(home).id
    assert again == f"orchestrator run {tmp_path / 'space.yaml'} --home {home} --record jsonl --resume {sweep_id}"
    before = len(events(log))
    assert 8 <= before < 58
    run_here(sweep, home, resume=sweep_id)
    assert trained_once(log, 30)


@pytest.mark.night
@pytest.mark.timeout(900)
def test_ctrl_c_does_not_wait_for_data_under_ray(tmp_path: Path) -> None:
    log = tmp_path / "log"
    _, took = interrupted(tmp_path, scripted(log, {"data_s": 400}), lambda: len(begun(log)) == 2)
    assert took < 200
    assert (len(begun(log)), events(log)) == (2, [])
