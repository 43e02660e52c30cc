"""A sweep of :mod:`tests.chaos.paced` as a separate program, and its processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from orchestrator.history.journal import Ended, read_journal
from orchestrator.home.directories import Home

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "COLUMNS": "200", "RAY_worker_niceness": "0"}
"""Environment of programs and their Rays: workers find these families and keep their normal priority."""
PATIENCE_S = 900.0
"""Longest wait, in seconds. Starting Ray and a worker takes 10 s on an idle machine and minutes on a busy one."""
POLL_EVERY_S = 0.1
"""Seconds between two scans of all processes, each of which takes some milliseconds."""
RAYLET, GCS = "raylet/raylet", "gcs/gcs_server"
"""Patterns in the command lines of Ray's daemon and of Ray's head."""
WORKER = "ray::StackTrial"
"""Ray's name for a training process."""


class Program:
    """``run`` on a search space, with its output in ``log``."""

    def __init__(self, space: Path, home: Path, log: Path, *words: str, on: Sequence[str] = ()) -> None:
        """Start the program. ``on`` are words before the command, which run it elsewhere."""
        self.home = home
        self.log = log
        self.command = [*on, sys.executable, "-m", "orchestrator", "run", str(space), "--home", str(home)]
        environment = os.environ | ENVIRONMENT
        with log.open("a") as output:
            self.process = subprocess.Popen(
                [*self.command, *words], stdout=output, stderr=output, cwd=ROOT, env=environment
            )

    @property
    def driver(self) -> psutil.Process:
        """The process that drives the sweep. Raises ``NoSuchProcess`` once it has ended."""
        if self.process.poll() is not None:
            raise psutil.NoSuchProcess(self.process.pid)
        return psutil.Process(self.process.pid)

    @property
    def raylet(self) -> psutil.Process:
        return self._part(RAYLET)

    @property
    def gcs(self) -> psutil.Process:
        return self._part(GCS)

    @property
    def workers(self) -> list[psutil.Process]:
        """The current training processes, the newest last."""
        return self._parts(RAYLET, WORKER)

    @property
    def family(self) -> list[psutil.Process]:
        """The program and all processes that it started, including its own Ray; empty once it has ended."""
        if self.process.poll() is not None:
            return []
        program = psutil.Process(self.process.pid)
        return [program, *program.children(recursive=True)]

    def wait_for_runs(self, count: int) -> None:
        """Wait until this many runs are journalled. Raises ``TimeoutError``, also if the program ends before that."""
        until = time.monotonic() + PATIENCE_S
        while len(journalled(self.home)) < count:
            if time.monotonic() > until or self.process.poll() is not None:
                raise TimeoutError(f"fewer than {count} runs after {PATIENCE_S:g} s:\n{self.log.read_text()}")
            time.sleep(POLL_EVERY_S)

    def end(self) -> int:
        """Wait for the program to end, and return its exit code. Raises ``subprocess.TimeoutExpired``."""
        return self.process.wait(timeout=PATIENCE_S)

    def kill(self) -> None:
        """Kill the program and all of its processes, and wait until they have ended."""
        started = self.family[1:]
        self.process.kill()
        self.process.wait()
        for item in wait_until_gone(started, 30):
            item.kill()

    def _part(self, *path: str) -> psutil.Process:
        """Return the newest of :meth:`_parts`. Raises ``TimeoutError``, or ``NoSuchProcess`` once the program has
        ended."""
        until = time.monotonic() + PATIENCE_S
        while not (result := self._parts(*path)):
            if self.process.poll() is not None:
                raise psutil.NoSuchProcess(self.process.pid)
            if time.monotonic() > until:
                raise TimeoutError(f"the program has no {path[-1]}:\n{self.log.read_text()}")
            time.sleep(POLL_EVERY_S)
        return result[-1]

    def _parts(self, *path: str) -> list[psutil.Process]:
        """Return the descendants along a path of command-line patterns, one per generation; none after the program's
        end."""
        result = [] if self.process.poll() is not None else [psutil.Process(self.process.pid)]
        for words in path:
            result = children(result, words)
        return result


def children(parents: Sequence[psutil.Process], words: str) -> list[psutil.Process]:
    """Return the children of live processes whose command lines contain ``words``, the newest last."""
    result = [child for parent in parents for child in _children(parent) if words in _words(child)]
    return sorted(result, key=lambda process: float(process.create_time()))


def wait_until_gone(processes: Sequence[psutil.Process], within_s: float) -> list[psutil.Process]:
    """Wait for processes to end, and return the remaining processes. A zombie has ended."""
    until = time.monotonic() + within_s
    while (left := [item for item in processes if _lives(item)]) and time.monotonic() < until:
        time.sleep(POLL_EVERY_S)
    return left


def journalled(home: Path) -> list[Ended]:
    """Return the runs in the journals of a home."""
    entries = [item for sweep_id in Home(home).sweep_ids() for item in read_journal(Home(home).sweep(sweep_id).journal)]
    return [entry for entry in entries if isinstance(entry, Ended)]


def evaluations(home: Path) -> int:
    """Return the number of evaluations that drivers recorded of unfinished runs."""
    return sum(len(item.read_text().splitlines()) for item in home.glob("sweeps/*/stacks/*/progress.jsonl"))


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running()) and bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children())
    except psutil.NoSuchProcess:
        return []


def _words(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""
