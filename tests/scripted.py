"""A family whose runs follow a script in their settings: they take time, are held, run out of memory, raise machine
errors and kill their process. They log their training."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import torch

from tests.families import LogisticFamily, LogisticLearner, LogisticSettings
from trainables.base import Report, RunConfig

FAMILY = "tests.scripted:ScriptedFamily"
HOLD_S = 0.05
MEET_S = 120
CLOSED = -1
"""Step of the event that a learner was closed."""


@dataclass(frozen=True)
class ScriptedSettings(LogisticSettings):
    """Settings of a scripted run.

    ``log`` is a file that gets a line when a learner starts and one line a run at every evaluation, before anything
    is reported. If a file of the same name ending in ``.dies`` exists, the process is killed once the log has as
    many evaluations as that file says."""

    log: str = ""
    data_s: float = 0.0
    """Seconds to create the data."""
    pace_s: float = 0.0
    """Seconds before every evaluation."""
    holds: str = ""
    """A directory that every host sees. While it contains the file ``SIZE-STEP``, stacks of that size wait before
    that step."""
    meet: int = 1
    """Number of processes that must be at a step before any of them takes it, so that they train at the same time
    however slowly each starts."""
    room: int | None = None
    """Maximum number of runs that fit into memory from evaluation ``grows_at`` on. Before it any number fits."""
    grows_at: int = 2
    times: int = 0
    """Number of first evaluations of stacks of size ``size`` that raise ``trouble``: ``bug``, ``exit``, ``threads``,
    ``ECC`` and ``assert`` (errors of a GPU), or the name of a system error."""
    size: int = 16
    trouble: str = "ENOSPC"
    ballast: str = ""
    """A file that fills the disk, in place of raising ``trouble``."""


@dataclass(frozen=True)
class Event:
    """A run's evaluation, or the start or end of a learner (step 0 or :data:`CLOSED`), with the number of ``runs`` in
    the stack, its place and its times. ``gpus`` is CUDA_VISIBLE_DEVICES."""

    mix: str
    size: int
    seed: int
    haste: float
    step: int
    ended: bool
    runs: int
    process: int
    node: str
    gpus: str | None
    begun: float
    time: float


class ScriptedLearner(LogisticLearner):
    """A learner that follows the script in its runs' settings."""

    def __init__(self, runs: Sequence[RunConfig]) -> None:
        super().__init__(runs)
        self._settings: ScriptedSettings = runs[0].settings
        self._write([(runs[0], False)], time.time())
        time.sleep(self._settings.data_s)

    def advance(self) -> list[Report]:
        settings, begun, first = self._settings, time.time(), self.runs[0]
        while settings.holds and (Path(settings.holds) / f"{first.size}-{self.step + 1}").exists():
            time.sleep(HOLD_S)
        self._meet_others()
        time.sleep(settings.pace_s)
        self._meet_trouble()
        if settings.room is not None and self.step + 1 >= settings.grows_at and len(self.runs) > settings.room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        reports = super().advance()
        self._write([(self.runs[report.index], report.outcome is not None) for report in reports], begun)
        dies = Path(f"{settings.log}.dies")
        if settings.log and dies.exists() and len(events(Path(settings.log))) >= int(dies.read_text()):
            dies.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return reports

    def _meet_others(self) -> None:
        """Wait until as many processes as ``meet`` says are at a step."""
        if self._settings.meet == 1:
            return
        here, late = Path(f"{self._settings.log}.here"), time.monotonic() + MEET_S
        with here.open("a", encoding="utf-8") as file:
            file.write(f"{os.getpid()}\n")
        while len(set(here.read_text(encoding="utf-8").splitlines())) < self._settings.meet:
            if time.monotonic() > late:
                raise TimeoutError(f"fewer than {self._settings.meet} processes have come to a step in {MEET_S} s")
            time.sleep(HOLD_S)

    def close(self) -> None:
        self._write([(self.runs[0], False)], time.time(), step=CLOSED)

    def _meet_trouble(self) -> None:
        settings = self._settings
        if self.runs[0].size != settings.size or not settings.times:
            return
        met = Path(f"{settings.log}.met")
        count = len(met.read_text()) if met.exists() else 0
        if count >= settings.times:
            return
        met.write_text("x" * (count + 1))
        if settings.ballast:
            fill(Path(settings.ballast))
        elif settings.trouble == "bug":
            raise RuntimeError("a bug that was mended since")
        elif settings.trouble == "exit":
            sys.exit(0)
        elif settings.trouble == "ECC":
            raise RuntimeError("CUDA error: uncorrectable ECC error encountered\nMore about it.")
        elif settings.trouble == "assert":
            raise torch.AcceleratorError("CUDA error: device-side assert triggered")
        elif settings.trouble == "threads":
            raise RuntimeError("can't start new thread")
        else:
            number = getattr(errno, settings.trouble)
            raise OSError(number, os.strerror(number), "/data/stream.bin")

    def _write(self, runs: Sequence[tuple[RunConfig, bool]], begun: float, step: int | None = None) -> None:
        if not self._settings.log:
            return
        ray = sys.modules.get("ray")
        node = ray.get_runtime_context().get_node_id() if ray is not None and ray.is_initialized() else ""
        where = (len(self.runs), os.getpid(), node, os.environ.get("CUDA_VISIBLE_DEVICES"), begun, time.time())
        at = self.step if step is None else step
        events = [Event(run.mix.name, run.size, run.seed, run.settings.haste, at, ended, *where) for run, ended in runs]
        with Path(self._settings.log).open("a", encoding="utf-8") as file:
            file.write("".join(f"{json.dumps(asdict(event))}\n" for event in events))


class ScriptedFamily(LogisticFamily):
    """The logistic family with scripted runs."""

    name = "scripted"
    Settings: ClassVar[type] = ScriptedSettings
    learner_type = ScriptedLearner


def begun(log: Path) -> list[Event]:
    """Return the starts of learners, in the order of the log."""
    return [event for event in _read(log) if event.step == 0]


def closed(log: Path) -> list[Event]:
    """Return the ends of learners, in the order of the log."""
    return [event for event in _read(log) if event.step == CLOSED]


def events(log: Path) -> list[Event]:
    """Return the evaluations of runs, in the order of the log."""
    return [event for event in _read(log) if event.step > 0]


def trained(log: Path) -> Counter[str]:
    """Count how often each run was trained to its end. The key ``add 8 0`` is ADD alone at size 8 with seed 0."""
    return Counter(f"{event.mix} {event.size} {event.seed}" for event in events(log) if event.ended)


def _read(log: Path) -> list[Event]:
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [Event(**json.loads(line)) for line in lines]


def fill(ballast: Path) -> None:
    """Write to a file until its disk is full."""
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 10, 1):
            try:
                while True:
                    file.write(b"\x00" * size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
