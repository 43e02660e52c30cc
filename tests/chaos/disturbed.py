"""A sweep that meets one fault after another, and is resumed by hand if it does not restart by itself."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from orchestrator.home.files import Home, SweepDirectory
from tests.chaos.ground import Ground
from tests.chaos.program import LOOK_EVERY_S, PATIENCE_S, Program, journalled

RESUMES = 3
"""How often in turn a sweep is resumed without a further run before it counts as lost."""


class LostError(Exception):
    """A sweep that cannot continue. The text is its output."""


class Disturbed:
    """The programs that drive one sweep, one after the other. All that they say stands in ``log``."""

    def __init__(self, space: Path, home: Path, log: Path, ground: Ground) -> None:
        self.home, self.log, self.ground = home, log, ground
        self.resumes = 0
        self._space = space
        self.program = Program(space, home, log, *ground.words)

    @property
    def files(self) -> SweepDirectory:
        """Of the sweep, once it has begun."""
        [sweep_id] = Home(self.home).sweep_ids()
        return Home(self.home).sweep(sweep_id)

    @property
    def runs(self) -> int:
        """How many are journalled."""
        return len(journalled(self.home))

    @property
    def worker(self) -> psutil.Process:
        """The youngest process that trains, once there is one. Raises :class:`LostError`."""
        result: list[psutil.Process] = []

        def trains() -> bool:
            result[:] = self.ground.workers(self.program)
            return bool(result)

        self._until(trains, "process that trains")
        return result[-1]

    @property
    def processes(self) -> list[psutil.Process]:
        """All that the sweep is made of now."""
        return self.ground.processes(self.program)

    @property
    def log_length(self) -> int:
        """Characters in the log."""
        return len(self.log.read_text())

    def go_on_until(self, count: int) -> None:
        """Wait until this many runs are journalled and the sweep is running. Raises :class:`LostError`, also where it
        is answered by then."""
        self._until(lambda: self.runs >= count and self.program.process.poll() is None, f"sweep with {count} runs")

    def go_on_for_a_run(self) -> None:
        """Until a further run is journalled, or the sweep is answered. Raises :class:`LostError`."""
        wanted = self.runs + 1
        self._until(lambda: self.runs >= wanted or self.program.process.poll() == 0, f"sweep with {wanted} runs")

    def go_on_to_the_answer(self) -> None:
        """Until it has printed its answer and its program has ended. Raises :class:`LostError`."""
        self._until(lambda: self.program.process.poll() == 0, "an answer")

    def logged(self, pattern: str, since: int) -> bool:
        """Whether the log has it (a regular expression) beyond its first ``since`` characters."""
        return re.search(pattern, self.log.read_text()[since:], re.MULTILINE) is not None

    def _until(self, reached: Callable[[], bool], wanted: str) -> None:
        """Wait, and resume what has ended without an answer."""
        resumed, runs, until = 0, self.runs, time.monotonic() + PATIENCE_S
        while not reached():
            if self.runs > runs:
                resumed, runs, until = 0, self.runs, time.monotonic() + PATIENCE_S
            if self.program.process.poll() not in (None, 0):
                if resumed == RESUMES:
                    raise LostError(f"no {wanted} after {RESUMES} resumptions:\n{self.log.read_text()}")
                resumed += 1
                self.resumes += 1
                self.program = Program(self._space, self.home, self.log, *self.ground.words, "--resume")
            elif time.monotonic() > until or (self.program.process.poll() == 0 and not reached()):
                raise LostError(f"no {wanted}:\n{self.log.read_text()}")
            time.sleep(LOOK_EVERY_S)
