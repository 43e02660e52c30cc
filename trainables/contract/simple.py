"""The shortest form of a family: one method that trains a model and yields points of its learning curve.

README.md has an example. All other members of :class:`Family` have defaults. Runs train one at a time, so ``train`` may
seed a global random generator. A killed run starts again at its first step, unless ``train`` has a parameter
``resume``.
"""

from __future__ import annotations

import inspect
import math
import time
from abc import abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, SupportsFloat

from numpy.typing import NDArray

from trainables.contract.bars import Bar
from trainables.contract.family import Family
from trainables.contract.learner import Learner
from trainables.contract.modes import apart
from trainables.contract.points import PointLearner
from trainables.contract.report_validator import BrokenFamilyError, shortened
from trainables.contract.runs import Evaluation, Outcome, Parameters, Report, RunConfig, Status
from trainables.contract.settings import MOST_STEPS, require

if TYPE_CHECKING:
    from trainables.contract.states import StateCopy

Accuracy = SupportsFloat | Mapping[str, SupportsFloat]
"""Share of right answers in [0, 1], the same for all tasks of a run or by task name."""
Point = tuple[int, SupportsFloat, Accuracy]
"""Point of a learning curve: optimizer steps taken, training loss, accuracy on data held out of training."""

FLOPS_PER_PARAMETER = 6
"""Operations per example and parameter: a product and a sum, once forward and twice backward."""
GUESSED_BATCH = 32
"""Examples in a step, only for estimates of cost, if the settings have no field ``batch``."""
STATE = "state.safetensors"
"""File of a checkpoint with the state that ``train`` has saved, and the learning curve up to the checkpoint."""


@dataclass(frozen=True)
class SimpleSettings:
    """Default settings of a simple family."""

    steps: int = 1000
    """Optimizer steps that a run may take."""

    def __post_init__(self) -> None:
        require(1 <= self.steps <= MOST_STEPS, "steps", self.steps, f"at least 1 and at most {MOST_STEPS}")


@dataclass
class TrainOutput:
    """Output of the ``train`` of one run so far: its last state, and the weights and arrays to keep with the run."""

    state: StateCopy | None = None
    weights: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)


class SimpleFamily(Family):
    """A family that consists of one generator, :meth:`train`, and the names of its tasks.

    ``Settings`` may be any frozen dataclass (standard library or pydantic) with a whole number ``steps``.
    """

    name: ClassVar[str]
    """By default ``module:Class``."""
    _default_name: ClassVar[str]
    """Its default ``name``. Another class of the same function can have it, too."""
    version: ClassVar[int] = 1
    """Raise it when you change what ``train`` computes: finished runs are reused until you do."""
    size_axis: ClassVar[str] = "size"
    Settings: ClassVar[type] = SimpleSettings
    stacks: ClassVar[bool] = False
    task_names: ClassVar[tuple[str, ...]]
    """Names of the tasks that mixes are made of."""
    floor: ClassVar[Accuracy] = 0.0
    """Accuracy of the best constant answer; the score of a run that diverges."""
    learned: ClassVar[Mapping[str, float] | None] = None
    """The bar of scores that are not accuracies: ``{"at_least": 0.9}``, or ``{"at_most": 1.2}`` for a loss. ``train``
    then yields any numbers instead of accuracies. A run scores 1 if it reaches the bar and 0 otherwise."""
    device: str = "cpu"
    """The torch device to train on (``cpu``, ``cuda``)."""
    _output: TrainOutput | None = None
    """Set for the one run that an instance trains."""

    @abstractmethod
    def train(self, tasks: Mapping[str, float], size: int, seed: int, settings: Any) -> Iterator[Point]:
        """Train one model and yield ``(step, loss, accuracy)`` at each evaluation.

        The last accuracy is the score of the run. To stop early, return. Stop at ``settings.steps`` at the latest. A
        loss that is not finite ends the run as diverged. Take all randomness from ``seed``.

        With a fifth parameter, ``resume=None``, a killed run can continue: it gets the last state that was passed to
        :meth:`save`, or None at its first start.

        Args:
            tasks: Each task's share of the training data. Shares sum to 1.
            size: Size of the model, in units of ``size_axis``.
            seed: Seed of all randomness.
            settings: Instance of ``Settings``.
        """

    def save(self, state: Any) -> None:
        """Save the state of training, from which a killed run continues.

        A state may have tensors, arrays, numbers, text, None, and dicts, lists and tuples of these. ``train`` gets it
        back as ``resume``, with tensors on the CPU. The state is copied, and replaces the previous state. It is written
        to disk with the next checkpoint (``resources.checkpoint_every_s``).
        """
        from trainables.contract.states import StateError, snapshot  # Imports torch.

        if not self.resumes:
            raise StateError("self.save(state) needs a train that can continue: add a parameter resume=None to it")
        copied = snapshot(state)
        if self._output is not None:
            self._output.state = copied

    def keep(self, *, weights: Mapping[str, Any] | None = None, arrays: Mapping[str, Any] | None = None) -> None:
        """Keep tensors or arrays with the run, by name. They are copied, and replace those of the previous call.

        Probes read ``arrays``. Probes of embeddings need an array named ``embedding``, with a row per item.
        ``weights``, such as ``model.state_dict()``, are passed to :meth:`load`.
        """
        from trainables.contract.states import kept_arrays

        for kind, values in (("weights", weights), ("arrays", arrays)):
            if values is not None:
                copied = kept_arrays(values, kind)
                if self._output is not None:
                    setattr(self._output, kind, copied)

    def parameter_count(self, size: float) -> float:
        """Return the number of trainable parameters, by default the size. ``size`` may be fractional.

        It must depend only on the size, because a pair compares two mixes at the same size. If models of the same size
        have different counts in different mixes, for example a head for each task, do not override this method. Answers
        then compare sizes.
        """
        return size

    def __init_subclass__(cls, **options: Any) -> None:
        """Raise ``TypeError`` unless a class with ``train`` has valid ``task_names`` and ``Settings``."""
        super().__init_subclass__(**options)
        if "name" not in vars(cls):
            cls.name = cls._default_name = f"{cls.__module__}:{cls.__qualname__}"
        if not getattr(cls.train, "__isabstractmethod__", False):
            names: object = getattr(cls, "task_names", ())
            if not isinstance(names, tuple) or not names or not all(isinstance(name, str) and name for name in names):
                raise TypeError(f"{cls.__name__}.task_names must be a tuple of names such as ('add',); it is {names!r}")
            kind: Any = cls.Settings
            frozen = is_dataclass(kind) and getattr(kind, "__dataclass_params__").frozen  # noqa: B009 - not in its type
            if not frozen or "steps" not in {field.name for field in fields(kind)}:
                raise TypeError(f"{cls.__name__}.Settings must be a frozen dataclass with a whole number `steps`")
            cls.resumes = "resume" in inspect.signature(cls.train).parameters
        has_words = "words" in vars(cls)
        bar = cls._checked_bar()
        if not has_words and cls.parameter_count is SimpleFamily.parameter_count:
            cls.words = replace(cls.words, parameters=f"units of {cls.size_axis}")
        if not has_words and bar is not None:
            cls.words = bar.words(cls.words)

    @classmethod
    def _checked_bar(cls) -> Bar | None:
        """Return the bar of scores, or None if scores are accuracies. Raises ``TypeError`` for an invalid bar."""
        if cls.learned is None:
            return None
        try:
            bar = Bar.of(cls.learned)
        except ValueError as error:
            raise TypeError(f"{cls.__name__}.learned {error}") from None
        if cls.floor != SimpleFamily.floor:
            raise TypeError(f"{cls.__name__} has a floor, for accuracies, and learned, for other numbers: choose one")
        return bar

    def tasks(self) -> tuple[str, ...]:
        return self.task_names

    def parameters(self, size: float) -> Parameters:
        count = self.parameter_count(size)
        return Parameters(count, count)

    def scaled(self, steps: float, examples: float) -> Any:
        """Scale only the steps. ``train`` decides how many examples a step sees."""
        return self.settings if steps == 1 else replace(self.settings, steps=max(1, round(self.settings.steps * steps)))

    def steps(self, run: RunConfig) -> int:
        return int(run.settings.steps)

    def flops(self, run: RunConfig) -> float:
        """Estimate the operations of a run from its parameters, its steps and the ``batch`` in its settings."""
        batch = float(getattr(run.settings, "batch", GUESSED_BATCH))
        return FLOPS_PER_PARAMETER * self.parameter_count(run.size) * self.steps(run) * batch

    def warnings(self, sizes: Sequence[int]) -> list[str]:
        """Warn if no class defines :attr:`floor`, because even constant answers are seldom always wrong."""
        if self.learned is not None or any(
            "floor" in vars(kind) for kind in type(self).__mro__ if kind is not SimpleFamily
        ):
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

    A restored learner passes the saved state to ``train``, or trains again from the first step. In both cases ``train``
    may repeat evaluations. The new points replace the points from before the kill, and no point is reported twice.
    """

    def __init__(self, family: SimpleFamily, run: RunConfig) -> None:
        super().__init__(family, run)
        self._family = family
        self._output = family._output = TrainOutput()
        self._bar = family._checked_bar()
        self._curve: list[Evaluation] = []
        self._seconds = 0.0
        self.first_step = 0
        """Step of the first point that ``train`` has yielded to this learner, or 0 before it."""

    @property
    def has_state(self) -> bool:
        """True if ``train`` has saved a state or started from a state."""
        return self._output.state is not None

    def save(self, directory: Path) -> None:
        output = self._output
        curve = tuple(self._curve)
        if output.state is None:  # Without a state, training begins again. Only the last reported step matters.
            super().save(directory)
            return
        from trainables.contract.states import SimpleCheckpoint, checkpoint_content
        from trainables.contract.torch_checkpoints import write_checkpoint

        saved = SimpleCheckpoint(self._reported_step, self._seconds, curve, output.state, output.weights, output.arrays)
        tensors, notes = checkpoint_content(saved)
        write_checkpoint(directory / STATE, tensors, notes | {"keys": [self._key]})

    def restore(self, directory: Path) -> None:
        if not (directory / STATE).exists():
            super().restore(directory)
            return
        from trainables.contract.states import checked_checkpoint
        from trainables.contract.torch_checkpoints import read_checkpoint

        saved = checked_checkpoint(*read_checkpoint(directory / STATE, [self._key]))
        self._reported_step = saved.step
        self._seconds = saved.seconds
        self._curve = list(saved.curve)
        self._output.state = saved.state
        self._output.weights = saved.weights
        self._output.arrays = saved.arrays

    def _train(self) -> Generator[Report]:
        from trainables.contract.states import StateError

        try:
            yield from self._trained()
        except StateError as error:
            raise self._broken(str(error)) from None

    def _trained(self) -> Generator[Report]:
        begun = time.perf_counter()
        status = Status.FINISHED
        accuracy = dict[str, float]()
        floor = self._shares(self._family.floor)
        step = 0
        for point in apart(self._points()):
            self._seconds += time.perf_counter() - begun
            evaluation = self._evaluation(point, least=step + 1)
            self.first_step = self.first_step or evaluation.step
            step = evaluation.step
            if self._curve and self._curve[-1].step >= step:  # Train repeats points from before a kill.
                self._curve = [known for known in self._curve if known.step < step]
            if isinstance(evaluation.loss, float) and not math.isfinite(evaluation.loss):
                status = Status.DIVERGED
                accuracy = floor
                break
            self._curve.append(evaluation)
            if step > self._reported_step:
                self._reported_step = step
                yield Report(0, evaluation)
            begun = time.perf_counter()
        else:
            self._seconds += time.perf_counter() - begun
            if not self._curve:
                raise self._broken("yielded nothing; yield (step, loss, accuracy) at least once")
            step = self._curve[-1].step
            accuracy = self._curve[-1].accuracy
        scores = self._curve[-1].measures if status is Status.FINISHED else {}
        measures = {"seconds": self._seconds, **scores}
        outcome = Outcome(status, step, accuracy, floor, tuple(self._curve), measures)
        yield Report(0, None, outcome, self._output.arrays, self._output.weights)

    def _points(self) -> Iterator[Any]:
        """Return the generator of points, which begins at the saved state if there is one."""
        from trainables.contract.states import restored

        run = self._run
        state = self._output.state
        tasks = dict(zip(run.mix.tasks, run.mix.shares, strict=True))
        resumed = None if state is None else restored(state.tree, [tensor.clone() for tensor in state.tensors])
        options = {"resume": resumed} if self._family.resumes else {}
        points: Any = self._family.train(tasks, run.size, run.seed, run.settings, **options)
        if not isinstance(points, Iterator):
            raise self._broken(f"returned {shortened(points)}; make it a generator that yields (step, loss, accuracy)")
        return points

    def _evaluation(self, point: Any, least: int) -> Evaluation:
        if not (isinstance(point, tuple) and len(point) == 3):
            raise self._broken(f"yielded {shortened(point)}; yield (step, loss, accuracy)")
        step, loss = map(_python_number, point[:2])
        if not isinstance(step, int) or step < least:
            rule = f"it must be a whole number of at least {least}: count the optimizer steps"
            raise self._broken(f"yielded step {step}; {rule}")
        scores = self._shares(point[2])
        if self._bar is None or not all(type(score) in (int, float) for score in scores.values()):
            return Evaluation(step, loss, scores)  # The validator refuses scores that are not numbers.
        if not all(map(math.isfinite, scores.values())):
            return Evaluation(step, math.nan, scores)
        return Evaluation(step, loss, self._bar.shares(scores), self._bar.measures(scores))

    def _shares(self, accuracy: Any) -> dict[str, float]:
        tasks = self._run.mix.tasks
        if not isinstance(accuracy, Mapping):
            return dict.fromkeys(tasks, _python_number(accuracy))
        return {task: _python_number(accuracy[task]) for task in tasks if task in accuracy}

    def _broken(self, what: str) -> BrokenFamilyError:
        run = self._run
        family = self._family
        train = f"{type(family).__name__}.train (mix {run.label}, {family.size_axis} {run.size}, seed {run.seed})"
        return BrokenFamilyError(f"the family {family.name!r} does not keep its contract: {train}: {what}")


def _python_number(value: Any) -> Any:
    """Convert a number of numpy or torch to a Python number. Return any other value unchanged, such as an array."""
    if not hasattr(value, "item"):
        return value
    count = value.numel() if hasattr(value, "numel") else getattr(value, "size", 1)
    return value.item() if count == 1 else value
