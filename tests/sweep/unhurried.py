"""A family that takes its time, to make its data and between evaluations, and writes down what it did."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.families import LogisticFamily, LogisticLearner, LogisticSettings
from trainables.base import Learner, Report, RunConfig

FAMILY = "tests.sweep.unhurried:UnhurriedFamily"


@dataclass(frozen=True)
class UnhurriedSettings(LogisticSettings):
    """``log`` is a file that gets a line when data begin to be made, and one a run at every evaluation."""

    log: str = ""
    data_s: float = 0.0
    evaluation_s: float = 0.0


class UnhurriedLearner(LogisticLearner):
    """Sleeps where others make data and train."""

    def __init__(self, runs: Sequence[RunConfig]) -> None:
        super().__init__(runs)
        self._settings: UnhurriedSettings = runs[0].settings
        self._write("data")
        time.sleep(self._settings.data_s)

    def advance(self) -> list[Report]:
        time.sleep(self._settings.evaluation_s)
        reports = super().advance()
        for report in reports:
            run = self.runs[report.index]
            self._write(f"{run.size} {run.seed} {self.step}")
        return reports

    def _write(self, line: str) -> None:
        with Path(self._settings.log).open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


class UnhurriedFamily(LogisticFamily):
    """The logistic family, unhurried."""

    Settings: ClassVar[type] = UnhurriedSettings

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        return UnhurriedLearner(runs)


def lines(log: Path) -> list[str]:
    """What was written down so far."""
    return log.read_text(encoding="utf-8").splitlines() if log.exists() else []
