"""The shortest form of a family: one method that trains a model and yields points of its learning curve.

README.md has an example. Everything else of :class:`Family` has a default. Runs train one at a time, so ``train`` may
seed a global random generator. Weights are not kept, and a killed run starts again at its first step.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, SupportsFloat

from trainables.contract.family import Family, Learner
from trainables.contract.modes import apart
from trainables.contract.points import PointLearner
from trainables.contract.report_validator import BrokenFamilyError, shortened
from trainables.contract.runs import Evaluation, Outcome, Parameters, Report, RunConfig, Status
from trainables.contract.settings import require

Accuracy = SupportsFloat | Mapping[str, SupportsFloat]
"""Share of right answers in [0, 1], the same for all tasks of a run or by task name."""
Point = tuple[int, SupportsFloat, Accuracy]
"""Point of a learning curve: optimizer steps taken, training loss, accuracy on data held out of training."""

FLOPS_PER_PARAMETER = 6
"""Operations per example and parameter: a product and a sum, once forward and twice backward."""
GUESSED_BATCH = 32
"""Examples in a step, only for estimates of cost, if the settings have no field ``batch``."""


@dataclass(frozen=True)
class SimpleSettings:
    """Default settings of a simple family."""

    steps: int = 1000
    """Optimizer steps that a run may take."""

    def __post_init__(self) -> None:
        require(self.steps >= 1, "steps", self.steps, "at least 1")


class SimpleFamily(Family):
    """A family that consists of one generator, :meth:`train`, and the names of its tasks.

    ``Settings`` may be any frozen dataclass (standard library or pydantic) with a whole number ``steps``.
    """

    name: ClassVar[str]
    """By default ``module:Class``."""
    version: ClassVar[int] = 1
    """Raise it when you change what ``train`` computes: finished runs are reused until you do."""
    size_axis: ClassVar[str] = "size"
    Settings: ClassVar[type] = SimpleSettings
    stacks: ClassVar[bool] = False
    task_names: ClassVar[tuple[str, ...]]
    """Names of the tasks that mixes are made of."""
    floor: ClassVar[Accuracy] = 0.0
    """Accuracy of the best constant answer; the score of a run that diverges."""
    device: str = "cpu"
    """The torch device to train on (``cpu``, ``cuda``)."""

    @abstractmethod
    def train(self, tasks: Mapping[str, float], size: int, seed: int, settings: Any) -> Iterator[Point]:
        """Train one model and yield ``(step, loss, accuracy)`` at each evaluation.

        The last accuracy is the score of the run. Stop early by returning; stop at ``settings.steps`` at the latest.
        A loss that is not finite ends the run as diverged. Take all randomness from ``seed``. ``tasks`` maps each task
        to its share of the training data (shares sum to 1); ``size`` is in units of ``size_axis``.
        """

    def parameter_count(self, size: float) -> float:
        """Return the number of trainable parameters, by default the size. ``size`` may be fractional."""
        return size

    def __init_subclass__(cls, **options: Any) -> None:
        """Raise ``TypeError`` unless a class with ``train`` has valid ``task_names`` and ``Settings``."""
        super().__init_subclass__(**options)
        if "name" not in vars(cls):
            cls.name = f"{cls.__module__}:{cls.__qualname__}"
        if not getattr(cls.train, "__isabstractmethod__", False):
            names: object = getattr(cls, "task_names", ())
            if not isinstance(names, tuple) or not names or not all(isinstance(name, str) and name for name in names):
                raise TypeError(f"{cls.__name__}.task_names must be a tuple of names such as ('add',); it is {names!r}")
            kind: Any = cls.Settings
            frozen = is_dataclass(kind) and getattr(kind, "__dataclass_params__").frozen  # noqa: B009 - not in its type
            if not frozen or "steps" not in {field.name for field in fields(kind)}:
                raise TypeError(f"{cls.__name__}.Settings must be a frozen dataclass with a whole number `steps`")
        if "words" not in vars(cls) and cls.parameter_count is SimpleFamily.parameter_count:
            cls.words = replace(cls.words, parameters=f"units of {cls.size_axis}")

    def tasks(self) -> tuple[str, ...]:
        return self.task_names

    def parameters(self, size: float) -> Parameters:
        count = self.parameter_count(size)
        return Parameters(count, count)

    def scaled(self, steps: float, examples: float) -> Any:
        """Scale only the steps; ``train`` decides how many examples a step sees."""
        return self.settings if steps == 1 else replace(self.settings, steps=max(1, round(self.settings.steps * steps)))

    def steps(self, run: RunConfig) -> int:
        return int(run.settings.steps)

    def flops(self, run: RunConfig) -> float:
        """Estimate the operations of a run from its parameters, its steps and the ``batch`` in its settings."""
        batch = float(getattr(run.settings, "batch", GUESSED_BATCH))
        return FLOPS_PER_PARAMETER * self.parameter_count(run.size) * self.steps(run) * batch

    def warnings(self, sizes: Sequence[int]) -> list[str]:
        """Warn if no class defines :attr:`floor`, because even constant answers are seldom always wrong."""
        if any("floor" in vars(kind) for kind in type(self).__mro__ if kind is not SimpleFamily):
            return []
        return [
            f"{type(self).__name__} does not define `floor`, the {self.words.score} of the best constant answer, so it "
            "is taken as 0, and guessing may count as learning. For n equally frequent answers, `floor` is 1/n."
        ]

    def shape(self, run: RunConfig) -> str:
        return f"{self.size_axis}-{run.size}".replace(" ", "_")

    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        (run,) = runs
        family = type(self)(run.settings)
        family.device = device
        return SimpleLearner(family, run)


class SimpleLearner(PointLearner):
    """Takes the points of one run from :meth:`SimpleFamily.train`. :class:`ReportValidator` checks their numbers.

    A restored learner trains again from the first step.
    """

    def __init__(self, family: SimpleFamily, run: RunConfig) -> None:
        super().__init__(family, run)
        self._family = family

    def _train(self) -> Generator[Report]:
        run, seconds, begun = self._run, 0.0, time.perf_counter()
        curve: list[Evaluation] = []
        status, accuracy, floor = Status.FINISHED, dict[str, float](), self._shares(self._family.floor)
        tasks = dict(zip(run.mix.tasks, run.mix.shares, strict=True))
        points: Any = self._family.train(tasks, run.size, run.seed, run.settings)
        if not isinstance(points, Iterator):
            raise self._broken(f"returned {shortened(points)}; make it a generator that yields (step, loss, accuracy)")
        step = 0
        for point in apart(points):
            seconds += time.perf_counter() - begun
            evaluation = self._evaluation(point, least=step + 1)
            step, accuracy = evaluation.step, evaluation.accuracy
            if isinstance(evaluation.loss, float) and not math.isfinite(evaluation.loss):
                status, accuracy = Status.DIVERGED, floor
                break
            curve.append(evaluation)
            if step > self._reported_step:
                self._reported_step = step
                yield Report(0, evaluation)
            begun = time.perf_counter()
        else:
            seconds += time.perf_counter() - begun
        if not step:
            raise self._broken("yielded nothing; yield (step, loss, accuracy) at least once")
        yield Report(0, None, Outcome(status, step, accuracy, floor, tuple(curve), {"seconds": seconds}))

    def _evaluation(self, point: Any, least: int) -> Evaluation:
        if not (isinstance(point, tuple) and len(point) == 3):
            raise self._broken(f"yielded {shortened(point)}; yield (step, loss, accuracy)")
        step, loss = map(_python_number, point[:2])
        if not isinstance(step, int) or step < least:
            rule = f"it must be a whole number of at least {least}: count the optimizer steps"
            raise self._broken(f"yielded step {step}; {rule}")
        return Evaluation(step, loss, self._shares(point[2]))

    def _shares(self, accuracy: Any) -> dict[str, float]:
        tasks = self._run.mix.tasks
        if not isinstance(accuracy, Mapping):
            return dict.fromkeys(tasks, _python_number(accuracy))
        return {task: _python_number(accuracy[task]) for task in tasks if task in accuracy}

    def _broken(self, what: str) -> BrokenFamilyError:
        run, family = self._run, self._family
        train = f"{type(family).__name__}.train (mix {run.label}, {family.size_axis} {run.size}, seed {run.seed})"
        return BrokenFamilyError(f"the family {family.name!r} does not keep its contract: {train}: {what}")


def _python_number(value: Any) -> Any:
    """Convert a number of numpy or torch to a Python number. Return any other value unchanged, such as an array."""
    if not hasattr(value, "item"):
        return value
    count = value.numel() if hasattr(value, "numel") else getattr(value, "size", 1)
    return value.item() if count == 1 else value
