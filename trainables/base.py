"""The contract between a family of models and whatever schedules their training.

A *family* knows how to train models of one kind at any size on any mix of its tasks. The orchestrator knows none of
that: it names runs, hands stacks of them to the family's learner and reads back evaluations and outcomes. Nothing
here imports Ray, MLflow or the orchestrator, so a family can be stepped through in a debugger by itself.

A family outside this repository is any class that subclasses :class:`Family`, named ``package.module:Class``.
"""

from __future__ import annotations

import hashlib
import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray

from trainables.described import described_fields

KEY_DIGITS = 16
"""Hex digits of a run key: 64 bits, so a clash among a million runs has probability below 1e-7."""


RECIPE = " @ "
"""Stands between a mix and the recipe it is trained with."""


class SettingsError(ValueError):
    """A setting that cannot be used.

    ``key`` is the dotted path of the setting inside the family's settings (``task.modulus``), or ``""``.
    ``allowed`` lists the values that would do, where they can be listed; callers name the nearest.
    """

    def __init__(self, message: str, *, key: str = "", given: str = "", allowed: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.key = key
        self.given = given
        self.allowed = tuple(allowed)


@dataclass(frozen=True)
class Mix:
    """A set of tasks trained together, with the share each has in the training data.

    Tasks are kept in alphabetical order and shares sum to 1, so that equal mixes compare and hash equal however
    they were written. ``budget`` multiplies the steps and the training examples of the settings.
    ``recipe`` names the settings it is trained with, where a sweep has several.
    """

    tasks: tuple[str, ...]
    shares: tuple[float, ...]
    budget: float = 1.0
    recipe: str = ""

    @classmethod
    def of(cls, weights: Mapping[str, float], budget: float = 1.0) -> Mix:
        """Build a mix from relative weights and a budget (any positive numbers). Raises :class:`SettingsError`."""
        if not weights:
            raise SettingsError("a mix needs at least one task", key="mixes")
        for task, weight in weights.items():
            if not (0 < weight < float("inf")):
                raise SettingsError(f"the weight of {task!r} is {weight!r}; it must be a positive number", key="mixes")
        if not (0 < budget < float("inf")):
            raise SettingsError(f"the budget of a mix is {budget!r}; it must be a positive number", key="mixes")
        tasks = tuple(sorted(weights))
        total = sum(weights.values())
        return cls(tasks, tuple(weights[task] / total for task in tasks), budget)

    @classmethod
    def parse(cls, text: str) -> Mix:
        """Read ``"add+prod"``, with relative weights ``"add:2+prod"``, with twice the budget ``"add+prod x2"``, under a
        recipe ``"add+prod @ wide"``.

        Raises :class:`SettingsError`.
        """
        weights: dict[str, float] = {}
        mixed, _, recipe = text.partition(RECIPE)
        composition, times, factor = mixed.partition(" x")
        try:
            budget = float(factor) if times else 1.0
        except ValueError:
            raise SettingsError(f"{text!r} is no mix: {factor!r} is not a number", key="mixes") from None
        for part in composition.split("+"):
            task, _, weight = part.strip().partition(":")
            task = task.strip()
            if not task:
                raise SettingsError(f"{text!r} is no mix: a task name is missing beside a '+'", key="mixes")
            if task in weights:
                raise SettingsError(f"{text!r} is no mix: {task!r} is named twice", key="mixes")
            try:
                weights[task] = float(weight) if weight else 1.0
            except ValueError:
                raise SettingsError(f"{text!r} is no mix: {weight!r} is not a number", key="mixes") from None
        return replace(cls.of(weights, budget), recipe=recipe)

    def with_as_much(self, task: str, other: Mix) -> Mix:
        """The mix with the budget at which it holds as much of ``task`` as ``other`` does; both must hold it."""
        wanted = other.budget * other.shares[other.tasks.index(task)]
        return replace(self, budget=float(f"{wanted / self.shares[self.tasks.index(task)]:.6g}"))

    @cached_property
    def name(self) -> str:
        """``add+prod``; with unequal shares ``add:2+prod:1`` (relative to the smallest), with a budget of its own
        ``add+prod x2``, under a recipe ``add+prod @ wide``."""
        return f"{self.plain_name}{RECIPE}{self.recipe}" if self.recipe else self.plain_name

    @property
    def plain_name(self) -> str:
        """The name without the recipe."""
        return self.composition if self.budget == 1 else f"{self.composition} x{self.budget:.6g}"

    @property
    def composition(self) -> str:
        """The name without budget and recipe."""
        least = min(self.shares)
        ratios = [share / least for share in self.shares]
        if max(ratios) < 1 + 1e-9:
            return "+".join(self.tasks)
        return "+".join(f"{task}:{ratio:.6g}" for task, ratio in zip(self.tasks, ratios, strict=True))

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class RunConfig:
    """One run: a cell (mix, size) with one seed, and every setting that changes its mathematics.

    ``settings`` is the family's own frozen dataclass, the run's budget in it. Device, stack, retries and the sweep's
    target are not part of it: they do not change what is computed (beyond float rounding), so they do not change the
    key. ``steps_factor`` says that the budget holds so many times the steps that runs of this mix have otherwise; it
    is in the settings already, so the key leaves it out.
    """

    mix: Mix
    size: int
    seed: int
    settings: Any
    steps_factor: int = 1


class Status(StrEnum):
    """How a run ended. Diverged is data (the model did not learn at this size); failed is a bug, and no data."""

    FINISHED = "finished"
    DIVERGED = "diverged"
    FAILED = "failed"


@dataclass(frozen=True)
class Evaluation:
    """One point of a learning curve: after ``step`` optimizer steps, on the validation part of the held-out data.

    ``loss`` is the mean training loss in nats a token since the last evaluation; ``accuracy`` maps each task of the
    mix to a share in [0, 1].
    """

    step: int
    loss: float
    accuracy: dict[str, float]


@dataclass(frozen=True)
class Outcome:
    """What a run came to.

    ``accuracy`` maps each task of the mix to its score on the test part of the held-out data, in [0, 1]; for a
    diverged run it equals ``floor``, the score of the best constant answer on the same test set. ``measures`` are
    further numbers worth recording (``seconds``, ``test_examples_add``, ``test_cases_add``, ...). ``error`` is the
    traceback of a failed run, whose ``accuracy`` is empty. ``data`` is a hash (at most 36 characters) of the content of
    everything the run was trained and scored on, ``""`` where its family has none.
    """

    status: Status
    steps: int
    accuracy: dict[str, float]
    floor: dict[str, float]
    curve: tuple[Evaluation, ...] = ()
    measures: dict[str, float] = field(default_factory=dict)
    error: str = ""
    data: str = ""

    def to_json(self) -> dict[str, Any]:
        """A dictionary of plain JSON values; :meth:`from_json` is its inverse."""
        return asdict(self) | {"status": self.status.value}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Outcome:
        """Read what :meth:`to_json` wrote. Raises ``KeyError`` or ``TypeError`` for anything else."""
        curve = tuple(Evaluation(**point) for point in data["curve"])
        return cls(**{**data, "status": Status(data["status"]), "curve": curve})


@dataclass(frozen=True)
class Report:
    """What one run of a stack has to say after the stack advanced to its next evaluation.

    ``index`` is the run's place in the stack as it was built. ``outcome`` and ``arrays`` are set once, when the run
    ends; ``arrays`` are what is kept of the trained model (``embedding``: float32, number tokens x size;
    ``similarity``: float32, their cosine similarities); ``weights`` are its parameters by name.
    """

    index: int
    evaluation: Evaluation | None = None
    outcome: Outcome | None = None
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    weights: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class StepCost:
    """What a step of a stack takes: ``seconds`` of each run's share, and the memory it held at its peak in bytes (0
    where the device does not say)."""

    seconds: float
    memory_bytes: float = 0.0


class Learner(ABC):
    """Trains one stack of runs of equal shape as one batched model. Called from one thread only."""

    @abstractmethod
    def advance(self) -> list[Report]:
        """Train every unfinished run to its next evaluation and report on each; ``[]`` once all have ended.

        A run that ends (budget used, solved, diverged) is frozen: nothing that happens to its neighbours later
        changes its outcome.
        """

    @abstractmethod
    def save(self, directory: Path) -> None:
        """Write a checkpoint into ``directory`` (made if missing), replacing an older one in a single rename."""

    @abstractmethod
    def restore(self, directory: Path) -> None:
        """Continue from a checkpoint of the same stack, bit for bit on the same device, or of a larger one that held
        all of these runs.

        Raises ``FileNotFoundError`` where there is none, ``ValueError`` where it lacks one of the runs.
        """


@dataclass(frozen=True)
class Parameters:
    """Trainable parameters of a model: all of them, and without embeddings, positions and head (``core``)."""

    total: float
    core: float


class Family(ABC):
    """A kind of model and the tasks it is trained on, with its settings resolved.

    ``Settings`` is a frozen dataclass (nested dataclasses allowed) whose ``__post_init__`` raises
    :class:`SettingsError`; its fields are what a search space writes under ``settings:``.
    """

    name: ClassVar[str]
    version: ClassVar[int]
    """Part of every run key: raise it when a change alters what the same settings compute."""
    size_axis: ClassVar[str]
    """What a size means (``n_embed``); the name of the parameter in records and of the axis in figures."""
    Settings: ClassVar[type]
    tunable: ClassVar[tuple[str, ...]] = ()
    """Settings that may be tuned for each mix, by dotted name: numbers that decide how well a run is trained, and
    neither what it learns nor what it may spend."""
    scales_with_size: ClassVar[tuple[str, ...]] = ()
    """Those of them that carry over sizes by a power law: learning rates."""

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    @abstractmethod
    def tasks(self) -> tuple[str, ...]:
        """The names a mix may hold."""

    @abstractmethod
    def check(self, mix: Mix, size: int) -> None:
        """Raise :class:`SettingsError` unless a run of this mix and size can be trained with these settings."""

    def subject(self) -> str:
        """What is learned, in a few words for the head of an answer (``modulus 6``); ``""`` leaves it out."""
        return ""

    @classmethod
    def modernised(cls, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        """Settings as plain values in today's words, where they are written in those of a former version."""
        return settings

    @abstractmethod
    def warnings(self, sizes: Sequence[int]) -> list[str]:
        """What the user should know about these settings at these sizes before paying for them, a sentence each."""

    @abstractmethod
    def parameters(self, size: float) -> Parameters:
        """Parameter counts in closed form; ``size`` may be fractional (an interpolated transition)."""

    @abstractmethod
    def scaled(self, steps: float, examples: float) -> Any:
        """The settings with ``steps`` times the optimizer steps and ``examples`` times the training examples.

        Both are positive; what is 1 stays as it is. The schedule of the learning rate is stretched with the steps.
        Raises :class:`SettingsError` where the other settings do not fit so few steps.
        """

    def adjusted(self, values: Mapping[str, float]) -> Any:
        """The settings with other values, by dotted name; whole numbers are rounded.

        Raises :class:`SettingsError` for a value that cannot be used, ``AttributeError`` for an unknown name.
        """
        settings = self.settings
        for path, value in values.items():
            settings = _replaced(settings, path.split("."), value)
        return settings

    @abstractmethod
    def steps(self, run: RunConfig) -> int:
        """Optimizer steps a run takes at most."""

    @abstractmethod
    def flops(self, run: RunConfig) -> float:
        """Floating-point operations a run takes at most: the basis of cost estimates."""

    @abstractmethod
    def shape(self, run: RunConfig) -> str:
        """Runs with equal shapes can be trained in one stack."""

    @abstractmethod
    def learner(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> Learner:
        """A learner for a stack of runs of equal shape, at step 0.

        ``cache`` is a directory on this node for data that several runs share (made once, memory-mapped).
        ``device`` is a torch device name (``cpu``, ``cuda``).
        """

    def workload(self) -> str:
        """What shapes a step beside size and precision, in words: with all three equal, steps take equally long."""
        return json.dumps(asdict(self.settings), sort_keys=True)

    def precision(self) -> str:
        """What matrix products are computed in."""
        return "float32"

    def memory(self, size: int) -> float:
        """Bytes of memory each run of a stack needs at its peak, rather too many than too few; 0 where not known."""
        return 0.0

    def probe(self, runs: Sequence[RunConfig], *, device: str, cache: Path) -> StepCost | None:
        """Time a few steps of these runs as a stack, and forget them; None where the family cannot.

        Called before a training, in its process; must be quick (a few steps) and leave nothing behind.
        """
        return None

    def config(
        self, mix: Mix, size: int, seed: int, steps_factor: int = 1, tuned: Mapping[str, float] | None = None
    ) -> RunConfig:
        """The run of this family at (mix, size, seed): the mix's budget in steps and examples, its steps times
        ``steps_factor``, and ``tuned`` settings by dotted name."""
        family = type(self)(self.adjusted(tuned)) if tuned else self
        # What stays as it is is not made anew: settings read from disk keep to the rules of their own time.
        whole = mix.budget * steps_factor == mix.budget == 1
        settings = family.settings if whole else family.scaled(mix.budget * steps_factor, mix.budget)
        return RunConfig(mix, size, seed, settings, steps_factor)

    def described(self, settings: Any) -> dict[str, Any]:
        """Everything in the settings that changes the mathematics, as plain values: what run keys are made of.

        Fields with the metadata :data:`trainables.described.ADDED_LATER` are left out where they have their default.
        """
        return described_fields(settings)

    def key(self, run: RunConfig) -> str:
        """The run's identity: a hash of the family, its version and everything that changes the mathematics."""
        described = {
            "family": self.name,
            "version": self.version,
            "mix": {task: round(share, 12) for task, share in zip(run.mix.tasks, run.mix.shares, strict=True)},
            "size": run.size,
            "seed": run.seed,
            "settings": self.described(run.settings),
        }
        text = json.dumps(described, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


def _replaced(settings: Any, path: Sequence[str], value: float) -> Any:
    """A dataclass with the number at ``path`` inside it replaced."""
    old = getattr(settings, path[0])
    if len(path) > 1:
        return replace(settings, **{path[0]: _replaced(old, path[1:], value)})
    return replace(settings, **{path[0]: round(value) if isinstance(old, int) else float(value)})


BUILT_IN = {"listops": "trainables.listops.family:ListOps"}
"""Short names of the families that come with the project."""


def load_family(name: str) -> type[Family]:
    """The class a search space names: a built-in family or ``package.module:Class``.

    Raises :class:`SettingsError` (key ``family``) for anything that is not a complete :class:`Family`.
    """
    module_name, colon, class_name = BUILT_IN.get(name, name).partition(":")
    if not colon:
        raise SettingsError(
            f"there is no family {name!r}; give a built-in one or package.module:Class",
            key="family",
            given=name,
            allowed=tuple(BUILT_IN),
        )
    try:
        found = getattr(importlib.import_module(module_name), class_name, None)
    except Exception as error:  # A module of anybody's, which may raise anything as it is imported.
        why = f"{type(error).__name__}: {error}"
        raise SettingsError(f"family {name!r} cannot be imported: {why}", key="family", given=name) from error
    if not (isinstance(found, type) and issubclass(found, Family)):
        raise SettingsError(f"{name!r} is not a subclass of trainables.base.Family", key="family", given=name)
    return found
