"""A family that says what it trained, takes its time over it, and may die of it."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.families import LogisticFamily, LogisticLearner, LogisticSettings
from trainables.base import Learner, Report, RunConfig

FAMILY = "tests.home.counting:CountingFamily"


@dataclass(frozen=True)
class CountingSettings(LogisticSettings):
    """``log`` is a file that gets a line for every run at every evaluation. Where a file of the same name ending in
    ``.dies`` is there, the process is killed once the log has as many lines as that file says."""

    log: str = ""
    sleep_s: float = 0.0
    """Between two evaluations."""


class CountingLearner(LogisticLearner):
    """Writes down what it has trained, before anybody else hears of it."""

    def advance(self) -> list[Report]:
        time.sleep(self.runs[0].settings.sleep_s)
        reports, log = super().advance(), Path(self.runs[0].settings.log)
        with log.open("a", encoding="utf-8") as file:
            for report in reports:
                run, state = self.runs[report.index], "going" if report.outcome is None else "ended"
                file.write(f"{run.mix.name} {run.size} {run.seed} {run.settings.haste} {state} {self.step}\n")
        dies = log.with_suffix(".dies")
        if dies.exists() and len(log.read_text().splitlines()) >= int(dies.read_text()):
            dies.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return reports


class CountingFamily(LogisticFamily):
    """The logistic family, counted."""

    Settings: ClassVar[type] = CountingSettings

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        return CountingLearner(runs)


def trained(log: Path) -> Counter[str]:
    """How often each run was trained to its end: ``add 8 0`` is ADD alone at size 8 with seed 0."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return Counter(" ".join(line.split()[:3]) for line in lines if " ended " in line)


def table_of(out: str) -> list[str]:
    """The lines of an answer's table."""
    return [line for line in out.splitlines() if re.match(r"add(\+\w+)? ", line) and "seed" not in line]
