"""A family whose stacks stand in the middle of their training until somebody lets them go on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tests.families import LogisticFamily, LogisticLearner, LogisticSettings
from trainables.base import Learner, Report, RunConfig

FAMILY = "tests.engine.held:HeldFamily"
LOOK_EVERY_S = 0.05


@dataclass(frozen=True)
class HeldSettings(LogisticSettings):
    """``holds`` is a directory that every host sees. While the file ``SIZE-STEP`` lies there, stacks of that size stand
    in their training to that step."""

    holds: str = ""


class HeldLearner(LogisticLearner):
    """Stands where it is held."""

    def advance(self) -> list[Report]:
        run = self.runs[0]
        while (Path(run.settings.holds) / f"{run.size}-{self.step + 1}").exists():
            time.sleep(LOOK_EVERY_S)
        return super().advance()


class HeldFamily(LogisticFamily):
    """The logistic family, held."""

    Settings: ClassVar[type] = HeldSettings

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        return HeldLearner(runs)
