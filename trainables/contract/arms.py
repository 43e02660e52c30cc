"""Arms: the ways of training that a sweep compares, each on one mix of tasks or on several in turn."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from trainables.contract.settings import SettingsError

ALL = "all"
"""Name that stands for every part of a model."""
BUDGET = " x"
"""Separator before the budget in the text of an arm of one phase."""
RECIPE = " @ "
"""Separator before the recipe in the text of an arm of one phase."""
MOST_UNEVEN = 1e6
"""Largest weight in a mix relative to the smallest; a rarer task would hardly ever occur."""
BUDGETS = (1e-9, 1e9)
"""Smallest and largest budget of an arm. Beyond them, a run of 10**9 steps has none, or a run of one step 10**9."""
LEAST_SHARE = 1e-9
"""Smallest share of the steps that the last phase may have, for the same reason."""
MOST_PHASES = 50
"""Maximum number of phases of an arm. Each phase is a run that starts from the run before it."""


@dataclass(frozen=True)
class Mix:
    """Tasks, sorted, and their shares of the training data, which sum to 1: equal mixes compare equal."""

    tasks: tuple[str, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, weights: Mapping[str, float]) -> Mix:
        """Return a mix from relative weights (any positive numbers). Raises :class:`SettingsError`."""
        if not weights:
            raise SettingsError("a mix needs at least one task", key="mixes")
        for task, weight in weights.items():
            if not (0 < weight < float("inf")):
                raise SettingsError(f"the weight of {task!r} is {weight!r}; it must be a positive number", key="mixes")
        if max(weights.values()) > MOST_UNEVEN * min(weights.values()):
            raise SettingsError(f"a weight is more than {MOST_UNEVEN:g} times as large as another", key="mixes")
        weights = dict(sorted(weights.items()))
        total = sum(weights.values())
        return cls(tuple(weights), tuple(weight / total for weight in weights.values()))

    @classmethod
    def parse(cls, text: str) -> Mix:
        """Read ``"add+prod"``, with relative weights ``"add:2+prod"``. Raises :class:`SettingsError`."""
        weights: dict[str, float] = {}
        for part in text.split("+"):
            task, _, weight = part.partition(":")
            if not (task := task.strip()):
                raise SettingsError(f"{text!r} is not a mix: a task name is missing next to a '+'", key="mixes")
            if task in weights:
                raise SettingsError(f"{text!r} is not a mix: it names {task!r} twice", key="mixes")
            try:
                weights[task] = float(weight) if weight else 1.0
            except ValueError:
                raise SettingsError(f"{text!r} is not a mix: {weight!r} is not a number", key="mixes") from None
        return cls.of(weights)

    @cached_property
    def name(self) -> str:
        """``add+prod``; with unequal shares ``add:2+prod:1`` (relative to the smallest)."""
        if len(set(self.ratios.values())) == 1:
            return "+".join(self.tasks)
        return "+".join(f"{task}:{ratio:.6g}" for task, ratio in self.ratios.items())

    @property
    def ratios(self) -> dict[str, float]:
        """Each task's share relative to the smallest; all are 1 if they differ only by rounding."""
        least = min(self.shares)
        ratios = {task: share / least for task, share in zip(self.tasks, self.shares, strict=True)}
        return dict.fromkeys(ratios, 1.0) if max(ratios.values()) < 1 + 1e-9 else ratios

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Phase:
    """One phase of an arm's training.

    Attributes:
        share: Its part of the arm's steps, in [0, 1].
        takes: Parts of the model to take over from the previous phase. The other parts start from new weights. Only
            weights are taken over: Adam's moments and the learning-rate schedule, warm-up included, start again.
        frozen: Parts of the model that do not train.
        size: Size that replaces the run's size, so that one donor serves runs of every size. None for the run's size.
    """

    mix: Mix
    share: float = 1.0
    takes: tuple[str, ...] = (ALL,)
    frozen: tuple[str, ...] = ()
    size: int | None = None


@dataclass(frozen=True)
class Arm:
    """A way to train a model of each size, in at least one phase; a sweep compares several.

    Attributes:
        phases: Phases in order. The mix of the last phase contains the target.
        budget: Factor of the settings' training steps and examples.
        recipe: Name of the settings to train with. Empty in a sweep of one recipe.
        label: Name of the arm. If it is empty, the name consists of the mixes of the phases.
    """

    phases: tuple[Phase, ...]
    budget: float = 1.0
    recipe: str = ""
    label: str = ""

    def __post_init__(self) -> None:
        if len(self.phases) > MOST_PHASES:
            message = f"there are {len(self.phases):,} phases; an arm may have at most {MOST_PHASES}"
            raise SettingsError(f"{self}: {message}" if self.label else message, key="arms")
        least, most = BUDGETS
        if not least <= self.budget <= most:
            rule = f"it must be a number from {least:g} to {most:g}"
            raise SettingsError(f"the budget of {self} is {self.budget!r}; {rule}", key="arms")
        shares = [phase.share for phase in self.phases]
        if min(shares) < 0 or abs(sum(shares) - 1) > 1e-6:
            raise SettingsError(f"the shares of the phases of {self} are {shares}; they must sum to 1", key="arms")
        if self.phases[0].takes not in ((), (ALL,)):
            raise SettingsError(f"the first phase of {self} takes parts over, but no phase comes before it", key="arms")
        if self.phases[-1].size is not None:
            raise SettingsError(f"the last phase of {self} has a size; it must have the size of its run", key="arms")
        if shares[-1] < LEAST_SHARE:
            rule = f"it must be at least {LEAST_SHARE:g}"
            raise SettingsError(f"the last phase of {self} has the share {shares[-1]:g}; {rule}", key="arms")

    @classmethod
    def of(cls, mix: Mix, budget: float = 1.0, recipe: str = "", label: str = "") -> Arm:
        """Return an arm of one phase. Raises :class:`SettingsError`."""
        return cls((Phase(mix),), budget, recipe, label)

    @classmethod
    def parse(cls, text: str) -> Arm:
        """Read an arm of one phase: ``"add+prod"``, with twice the budget ``"add+prod x2"``, under a recipe
        ``"add+prod @ wide"``. Raises :class:`SettingsError`."""
        mixed, _, recipe = text.partition(RECIPE)
        composition, times, factor = mixed.partition(BUDGET)
        try:
            budget = float(factor) if times else 1.0
        except ValueError:
            raise SettingsError(f"{text!r} is not a mix: {factor!r} is not a number", key="mixes") from None
        return cls.of(Mix.parse(composition), budget, recipe)

    def with_as_much(self, task: str, other: Arm) -> Arm:
        """Return the arm with the budget at which it sees as much of ``task`` as ``other``; both must contain it."""
        return replace(self, budget=float(f"{other.seen(task) / self.seen(task) * self.budget:.6g}"))

    def seen(self, task: str) -> float:
        """Return how many examples of a task the arm sees, relative to an arm of that task alone with a budget of 1."""
        shares = [dict(zip(phase.mix.tasks, phase.mix.shares, strict=True)) for phase in self.phases]
        parts = [phase.share * share.get(task, 0.0) for phase, share in zip(self.phases, shares, strict=True)]
        return self.budget * sum(parts)

    @property
    def mix(self) -> Mix:
        """Mix of the last phase, on which a run is scored."""
        return self.phases[-1].mix

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks of the last phase."""
        return self.mix.tasks

    @cached_property
    def name(self) -> str:
        """The name: ``add+prod``, ``add+prod x2`` (twice the budget), ``add+prod @ wide`` (recipe ``wide``)."""
        return f"{self.plain_name}{RECIPE}{self.recipe}" if self.recipe else self.plain_name

    @property
    def plain_name(self) -> str:
        """The name without the recipe."""
        return self.composition if self.budget == 1 else f"{self.composition}{BUDGET}{self.budget:.6g}"

    @property
    def composition(self) -> str:
        """The name without the recipe and the budget."""
        return self.label or ", then ".join(phase.mix.name for phase in self.phases)

    def __str__(self) -> str:
        return self.name


def as_named(text: str, names: Collection[str]) -> str:
    """Return the name of the arm that a text spells: ``add+max`` for ``max+add``.

    Return the text unchanged if it is one of the ``names`` or does not spell an arm.
    """
    try:
        return text if text in names else Arm.parse(text).name
    except SettingsError:
        return text
