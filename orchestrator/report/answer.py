"""The answer of a sweep: per mix and task a transition with its interval, and what each mix saves. Pure values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

from orchestrator.space.evidence import is_evidence, point_of
from orchestrator.space.settings import difference
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.comparison import synergy
from orchestrator.transition.transition import transition
from orchestrator.transition.types import Estimate, Point, Synergy, Transition
from orchestrator.tuning import found_text
from trainables.base import Family, Outcome, RunConfig, Status, Words


@dataclass(frozen=True)
class TaskAnswer:
    """The transition of one task in a mix.

    ``total`` and ``core`` are the transition (at the share of the asymptote) in trainable parameters, all and those of
    the model's body.
    """

    task: str
    transition: Transition
    total: Estimate
    core: Estimate


@dataclass(frozen=True)
class MixAnswer:
    """The answer for one mix. ``tasks`` holds the target first. Synergies are None for the baseline itself, and for all
    mixes of a family that compares none.

    ``finished`` runs include those that learned nothing; ``diverged`` runs count as the floor, ``failed`` ones are
    no evidence. ``spent`` is False if every run that did not learn ended before its budget did, as a lost race may.
    ``recipe`` names the settings the mix was trained with, ``""`` in a sweep of one recipe; ``plain`` is the mix's name
    without it, ``composition`` without its ``budget`` too. ``seen`` counts the examples of the target it saw, in units
    of what a mix of the target alone sees with the settings' own budget. ``stopped``: the search for it was stopped by
    hand.
    """

    mix: str
    finished: int
    diverged: int
    failed: int
    tasks: tuple[TaskAnswer, ...]
    synergy_total: Synergy | None
    synergy_core: Synergy | None
    spent: bool = True
    recipe: str = ""
    plain: str = ""
    composition: str = ""
    budget: float = 1.0
    seen: float = 1.0
    stopped: bool = False

    @property
    def runs(self) -> int:
        """Runs the transitions rest on."""
        return self.finished + self.diverged

    @property
    def target(self) -> TaskAnswer:
        return self.tasks[0]


@dataclass(frozen=True)
class RecipeText:
    """A recipe's name and, in a line, what it changes in the settings."""

    name: str
    changes: str


@dataclass(frozen=True)
class Count:
    """Trainable parameters of the model at one size: all, and those of its body."""

    size: int
    total: float
    core: float


@dataclass(frozen=True)
class Answer:
    """The answer to a sweep's question. ``subject`` names in a few words what is learned (``modulus 6``).

    ``counts`` holds every size the sweep may use, ascending; ``tuned`` lists, a line a mix, the settings chosen before
    the sweep. ``recipes`` is empty for a sweep of one recipe. ``baseline`` is the first recipe's. ``words`` are the
    family's. ``cautions`` are known flaws of the data, a sentence each.
    """

    target: str
    subject: str
    size_axis: str
    counts: tuple[Count, ...] = field(repr=False)
    baseline: str
    mixes: tuple[MixAnswer, ...] = field(repr=False)
    tuned: tuple[str, ...] = ()
    recipes: tuple[RecipeText, ...] = ()
    words: Words = field(default_factory=Words)
    cautions: tuple[str, ...] = ()

    @property
    def size_label(self) -> str:
        """The size on an axis: ``model width (n_embed)``."""
        return f"{self.words.size} ({self.size_axis})"

    def under(self, recipe: str) -> Answer:
        """The same answer under one of its recipes alone, its mixes without the recipe in their names."""
        plain = [replace(mix, mix=mix.plain) for mix in self.mixes if mix.recipe == recipe]
        return replace(self, baseline=plain[0].mix, mixes=tuple(plain), recipes=())

    def baseline_of(self, mix: MixAnswer) -> str:
        """The name of the mix that ``mix`` is compared with: the first of its own recipe."""
        return next(other.mix for other in self.mixes if other.recipe == mix.recipe)

    def tested(self, transition: Transition) -> tuple[Count, Count]:
        """The smallest and the largest size with a run; before any run, of the sizes to choose from."""
        seen = {point.size for point in transition.points}
        counts = [count for count in self.counts if count.size in seen] or self.counts
        return counts[0], counts[-1]

    def mix(self, name: str) -> MixAnswer:
        """The answer for one mix. Raises ``KeyError`` for a mix that is not part of the sweep."""
        for each in self.mixes:
            if each.mix == name:
                return each
        raise KeyError(name)


def answer(spec: SweepSpec, outcomes: Iterable[tuple[RunConfig, Outcome]], stopped: Collection[str] = ()) -> Answer:
    """The answer from the runs that ended so far; the search for the mixes in ``stopped`` was stopped by hand. Pure;
    runs of other mixes are left out."""
    family = spec.make_family()
    ended: dict[str, list[tuple[RunConfig, Outcome]]] = {mix.name: [] for mix in spec.mixes}
    for config, outcome in outcomes:
        if config.label in ended and is_evidence(config):
            ended[config.label].append((config, outcome))

    used = [config.size for runs in ended.values() for config, _ in runs]

    def total(size: float) -> float:
        return family.parameters(size).total

    def core(size: float) -> float:
        return family.parameters(size).core

    tasks = {
        mix.name: tuple(
            _task(task, transition(_points(ended[mix.name], task), spec.sizes), total, core)
            for task in sorted(mix.tasks, key=lambda task: (task != spec.target, task))
        )
        for mix in spec.mixes
    }
    mixes = []
    for mix in spec.mixes:
        statuses = Counter(outcome.status for _, outcome in ended[mix.name])
        found = tasks[mix.name][0].transition
        baseline = spec.baseline_of(mix)
        compared = family.compares_mixes and mix != baseline
        reference = tasks[baseline.name][0].transition
        mixes.append(
            MixAnswer(
                mix=mix.name,
                finished=statuses[Status.FINISHED],
                diverged=statuses[Status.DIVERGED],
                failed=statuses[Status.FAILED],
                tasks=tasks[mix.name],
                synergy_total=synergy(reference, found, total) if compared else None,
                synergy_core=synergy(reference, found, core) if compared else None,
                spent=_spent(family, ended[mix.name], spec.target, found.level),
                recipe=mix.recipe,
                plain=mix.plain_name,
                composition=mix.composition,
                budget=mix.budget,
                seen=mix.seen(spec.target) if family.divides_examples else mix.budget,
                stopped=mix.name in stopped,
            )
        )
    return Answer(
        target=spec.target,
        subject=family.subject(),
        size_axis=family.size_axis,
        counts=tuple(Count(size, total(size), core(size)) for size in sorted({*spec.sizes, *used})),
        baseline=spec.baseline.name,
        mixes=tuple(mixes),
        tuned=tuple(found_text(name, found, spec.tune) for name, found in spec.tuned.items()),
        recipes=tuple(
            RecipeText(name, difference(spec.settings, settings))
            for name, settings in spec.recipe_settings.items()
            if name in {mix.recipe for mix in spec.mixes}
        ),
        words=family.words,
        cautions=tuple(spec.warnings()),
    )


def _points(ended: Iterable[tuple[RunConfig, Outcome]], task: str) -> tuple[Point, ...]:
    """The runs as points for one task, without failed ones."""
    said = (point_of(config, outcome, task) for config, outcome in ended)
    return tuple(sorted(point for point in said if point is not None))


def _spent(family: Family, ended: Iterable[tuple[RunConfig, Outcome]], target: str, level: float | None) -> bool:
    """True if a run that did not reach ``level`` used all of its steps."""
    return any(
        outcome.steps >= family.steps(config)
        for config, outcome in ended
        if level is None or outcome.accuracy.get(target, 0.0) < level
    )


def _task(task: str, found: Transition, total: Callable[[float], float], core: Callable[[float], float]) -> TaskAnswer:
    return TaskAnswer(
        task=task,
        transition=found,
        total=_through(found.relative, total),
        core=_through(found.relative, core),
    )


def _through(estimate: Estimate, function: Callable[[float], float]) -> Estimate:
    """An estimate in another unit; ``function`` must be increasing, so that bounds stay bounds."""
    return Estimate(*(None if x is None else function(x) for x in (estimate.value, estimate.low, estimate.high)))
