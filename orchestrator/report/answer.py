"""The answer of a sweep: a transition for each mix and task, and each mix compared with its baseline. Pure values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from orchestrator.space.evidence import comparisons, is_evidence, point_of
from orchestrator.space.settings import difference
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.comparison import synergy
from orchestrator.transition.evidence import LEARNED, Block, Comparison, bar
from orchestrator.transition.transition import transition
from orchestrator.transition.types import Estimate, Point, SizeShare, Synergy, Transition
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
    """The answer for one mix.

    Attributes:
        finished: Runs that ended, including those that learned nothing.
        diverged: Runs that diverged; they count as the floor.
        failed: Runs that failed; they are not evidence.
        tasks: The transition of each task, the target first.
        shares: The runs that learned the target and those tried, by size, ascending.
        comparison: What the pairs of this mix and its baseline show. None for the baseline, for a family that compares
            no mixes, and for a search that did not ask for pairs.
        synergy_total: Estimate of transition(baseline) / transition(mix) in all parameters; it decides nothing. None
            for the baseline and for a family that compares no mixes.
        synergy_core: The same in parameters of the core.
        spent: False if every run that did not learn ended before its budget did, as a lost race may.
        recipe: Name of the settings the mix was trained with, ``""`` in a sweep of one recipe.
        plain: The mix's name without its recipe.
        composition: The mix's name without its recipe and its budget.
        budget: Steps and examples, as a multiple of the settings' own.
        seen: Examples of the target, in units of what a mix of the target alone sees with the settings' own budget.
        stopped: True if a person stopped the search for it.
    """

    mix: str
    finished: int
    diverged: int
    failed: int
    tasks: tuple[TaskAnswer, ...]
    shares: tuple[SizeShare, ...] = ()
    comparison: Comparison | None = None
    synergy_total: Synergy | None = None
    synergy_core: Synergy | None = None
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
    def learned(self) -> int:
        """Runs that learned the target."""
        return sum(share.learned for share in self.shares)

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
    family's. ``cautions`` are known flaws of the data, a sentence each. ``learned`` is the share of what can be scored
    above the best constant answer from which on a run counts as learned.
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
    learned: float = LEARNED

    @property
    def size_label(self) -> str:
        """The size on an axis: ``model width (n_embed)``."""
        return f"{self.words.size} ({self.size_axis})"

    def under(self, recipe: str) -> Answer:
        """The same answer under one of its recipes alone, its mixes without the recipe in their names."""
        plain = [replace(mix, mix=mix.plain) for mix in self.mixes if mix.recipe == recipe]
        return replace(self, baseline=plain[0].mix, mixes=tuple(plain), recipes=())

    def baseline_of(self, mix: MixAnswer) -> str:
        """Return the name of the mix that ``mix`` is compared with: the first of its own recipe."""
        return next(other.mix for other in self.mixes if other.recipe == mix.recipe)

    def has_learned(self, accuracy: float, floor: float) -> bool:
        """Return whether a run learned the target; ``floor`` is the score of the best constant answer."""
        return accuracy >= bar(floor, self.learned)

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


def answer(
    spec: SweepSpec,
    outcomes: Iterable[tuple[RunConfig, Outcome]],
    stopped: Collection[str] = (),
    blocks: Sequence[Block] = (),
) -> Answer:
    """Return the answer from the runs that ended so far.

    Args:
        spec: The sweep. Runs of other mixes are left out.
        outcomes: The runs that ended.
        stopped: Mixes whose search a person stopped.
        blocks: The pairs that the search asked for, in that order.
    """
    family = spec.make_family()
    ended: dict[str, list[tuple[RunConfig, Outcome]]] = {mix.name: [] for mix in spec.mixes}
    for config, outcome in outcomes:
        if config.label in ended and is_evidence(config):
            ended[config.label].append((config, outcome))

    used = [config.size for runs in ended.values() for config, _ in runs]
    learned = float(spec.search.settings.get("learned", LEARNED))
    decisions = comparisons(spec, blocks, [run for runs in ended.values() for run in runs])

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
                shares=_shares(_points(ended[mix.name], spec.target), learned),
                comparison=decisions.get(mix.name),
                synergy_total=synergy(reference, found, total) if compared else None,
                synergy_core=synergy(reference, found, core) if compared else None,
                spent=_spent(family, ended[mix.name], spec.target, learned),
                recipe=mix.recipe,
                plain=mix.plain_name,
                composition=mix.composition,
                budget=mix.budget,
                seen=mix.seen(spec.target) if family.compares_mixes else mix.budget,
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
        learned=learned,
    )


def _points(ended: Iterable[tuple[RunConfig, Outcome]], task: str) -> tuple[Point, ...]:
    """The runs as points for one task, without failed ones."""
    points = (point_of(config, outcome, task) for config, outcome in ended)
    return tuple(sorted(point for point in points if point is not None))


def _shares(points: Iterable[Point], learned: float) -> tuple[SizeShare, ...]:
    """For each size tested, ascending, how many of the runs tried learned."""
    runs = [(point.size, point.accuracy >= bar(point.floor, learned)) for point in points]
    tried, good = Counter(size for size, _ in runs), Counter(size for size, has_learned in runs if has_learned)
    return tuple(SizeShare(size, good[size], tried[size]) for size in sorted(tried))


def _spent(family: Family, ended: Iterable[tuple[RunConfig, Outcome]], target: str, learned: float) -> bool:
    """Whether a run that did not learn used all of its steps."""
    return any(
        outcome.steps >= family.steps(config)
        for config, outcome in ended
        if outcome.accuracy.get(target, 0.0) < bar(outcome.floor.get(target, 0.0), learned)
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
