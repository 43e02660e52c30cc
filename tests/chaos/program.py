"""A sweep of :mod:`tests.chaos.paced` as a program of its own, and what it is made of."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

from orchestrator.store.files import Home
from orchestrator.store.journal import Ended, read_journal

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 400.0
"""Starting Ray and a worker takes 10 s on an idle machine, and minutes on a busy one."""


class Program:
    """``run`` on a search space, its output kept in ``log``."""

    def __init__(self, space: Path, home: Path, log: Path, *words: str) -> None:
        self.home = home
        self.log = log
        self.command = [sys.executable, "-m", "orchestrator", "run", str(space), "--home", str(home)]
        environment = os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "200"}
        with log.open("a") as said:
            self.process = subprocess.Popen(
                [*self.command, *words], stdout=said, stderr=said, cwd=ROOT, env=environment
            )

    @property
    def driver(self) -> psutil.Process:
        """The process that drives the sweep, which the program watches over."""
        return self._wait_for(psutil.Process(self.process.pid), "-m orchestrator")

    @property
    def raylet(self) -> psutil.Process:
        """Ray's daemon."""
        return self._wait_for(self.driver, "raylet/raylet")

    @property
    def gcs(self) -> psutil.Process:
        """Ray's head."""
        return self._wait_for(self.driver, "gcs/gcs_server")

    @property
    def worker(self) -> psutil.Process:
        """A process that trains."""
        return self._wait_for(self.raylet, "ray::StackTrial")

    def wait_for_runs(self, count: int) -> None:
        """Until so many runs are journalled. Raises ``TimeoutError``, also where the program ends before."""
        until = time.monotonic() + PATIENCE_S
        while len(journalled(self.home)) < count:
            if time.monotonic() > until or self.process.poll() is not None:
                raise TimeoutError(f"fewer than {count} runs after {PATIENCE_S:g} s:\n{self.log.read_text()}")
            time.sleep(0.02)

    def end(self) -> int:
        """Wait for its end: its exit code. Raises ``subprocess.TimeoutExpired``."""
        return self.process.wait(timeout=PATIENCE_S)

    def kill(self) -> None:
        """End it at once, with all that belongs to it, and wait until that is gone."""
        family = psutil.Process(self.process.pid).children(recursive=True) if self.process.poll() is None else []
        self.process.kill()
        self.process.wait()
        _, left = psutil.wait_procs(family, timeout=30)
        for each in left:
            each.kill()

    @staticmethod
    def _wait_for(parent: psutil.Process, words: str) -> psutil.Process:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            for child in parent.children():
                if words in " ".join(_words(child)):
                    return child
            time.sleep(0.02)
        raise TimeoutError(f"{parent} has no {words}")


def journalled(home: Path) -> list[Ended]:
    """The runs in the journals of a home, line by line."""
    entries = [each for one in Home(home).sweep_ids() for each in read_journal(Home(home).sweep(one).journal)]
    return [entry for entry in entries if isinstance(entry, Ended)]


def _words(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:
        return []
