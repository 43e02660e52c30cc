"""A family whose machine is in trouble at first, or that has a bug at first."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.families import LogisticFamily, LogisticLearner, LogisticSettings
from trainables.base import Learner, Report, RunConfig

FAMILY = "tests.engine.troubled:TroubledFamily"


@dataclass(frozen=True)
class TroubledSettings(LogisticSettings):
    """The first ``times`` evaluations of stacks that hold size ``size`` raise what ``trouble`` says: ``bug``, or the
    name of an error of the system. ``log`` is a file with a line for each."""

    log: str = ""
    times: int = 0
    size: int = 16
    trouble: str = "ENOSPC"
    ballast: str = ""
    """A file to fill the disk with at the first evaluation of such a stack, once."""


class TroubledLearner(LogisticLearner):
    """Meets the trouble before it trains."""

    def advance(self) -> list[Report]:
        settings: TroubledSettings = self.runs[0].settings
        log = Path(settings.log)
        met = len(log.read_text().splitlines()) if log.exists() else 0
        if self.runs[0].size == settings.size and met < settings.times:
            log.write_text("met\n" * (met + 1))
            if settings.ballast:
                fill(Path(settings.ballast))
            elif settings.trouble == "bug":
                raise RuntimeError("a bug that was mended since")
            else:
                number = getattr(errno, settings.trouble)
                raise OSError(number, os.strerror(number), "/data/stream.bin")
        return super().advance()


class TroubledFamily(LogisticFamily):
    """The logistic family on a machine in trouble."""

    Settings: ClassVar[type] = TroubledSettings

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        return TroubledLearner(runs)


def fill(ballast: Path) -> None:
    """Write a file until nothing more fits on its disk."""
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 10, 1):
            try:
                while True:
                    file.write(b"\x00" * size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
