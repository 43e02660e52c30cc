"""A sweep with faults, which is resumed with ``--resume`` when its program has ended."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from orchestrator.home.directories import Home, SweepDirectory
from tests.chaos.ground import OwnRay
from tests.chaos.program import PATIENCE_S, POLL_EVERY_S, Program, journalled

RESUMES = 3
"""Maximum number of consecutive resumptions without a new run before a sweep counts as lost."""


class LostError(Exception):
    """Raised if a sweep cannot continue. The message contains its output."""


class Disturbed:
    """The successive programs that drive one sweep. Their output goes to ``log``."""

    def __init__(self, space: Path, home: Path, log: Path, ground: OwnRay) -> None:
        self.home, self.log, self.ground = home, log, ground
        self._space = space
        self.program = Program(space, home, log, *ground.words)

    @property
    def files(self) -> SweepDirectory:
        [sweep_id] = Home(self.home).sweep_ids()
        return Home(self.home).sweep(sweep_id)

    @property
    def runs(self) -> int:
        """Number of journalled runs."""
        return len(journalled(self.home))

    @property
    def worker(self) -> psutil.Process:
        """The newest training process; waits until there is one. Raises :class:`LostError`."""
        result: list[psutil.Process] = []

        def trains() -> bool:
            result[:] = self.ground.workers(self.program)
            return bool(result)

        self._until(trains, "process that trains")
        return result[-1]

    @property
    def processes(self) -> list[psutil.Process]:
        """All current processes of the sweep."""
        return self.ground.processes(self.program)

    @property
    def log_length(self) -> int:
        return len(self.log.read_text())

    def go_on_until(self, count: int) -> None:
        """Wait until this many runs are journalled and the sweep runs. Raises :class:`LostError`, also after an
        answer."""
        self._until(lambda: self.runs >= count and self.program.process.poll() is None, f"sweep with {count} runs")

    def go_on_for_a_run(self) -> None:
        """Wait until another run is journalled or the sweep has its answer. Raises :class:`LostError`."""
        wanted = self.runs + 1
        self._until(lambda: self.runs >= wanted or self.program.process.poll() == 0, f"sweep with {wanted} runs")

    def go_on_to_the_answer(self) -> None:
        """Wait until the program has printed its answer and ended. Raises :class:`LostError`."""
        self._until(lambda: self.program.process.poll() == 0, "an answer")

    def logged(self, pattern: str, since: int) -> bool:
        """Return True if the regular expression matches the log after its first ``since`` characters."""
        return re.search(pattern, self.log.read_text()[since:], re.MULTILINE) is not None

    def _until(self, reached: Callable[[], bool], wanted: str) -> None:
        """Wait, and resume a program that ended without an answer."""
        resumed, runs, until = 0, self.runs, time.monotonic() + PATIENCE_S
        while not reached():
            if self.runs > runs:
                resumed, runs, until = 0, self.runs, time.monotonic() + PATIENCE_S
            if self.program.process.poll() not in (None, 0):
                if resumed == RESUMES:
                    raise LostError(f"no {wanted} after {RESUMES} resumptions:\n{self.log.read_text()}")
                resumed += 1
                self.program = Program(self._space, self.home, self.log, *self.ground.words, "--resume")
            elif time.monotonic() > until or (self.program.process.poll() == 0 and not reached()):
                raise LostError(f"no {wanted}:\n{self.log.read_text()}")
            time.sleep(POLL_EVERY_S)
