"""A family from outside the project, as a user would bring one: no transformer, no torch, another size axis.

A run's accuracy is a known logistic in its number of units with noise from its seed, so that whatever is built on
families can be tested against a truth in milliseconds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from trainables.base import (
    Evaluation,
    Family,
    Learner,
    Mix,
    Outcome,
    Parameters,
    Report,
    RunConfig,
    SettingsError,
    Status,
)

FLOOR = 0.1


@dataclass(frozen=True)
class Curve:
    """Where accuracy jumps: ``midpoint`` units for one task alone, divided by the number of tasks in the mix to the
    power ``help``: with 0 a mix needs as many units as a task alone."""

    midpoint: float = 40.0
    slope: float = 8.0
    help: float = 1.0
    shape: Literal["logistic", "step"] = "logistic"

    def __post_init__(self) -> None:
        if self.midpoint <= 1:
            raise SettingsError(f"the midpoint is {self.midpoint}; it must be above 1", key="curve.midpoint")


@dataclass(frozen=True)
class LogisticSettings:
    """Settings of :class:`LogisticFamily`."""

    curve: Curve = field(default_factory=Curve)
    steps: int = 3
    noise: float = 0.01
    multiple_of: int = 2
    haste: float = 3.0
    """A nuisance: any other value than 3 moves the midpoint up."""

    def __post_init__(self) -> None:
        if self.haste <= 0:
            raise SettingsError(f"haste is {self.haste}; it must be positive", key="haste")


class LogisticLearner(Learner):
    """Ends every run of its stack after ``steps`` evaluations."""

    def __init__(self, runs: Sequence[RunConfig]) -> None:
        self.runs = tuple(runs)
        self.step = 0

    def accuracy(self, run: RunConfig) -> float:
        curve = run.settings.curve
        midpoint = (
            math.log(curve.midpoint / len(run.mix.tasks) ** curve.help) + math.log(run.settings.haste / 3) ** 2 / 2
        )
        height = (math.log(run.size) - midpoint) * curve.slope
        learned = float(height > 0) if curve.shape == "step" else 1 / (1 + math.exp(-height))
        noise = np.random.default_rng([run.seed, run.size, len(run.mix.tasks)]).normal(0, run.settings.noise)
        return float(np.clip(FLOOR + (0.99 - FLOOR) * learned + noise, 0, 1))

    def advance(self) -> list[Report]:
        self.step += 1
        reports = []
        for index, run in enumerate(self.runs):
            if self.step > run.settings.steps:
                continue
            accuracy = dict.fromkeys(run.mix.tasks, self.accuracy(run))
            evaluation = Evaluation(self.step, 1 / self.step, accuracy)
            outcome = None
            if self.step == run.settings.steps:
                outcome = Outcome(
                    Status.FINISHED, self.step, accuracy, dict.fromkeys(run.mix.tasks, FLOOR), (evaluation,)
                )
            reports.append(Report(index, evaluation, outcome))
        return reports

    def save(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "step.json").write_text(json.dumps(self.step))

    def restore(self, directory: Path) -> None:
        self.step = json.loads((directory / "step.json").read_text())


class LogisticFamily(Family):
    """Tasks ``add``, ``prod`` and ``max``, learned once there are enough units."""

    name: ClassVar[str] = "logistic"
    version: ClassVar[int] = 1
    size_axis: ClassVar[str] = "units"
    Settings: ClassVar[type] = LogisticSettings
    tunable: ClassVar[tuple[str, ...]] = ("curve.slope", "haste")
    scales_with_size: ClassVar[tuple[str, ...]] = ("haste",)

    def tasks(self) -> tuple[str, ...]:
        return ("add", "max", "prod")

    def check(self, mix: Mix, size: int) -> None:
        if size % self.settings.multiple_of:
            raise SettingsError(
                f"{size} units cannot be divided by {self.settings.multiple_of}", key="sizes", given=str(size)
            )

    def warnings(self, sizes: Sequence[int]) -> list[str]:
        return []

    def parameters(self, size: float) -> Parameters:
        return Parameters(total=size * size + size, core=size * size)

    def scaled(self, steps: float, examples: float) -> LogisticSettings:
        settings: LogisticSettings = self.settings
        return settings if steps == 1 else replace(settings, steps=round(settings.steps * steps))

    def steps(self, run: RunConfig) -> int:
        return int(run.settings.steps)

    def flops(self, run: RunConfig) -> float:
        return 1e6 * run.size**2 * self.steps(run) / 3

    def shape(self, run: RunConfig) -> str:
        return f"{run.size}"

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        return LogisticLearner(runs)


class UnfinishedFamily(LogisticFamily):
    """A family that was begun: its ``flops`` are missing."""

    flops = Family.flops


class BrokenFamily(LogisticFamily):
    """A family with a bug in it."""

    def tasks(self) -> tuple[str, ...]:
        return (str(1 // (self.settings.steps - self.settings.steps)),)
