"""A sweep of an example whose parts are killed at random moments."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil

from orchestrator.history.journal import Ended, read_journal
from orchestrator.home.checkpoints import read_progress
from tests.cli.program import line
from tests.sweep.sweeps import ended, only_sweep
from tests.waiting import wait_for
from trainables.base import Outcome, Status


def outcomes(home: Path) -> dict[str, tuple[Status, dict[str, float], object]]:
    """Return status, scores and curve of each run in the journal, which has it once."""
    entries = ended(home)
    assert Counter(entry.key for entry in entries).most_common(1)[0][1] == 1
    return {entry.key: _described(entry.outcome) for entry in entries}


def _described(outcome: Outcome) -> tuple[Status, dict[str, float], object]:
    return outcome.status, outcome.accuracy, outcome.curve


def scripts_in(folder: Path) -> list[psutil.Process]:
    """Return the processes whose working directory is a folder, except the program itself."""
    scripts = []
    for process in psutil.process_iter():
        try:
            is_there = process.cwd() == str(folder) and "train.py" in process.cmdline()
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
        scripts += [process] if is_there and "orchestrator" not in process.cmdline() else []
    return scripts


def below(driver: subprocess.Popen[str], name: str) -> list[psutil.Process]:
    """Return the descendants of a driver with a text in their command lines."""
    descendants = []
    for process in psutil.Process(driver.pid).children(recursive=True):
        try:
            descendants += [process] if any(name in word for word in process.cmdline()) else []
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return descendants


class Disturbed:
    """A sweep of the example in a folder that is killed again and again. ``words`` make it small."""

    def __init__(self, folder: Path, engine: str, words: tuple[str, ...], choice: random.Random) -> None:
        self._folder, self._engine, self._words, self._choice = folder, engine, words, choice
        self.driver = self._started()
        self.killed: Counter[str] = Counter()

    def _started(self, *words: str) -> subprocess.Popen[str]:
        command = line("run", "space.yaml", f"--engine={self._engine}", *self._words, *words)
        with (self._folder / "log").open("a") as log:
            return subprocess.Popen(command, cwd=self._folder, text=True, stdout=log, stderr=log)

    def progress(self) -> int:
        sweeps = list((self._folder / "results" / "sweeps").glob("*/journal.jsonl"))
        if not sweeps:
            return 0
        directory = only_sweep(self._folder / "results")
        points = sum(len(curve) for path in directory.stacks.glob("*") for curve in read_progress(path).values())
        return points + 1000 * sum(isinstance(entry, Ended) for entry in read_journal(directory.journal))

    def kill(self, what: str) -> bool:
        """Kill a part of the sweep. Return False if it is not there."""
        if what == "driver":
            self.driver.kill()
            self.driver.wait()
            self.driver = self._started("--resume", only_sweep(self._folder / "results").id)
            return True
        names = {"guard": "guard.py", "worker": "ray::StackTrial", "raylet": "raylet/raylet"}
        candidates = scripts_in(self._folder) if what in ("script", "group") else below(self.driver, names[what])
        if not candidates:
            return False
        chosen = self._choice.choice(candidates)
        try:
            if what == "group":
                os.killpg(os.getpgid(chosen.pid), signal.SIGKILL)
            else:
                chosen.kill()
        except (ProcessLookupError, psutil.NoSuchProcess):
            return False
        return True

    def run(self, kinds: list[str]) -> Iterator[str]:
        """Kill parts in turn, each after some progress. Yield what was killed."""
        for what in kinds:
            before = self.progress()
            wait_for(partial(self._has_moved, before), 200, self.log)
            time.sleep(self._choice.uniform(0, 1))
            if self.driver.poll() is not None:
                return
            if self.kill(what):
                yield what

    def _has_moved(self, before: int) -> bool:
        """Return True once the sweep has ended or has more progress than ``before``."""
        return self.progress() > before or self.driver.poll() is not None

    def log(self) -> str:
        return (self._folder / "log").read_text()
