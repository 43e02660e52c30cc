"""Ctrl-Z, `fg`, a lost terminal, `nohup` and a terminal without a width, with real processes."""

from __future__ import annotations

import os
import pty
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

from orchestrator.environment import with_usable_size
from orchestrator.home.checkpoints import Checkpoints
from orchestrator.home.directories import Home
from orchestrator.supervisor import stop_signals
from tests.chaos.paced import write_space
from tests.chaos.program import ENVIRONMENT, ROOT, evaluations
from tests.cli.program import line, process
from tests.sweep.test_supervisor import PROGRAM, begin, read_until, rest
from tests.waiting import wait_for


def status(process: psutil.Process) -> str:
    return str(process.status())


def test_ctrl_z_suspends_parent_and_driver_and_fg_continues_both(tmp_path: Path) -> None:
    with begin(tmp_path, "drives") as running:
        driver = psutil.Process(int(read_until(running, "driver")))
        parent = psutil.Process(running.pid)
        for _ in range(2):
            running.send_signal(signal.SIGTSTP)
            wait_for(lambda: status(driver) == psutil.STATUS_STOPPED, 30)
            wait_for(lambda: status(parent) == psutil.STATUS_STOPPED, 30)
            running.send_signal(signal.SIGCONT)
            wait_for(lambda: psutil.STATUS_STOPPED not in (status(driver), status(parent)), 30)
        running.send_signal(signal.SIGTERM)
        read_until(running, "stopping")
        driver.kill()
        rest(running)


def test_a_driver_writes_to_a_terminal_with_tostop(tmp_path: Path) -> None:
    """After ``stty tostop`` a process outside the terminal's foreground group is stopped when it writes to the
    terminal."""
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "plan").write_text("drives")
    program = f"exec {sys.executable} {tmp_path / 'program.py'} {tmp_path / 'plan'}"
    with on_a_terminal(["sh", "-c", f"stty tostop; {program}"]) as (_, terminal):
        assert b"driver" in os.read(terminal, 100)


def test_a_sweep_that_loses_its_terminal_leaves_a_checkpoint(tmp_path: Path) -> None:
    space, home = write_space(tmp_path, pace_s=0.3, settings={"steps": 60, "pace_s": 0.3}), tmp_path / "home"
    with on_a_terminal(line("run", space, "--home", home, "--engine=local")) as (running, terminal):
        wait_for(lambda: home.exists() and evaluations(home) > 1, 200)
        os.close(terminal)  # The kernel sends SIGHUP, and every later write is an error.
        assert running.wait(timeout=100) == 130
    [sweep_id] = Home(home).sweep_ids()
    assert len(Checkpoints(Home(home).sweep(sweep_id).checkpoints).stacks()) == 1


def test_under_nohup_the_loss_of_the_terminal_does_not_stop_a_sweep() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert signal.SIGHUP not in stop_signals()
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.night
@pytest.mark.timeout(600)
def test_ctrl_z_in_a_shell_suspends_all_of_ray_and_fg_completes_the_sweep(tmp_path: Path) -> None:
    space, home = write_space(tmp_path, pace_s=0.3), tmp_path / "home"
    with on_a_terminal(["bash", "--norc", "-i"]) as (shell, terminal):
        os.write(terminal, f"{' '.join(line('run', space, '--home', home))}; echo code $?\n".encode())
        wait_for(lambda: home.exists() and evaluations(home) > 1, 200)
        family = psutil.Process(shell.pid).children(recursive=True)
        os.write(terminal, b"\x1a")
        wait_for(lambda: {status(item) for item in family if item.is_running()} == {psutil.STATUS_STOPPED}, 60)
        before = evaluations(home)
        time.sleep(2)
        assert evaluations(home) == before
        os.write(terminal, b"fg; echo code $?\n")
        output = ""
        # Only the code after the echoed `fg;` counts; the one before belongs to the stopped command.
        while "fg;" not in output or not (ended := re.search(r"code (\d+)\r", output.rpartition("fg;")[2])):
            output += os.read(terminal, 1 << 16).decode(errors="replace")
        assert ended[1] == "0", output
        shell.kill()


@contextmanager
def on_a_terminal(command: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run a command as the first process of a new terminal. Yield the process and the terminal's other end."""
    terminal, theirs = pty.openpty()
    running = subprocess.Popen(
        [sys.executable, "-c", LEADER, *command],
        cwd=ROOT,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env=os.environ | ENVIRONMENT | {"TERM": "xterm"},
    )
    os.close(theirs)
    try:
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


@pytest.mark.parametrize("name", ["COLUMNS", "LINES"])
@pytest.mark.parametrize(("given", "usable"), [("0", False), ("00", False), ("-1", False), ("", False), ("80", True)])
def test_an_unusable_terminal_size_is_ignored(name: str, given: str, usable: bool) -> None:
    assert (name in with_usable_size({name: given, "TERM": "xterm"})) is usable


def test_programs_print_everything_with_a_width_of_zero(tmp_path: Path) -> None:
    environment = os.environ | {"LINES": "0", "COLUMNS": "0", "FORCE_COLOR": "1", "PYTHONPATH": str(ROOT)}
    assert "add_vs_add_prod" in process(line("show"), environment=environment).succeeded()
    code = (
        "import orchestrator as o, sys\nfrom tests.sweep.sweeps import spec\n"
        "o.run(spec(sizes=[16, 64], seeds=1), home=sys.argv[1], engine='local')"
    )
    output = process([sys.executable, "-c", code, tmp_path], environment=environment).succeeded()
    assert "90% intervals" in output


@pytest.mark.night
def test_a_script_that_sets_its_arguments_and_calls_main_drives_a_sweep(tmp_path: Path) -> None:
    space = write_space(tmp_path, pace_s=0.0, sizes=[16], seeds=1)
    script = tmp_path / "script.py"
    words = ["orchestrator", "run", str(space), "--home", str(tmp_path / "home")]
    script.write_text(f"import sys\nsys.argv = {words}\nfrom orchestrator.cli.main import main\nmain()\n")
    output = process([sys.executable, str(script), "an argument"], environment=os.environ | ENVIRONMENT).succeeded()
    assert "90% intervals" in output
