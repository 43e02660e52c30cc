"""A family whose process dies where it is told to, after it has written down what it trained."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.families import LogisticFamily, LogisticLearner, LogisticSettings
from trainables.base import Learner, Report, RunConfig

FAMILY = "tests.sweep.mortal:MortalFamily"


@dataclass(frozen=True)
class MortalSettings(LogisticSettings):
    """``log`` is a file that gets a line for every run at every evaluation. Where a file of the same name ending in
    ``.dies`` is there, the process is killed once the log has as many lines as that file says."""

    log: str = ""


class MortalLearner(LogisticLearner):
    """Writes down what it trains, before anybody else hears of it."""

    def advance(self) -> list[Report]:
        reports = super().advance()
        log = Path(self.runs[0].settings.log)
        with log.open("a", encoding="utf-8") as file:
            for report in reports:
                run = self.runs[report.index]
                file.write(f"{run.mix.name} {run.size} {run.seed} {run.settings.haste} {self.step}\n")
        dies = log.with_suffix(".dies")
        if dies.exists() and len(log.read_text().splitlines()) >= int(dies.read_text()):
            dies.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return reports


class MortalFamily(LogisticFamily):
    """The logistic family, mortal."""

    Settings: ClassVar[type] = MortalSettings

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        return MortalLearner(runs)
