"""A family whose stacks run out of memory above a size, as a GPU's would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from tests.families import LogisticFamily, LogisticLearner, LogisticSettings
from trainables.base import Learner, Report, RunConfig

FAMILY = "tests.engine.hungry:HungryFamily"


@dataclass(frozen=True)
class HungrySettings(LogisticSettings):
    """``room`` is the most runs that fit from evaluation ``grows_at`` on; before it any number does."""

    room: int = 2
    grows_at: int = 2
    log: str = ""
    """A file that every evaluation of a stack adds a line to: the first run's seed, the runs, the evaluation."""


class HungryLearner(LogisticLearner):
    """Raises what torch raises where a device's memory is at an end."""

    def advance(self) -> list[Report]:
        settings: HungrySettings = self.runs[0].settings
        if self.step + 1 >= settings.grows_at and len(self.runs) > settings.room:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        reports = super().advance()
        with Path(settings.log).open("a") as file:
            file.write(f"{len(self.runs)} {self.step}\n")
        return reports


class HungryFamily(LogisticFamily):
    """The logistic family on a small device."""

    Settings: ClassVar[type] = HungrySettings

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        return HungryLearner(runs)
