"""The answer of a sweep as plain values: the transition of each task in each mix, and mixes compared with baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from orchestrator.space.evidence import comparisons, is_evidence, point_of
from orchestrator.space.settings import difference
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.comparison import synergy
from orchestrator.transition.evidence import LEARNED, Block, Comparison, bar
from orchestrator.transition.posterior import PosteriorCurve, posterior_curve
from orchestrator.transition.transition import transition
from orchestrator.transition.types import Estimate, Point, SizeShare, Synergy, Transition, Verdict
from orchestrator.tuning import tuned_text
from trainables.base import Arm, Family, Outcome, RunConfig, Status, Words

EndedRun = tuple[RunConfig, Outcome]


@dataclass(frozen=True)
class TaskAnswer:
    """The transition of one task in a mix, as a size and in parameters: all (``total``) and the body's (``core``)."""

    task: str
    transition: Transition
    total: Estimate
    core: Estimate


@dataclass(frozen=True)
class MixAnswer:
    """The answer for one mix.

    Attributes:
        finished: Runs that ended, including those that learned nothing.
        diverged: Runs that diverged. Their score is the floor.
        failed: Runs that failed. They are not evidence.
        tasks: The transition of each task, the target first.
        shares: The runs that learned the target and those tried, by size, ascending.
        comparison: Result of the pairs of this mix and its baseline. None for the baseline and without pairs.
        synergy: Estimate of transition(baseline) / transition(mix) in parameters, which does not decide anything.
        spent: True if a run that did not learn used its whole budget. Runs that lose a race stop before.
        recipe: Name of the settings the mix was trained with, ``""`` in a sweep of one recipe.
        plain: The mix's name without its recipe.
        composition: The mix's name without its recipe and its budget.
        budget: Steps and examples, as a multiple of the settings' values.
        seen: Examples of the target, relative to a mix of the target alone with the settings' budget.
        stopped: True if the user stopped the search for this mix.
    """

    mix: str
    finished: int
    diverged: int
    failed: int
    tasks: tuple[TaskAnswer, ...]
    shares: tuple[SizeShare, ...] = ()
    comparison: Comparison | None = None
    synergy: Synergy | None = None
    spent: bool = True
    recipe: str = ""
    plain: str = ""
    composition: str = ""
    budget: float = 1.0
    seen: float = 1.0
    stopped: bool = False

    @property
    def runs(self) -> int:
        """Number of runs behind the transitions."""
        return self.finished + self.diverged

    @property
    def learned(self) -> int:
        """Number of runs that learned the target."""
        return sum(share.learned for share in self.shares)

    @property
    def is_compared(self) -> bool:
        """True if the mix has a baseline, even if it was not trained in pairs with it."""
        return self.synergy is not None

    @property
    def target(self) -> TaskAnswer:
        return self.tasks[0]


@dataclass(frozen=True)
class RecipeText:
    """A recipe's name and the settings it changes, in one line."""

    name: str
    changes: str


@dataclass(frozen=True)
class Count:
    """Trainable parameters of the model at one size: in total, and in its body."""

    size: int
    total: float
    core: float


@dataclass(frozen=True)
class Answer:
    """The answer to a sweep's question.

    Attributes:
        subject: A few words on what is learned, such as ``modulus 6``.
        counts: Every size that the sweep may use, ascending.
        baseline: The baseline of the first recipe.
        tuned: The settings chosen for each mix before the sweep, one line per mix.
        recipes: The recipes, empty for a sweep of one recipe.
        cautions: Caveats that follow from the settings.
        learned: Share of the score above the best constant answer at which a run counts as learned.
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
        """Label of the size axis, such as ``model width (n_embed)``."""
        return f"{self.words.size} ({self.size_axis})"

    def under(self, recipe: str) -> Answer:
        """Return the answer under one recipe, without the recipe in the names of mixes."""
        plain = [replace(mix, mix=mix.plain) for mix in self.mixes if mix.recipe == recipe]
        return replace(self, baseline=plain[0].mix, mixes=tuple(plain), recipes=())

    def baseline_of(self, mix: MixAnswer) -> str:
        """Return the name of the baseline of ``mix``: the first mix of its recipe."""
        return next(other.mix for other in self.mixes if other.recipe == mix.recipe)

    def has_learned(self, accuracy: float, floor: float) -> bool:
        """Return whether a run learned the target. ``floor`` is the score of the best constant answer."""
        return accuracy >= bar(floor, self.learned)

    def tested(self, transition: Transition) -> tuple[Count, Count]:
        """Return the smallest and largest size with a run. Before any run, return the ends of the offered sizes."""
        sizes = {point.size for point in transition.points}
        counts = [count for count in self.counts if count.size in sizes] or self.counts
        return counts[0], counts[-1]

    def curve(self, transition: Transition, sizes: Iterable[float]) -> PosteriorCurve | None:
        """Return the posterior curve at ``sizes`` within the tested range, or None if no transition was found."""
        if transition.verdict is not Verdict.FOUND or transition.relative.value is None:
            return None
        low, high = self.tested(transition)
        inside = sorted({size for size in sizes if low.size <= size <= high.size})
        return posterior_curve(transition.points, [count.size for count in self.counts], inside)

    def mix(self, name: str) -> MixAnswer:
        """Return the answer for one mix. Raises ``KeyError`` for a mix outside the sweep."""
        return {mix.mix: mix for mix in self.mixes}[name]


def answer(
    spec: SweepSpec,
    outcomes: Iterable[EndedRun],
    stopped: Collection[str] = (),
    blocks: Sequence[Block] = (),
) -> Answer:
    """Return the answer from the runs that ended, ignoring other mixes. ``blocks`` are in the order of request."""
    family = spec.make_family()
    ended: dict[str, list[EndedRun]] = {mix.name: [] for mix in spec.mixes}
    for config, outcome in outcomes:
        if config.label in ended and is_evidence(config):
            ended[config.label].append((config, outcome))
    all_runs = [run for runs in ended.values() for run in runs]
    learned = float(spec.search.settings.get("learned", LEARNED))
    decisions = comparisons(spec, blocks, all_runs)
    tasks = {mix.name: _task_answers(spec, family, mix, ended[mix.name]) for mix in spec.mixes}
    sizes = sorted({*spec.sizes, *(config.size for config, _ in all_runs)})
    return Answer(
        target=spec.target,
        subject=family.subject(),
        size_axis=family.size_axis,
        counts=tuple(Count(size, family.parameters(size).total, family.parameters(size).core) for size in sizes),
        baseline=spec.baseline.name,
        mixes=tuple(
            _mix_answer(
                spec, family, mix, ended[mix.name], tasks, decisions.get(mix.name), learned, mix.name in stopped
            )
            for mix in spec.mixes
        ),
        tuned=tuple(tuned_text(name, values, spec.tune) for name, values in spec.tuned.items()),
        recipes=tuple(
            RecipeText(name, difference(spec.settings, settings))
            for name, settings in spec.recipe_settings.items()
            if name in {mix.recipe for mix in spec.mixes}
        ),
        words=family.words,
        cautions=tuple(spec.warnings()),
        learned=learned,
    )


def _mix_answer(
    spec: SweepSpec,
    family: Family,
    mix: Arm,
    ended: Sequence[EndedRun],
    tasks: Mapping[str, tuple[TaskAnswer, ...]],
    comparison: Comparison | None,
    learned: float,
    stopped: bool,
) -> MixAnswer:
    statuses = Counter(outcome.status for _, outcome in ended)
    baseline = spec.baseline_of(mix)
    return MixAnswer(
        mix=mix.name,
        finished=statuses[Status.FINISHED],
        diverged=statuses[Status.DIVERGED],
        failed=statuses[Status.FAILED],
        tasks=tasks[mix.name],
        shares=_shares(_points(ended, spec.target), learned),
        comparison=comparison,
        synergy=synergy(
            tasks[baseline.name][0].transition,
            tasks[mix.name][0].transition,
            lambda size: family.parameters(size).total,
        )
        if family.compares_mixes and mix != baseline
        else None,
        spent=_spent(family, ended, spec.target, learned),
        recipe=mix.recipe,
        plain=mix.plain_name,
        composition=mix.composition,
        budget=mix.budget,
        seen=mix.seen(spec.target) if family.compares_mixes else mix.budget,
        stopped=stopped,
    )


def _task_answers(spec: SweepSpec, family: Family, mix: Arm, ended: Sequence[EndedRun]) -> tuple[TaskAnswer, ...]:
    answers = []
    for task in sorted(mix.tasks, key=lambda task: (task != spec.target, task)):
        placed = transition(_points(ended, task), spec.sizes)
        total = _converted(placed.relative, lambda size: family.parameters(size).total)
        core = _converted(placed.relative, lambda size: family.parameters(size).core)
        answers.append(TaskAnswer(task, placed, total, core))
    return tuple(answers)


def _points(ended: Iterable[EndedRun], task: str) -> tuple[Point, ...]:
    """Return the runs that did not fail as points for one task."""
    points = (point_of(config, outcome, task) for config, outcome in ended)
    return tuple(sorted(point for point in points if point is not None))


def _shares(points: Iterable[Point], learned: float) -> tuple[SizeShare, ...]:
    runs = [(point.size, point.accuracy >= bar(point.floor, learned)) for point in points]
    tried, good = Counter(size for size, _ in runs), Counter(size for size, has_learned in runs if has_learned)
    return tuple(SizeShare(size, good[size], tried[size]) for size in sorted(tried))


def _spent(family: Family, ended: Iterable[EndedRun], target: str, learned: float) -> bool:
    """Return whether a run that did not learn used all of its steps."""
    return any(
        outcome.steps >= family.steps(config)
        for config, outcome in ended
        if outcome.accuracy.get(target, 0.0) < bar(outcome.floor.get(target, 0.0), learned)
    )


def _converted(estimate: Estimate, unit: Callable[[float], float]) -> Estimate:
    """Return an estimate in another unit. ``unit`` must increase with size so that bounds stay bounds."""
    return Estimate(*(None if size is None else unit(size) for size in (estimate.value, estimate.low, estimate.high)))
