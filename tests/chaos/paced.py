"""A family that takes its time and trains nothing, and a small search space of it, for sweeps that things happen to."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import yaml

from tests.families import LogisticFamily, LogisticLearner, LogisticSettings
from trainables.base import Learner, Report, RunConfig


@dataclass(frozen=True)
class PacedSettings(LogisticSettings):
    """``pace_s`` seconds pass before every evaluation."""

    pace_s: float = 0.0


class PacedLearner(LogisticLearner):
    """Sleeps between evaluations."""

    def advance(self) -> list[Report]:
        time.sleep(self.runs[0].settings.pace_s)
        return super().advance()


class PacedFamily(LogisticFamily):
    """The logistic family, taking its time."""

    Settings: ClassVar[type] = PacedSettings

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        return PacedLearner(runs)


MIXES, SIZES, SEEDS = ("add", "add+prod"), (16, 32, 64), 2
RUNS = len(MIXES) * len(SIZES) * SEEDS
SPACE = {
    "name": "paced",
    "question": "Does PROD help ADD?",
    "family": "tests.chaos.paced:PacedFamily",
    "target": "add",
    "mixes": list(MIXES),
    "sizes": list(SIZES),
    "seeds": SEEDS,
    "search": {"method": "grid"},
    "resources": {"max_stack": 1, "cpu_per_stack": 2, "checkpoint_every_s": 0.1},
}
"""A grid of :data:`RUNS` runs, one after the other on a machine of two cores."""


def write_space(directory: Path, *, pace_s: float, **changes: Any) -> Path:
    """The search space, with these fields instead of its own, as a file in this directory."""
    path = directory / "paced.yaml"
    settings = {"settings": {"steps": 3, "pace_s": pace_s}}
    path.write_text(yaml.safe_dump(SPACE | settings | changes), encoding="utf-8")
    return path
