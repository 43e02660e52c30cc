"""A family that says which runs it trained to their end, and takes its time over them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.families import LogisticFamily, LogisticLearner, LogisticSettings
from trainables.base import Learner, Report, RunConfig


@dataclass(frozen=True)
class CountingSettings(LogisticSettings):
    """``log`` is a file that gets a line for every run that was trained to its end."""

    log: str = ""
    sleep_s: float = 0.0
    """Between two evaluations."""


class CountingLearner(LogisticLearner):
    """Writes down what it has trained, before anybody else hears of it."""

    def advance(self) -> list[Report]:
        time.sleep(self.runs[0].settings.sleep_s)
        reports = super().advance()
        with Path(self.runs[0].settings.log).open("a", encoding="utf-8") as file:
            for report in reports:
                if report.outcome is not None:
                    run = self.runs[report.index]
                    file.write(f"{run.mix.name} {run.size} {run.seed}\n")
        return reports


class CountingFamily(LogisticFamily):
    """The logistic family, counted."""

    Settings: ClassVar[type] = CountingSettings

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        return CountingLearner(runs)


def trained(log: Path) -> Counter[str]:
    """How often each run was trained to its end: ``add 8 0`` is ADD alone at size 8 with seed 0."""
    return Counter(log.read_text(encoding="utf-8").splitlines()) if log.exists() else Counter()
