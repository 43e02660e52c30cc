"""A family from outside the project, as a user would bring one: no transformer, no torch, another size axis.

A run's accuracy is a known logistic in its number of units with noise from its seed, so that code that uses families
can be tested against a known truth in milliseconds."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

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
    Words,
)
from trainables.probes.base import Probe, Probed

FLOOR = 0.1


@dataclass(frozen=True)
class Curve:
    """The curve of accuracy over units.

    It rises at ``midpoint`` units for one task alone, divided by the number of tasks in the mix to the power
    ``help``; with ``help`` 0 a mix needs as many units as a task alone."""

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
    """A nuisance parameter: any value other than 3 raises the midpoint."""

    def __post_init__(self) -> None:
        if self.haste <= 0:
            raise SettingsError(f"haste is {self.haste}; it must be positive", key="haste")


class LogisticLearner(Learner):
    """A learner that ends every run of its stack after ``steps`` evaluations."""

    def __init__(self, runs: Sequence[RunConfig]) -> None:
        self.runs = tuple(runs)
        self.step = 0
        self.head_start: dict[int, float] = {}

    def accuracy(self, run: RunConfig, head_start: float = 0.0) -> float:
        curve = run.settings.curve
        midpoint = (
            math.log(curve.midpoint / len(run.mix.tasks) ** curve.help) + math.log(run.settings.haste / 3) ** 2 / 2
        )
        height = (math.log(run.size) - midpoint + head_start) * curve.slope
        learned = float(height > 0) if curve.shape == "step" else 1 / (1 + math.exp(-height))
        noise = np.random.default_rng([run.seed, run.size, len(run.mix.tasks)]).normal(0, run.settings.noise)
        return float(np.clip(FLOOR + (0.99 - FLOOR) * learned + noise, 0, 1))

    def advance(self) -> list[Report]:
        self.step += 1
        reports = []
        for index, run in enumerate(self.runs):
            if self.step > run.settings.steps:
                continue
            accuracy = dict.fromkeys(run.mix.tasks, self.accuracy(run, self.head_start.get(index, 0.0)))
            evaluation = Evaluation(self.step, 1 / self.step, accuracy)
            outcome = None
            if self.step == run.settings.steps:
                outcome = Outcome(
                    Status.FINISHED, self.step, accuracy, dict.fromkeys(run.mix.tasks, FLOOR), (evaluation,)
                )
            weights = {} if outcome is None else {"experience": np.array([self.step], np.float32)}
            reports.append(Report(index, evaluation, outcome, weights=weights))
        return reports

    def take_over(self, weights: Mapping[int, Mapping[str, NDArray[Any]]]) -> None:
        """Lower the midpoint by a tenth, in ln units, for each step of experience."""
        for index, theirs in weights.items():
            self.head_start[index] = 0.1 * float(theirs["experience"][0])

    def save(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "step.json").write_text(json.dumps([self.step, list(self.head_start.items())]))

    def restore(self, directory: Path) -> None:
        self.step, head_start = json.loads((directory / "step.json").read_text())
        self.head_start = dict(head_start)


class LogisticFamily(Family):
    """A family with the tasks ``add``, ``prod`` and ``max``, which are learned given enough units."""

    name: ClassVar[str] = "logistic"
    version: ClassVar[int] = 1
    size_axis: ClassVar[str] = "units"
    Settings: ClassVar[type] = LogisticSettings
    tunable: ClassVar[tuple[str, ...]] = ("curve.slope", "haste")
    parts: ClassVar[tuple[str, ...]] = ("experience",)
    learner_type: ClassVar[type[LogisticLearner]] = LogisticLearner

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
        return self.learner_type(runs)


class UncountedFamily(LogisticFamily):
    """A family that cannot count its parameters."""

    name = "uncounted"

    def parameters(self, size: float) -> Parameters:
        return Parameters(int(size / 0), 0)


class UncheckedFamily(LogisticFamily):
    """A family whose check of a mix has a bug."""

    name = "unchecked"

    def check(self, mix: Mix, size: int) -> None:
        raise KeyError(size)


@dataclass(frozen=True)
class RoomSettings:
    """Settings with a type that cannot be written in YAML."""

    room: Room | None = None
    steps: int = 1


class Room:
    """An arbitrary class."""


class RoomFamily(LogisticFamily):
    """A family whose settings cannot be read from YAML."""

    name = "room"
    Settings = RoomSettings


@dataclass(frozen=True)
class NamedSettings(LogisticSettings):
    """Settings whose names a record uses, too."""

    target: str = "wall"
    budget: int = 3
    verdict: str = "none"


class NamedFamily(LogisticFamily):
    """A family with names that a record uses for other things or does not accept."""

    name = "named"
    size_axis = "width (units)"
    Settings = NamedSettings


class UnfinishedFamily(LogisticFamily):
    """An incomplete family without ``flops``."""

    name = "unfinished"

    flops = Family.flops


class BrokenFamily(LogisticFamily):
    """A family with a bug."""

    name = "broken"

    def tasks(self) -> tuple[str, ...]:
        return (str(1 // (self.settings.steps - self.settings.steps)),)


class MazeLearner(LogisticLearner):
    """A learner with measures whose names clash with others, and with its own arrays and weights."""

    def advance(self) -> list[Report]:
        return [self._dressed(report) for report in super().advance()]

    def _dressed(self, report: Report) -> Report:
        assert report.evaluation is not None
        run = self.runs[report.index]
        evaluation = replace(report.evaluation, measures={"steps": 0.5, "find exit": 7.0 / self.step})
        if report.outcome is None:
            return replace(report, evaluation=evaluation)
        outcome = replace(report.outcome, curve=(evaluation,), measures={"seconds": 1.0, "steps": 3.5})
        rates = np.random.default_rng([run.seed, run.size]).random((run.size, 3), np.float32)
        weights = {"accuracy": np.array([self.accuracy(run)])}
        return replace(report, evaluation=evaluation, outcome=outcome, arrays={"firing": rates}, weights=weights)


class MazeFamily(LogisticFamily):
    """A logistic family with task names that contain spaces and with its own words, measures, arrays and weights."""

    name: ClassVar[str] = "mazes"
    words: ClassVar[Words] = Words(task="puzzle", item="room", run="creature", held="what creatures hold")
    learner_type = MazeLearner

    def tasks(self) -> tuple[str, ...]:
        return ("find exit", "map + rooms")

    def load(self, run: RunConfig, weights: Mapping[str, NDArray[Any]]) -> float:
        """Return the share of mazes that the creature solves."""
        return float(weights["accuracy"][0])

    def data(self, run: RunConfig, cache: Path) -> str:
        return f"mazes for {run.mix}"


class Firing(Probe):
    """A probe from outside that uses the model, the family's array and the data."""

    name: ClassVar[str] = "firing"
    needs_arrays: ClassVar[tuple[str, ...]] = ("firing",)
    needs_model: ClassVar[bool] = True
    needs_data: ClassVar[bool] = True

    def run(self, family: Family, run: RunConfig, model: Any, arrays: Mapping[str, NDArray[Any]], data: Any) -> Probed:
        assert data == f"mazes for {run.mix}"
        firing = arrays["firing"]
        return Probed({"mean": float(firing.mean()), "solved": model}, {"by_room": firing.mean(axis=0)})


class BrokenProbe(Probe):
    """A probe with a bug that raises for seed 0."""

    name: ClassVar[str] = "broken"

    def run(self, family: Family, run: RunConfig, model: Any, arrays: Mapping[str, NDArray[Any]], data: Any) -> Probed:
        return Probed({"odd": 1 / run.seed})


class Later(Probe):
    """A probe added after the sweep ended."""

    name: ClassVar[str] = "later"

    def run(self, family: Family, run: RunConfig, model: Any, arrays: Mapping[str, NDArray[Any]], data: Any) -> Probed:
        assert model is None
        assert data is None
        return Probed({"size": float(run.size)})


class Running(Probe):
    """A probe that runs the model."""

    name: ClassVar[str] = "running"
    needs_model: ClassVar[bool] = True

    def run(self, family: Family, run: RunConfig, model: Any, arrays: Mapping[str, NDArray[Any]], data: Any) -> Probed:
        return Probed({"models": float(model is not None)})


class RivalFamily(LogisticFamily):
    """A family whose mixes are separate questions, not compared with one another."""

    name = "rival"

    compares_mixes: ClassVar[bool] = False
