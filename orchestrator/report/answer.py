"""The answer of a sweep as plain values: the transition of each task in each mix, and comparisons with baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from orchestrator.search.reachable_pairs import Shortfall
from orchestrator.space.comparisons import comparisons, shortfalls
from orchestrator.space.runs import Run
from orchestrator.space.settings import difference
from orchestrator.space.spec import SweepSpec
from orchestrator.space.tuning_settings import tuned_text
from orchestrator.system.reading_time import check_reading_time
from orchestrator.transition.comparison import Comparison
from orchestrator.transition.estimate import (
    CurveParameters,
    PosteriorCurve,
    curve_parameters,
    posterior_curve,
    synergy,
    transition,
)
from orchestrator.transition.evidence import LEARNED, Block, has_learned, least_accuracy
from orchestrator.transition.types import Estimate, Point, SizeShare, Synergy, Transition, Verdict
from trainables.base import Arm, Family, Status, Words


@dataclass(frozen=True)
class TaskAnswer:
    """The transition of one task in a mix, as a size and in parameters.

    ``total`` counts all parameters, and ``core`` the parameters of the model's body.
    """

    task: str
    transition: Transition
    total: Estimate
    core: Estimate


@dataclass(frozen=True)
class GivenUp:
    """Runs of a mix that gave up the target before their end.

    Attributes:
        runs: Number of these runs.
        whole: Number of these runs that trained to the end anyway.
        late: Number of runs that trained to the end and then learned. They count as not learned.
    """

    runs: int
    whole: int
    late: int


@dataclass(frozen=True)
class MixAnswer:
    """The answer for one mix.

    Attributes:
        finished: Number of runs that ended, learned or not.
        diverged: Number of runs that diverged. They score the floor.
        failed: Number of runs that failed. They do not count.
        tasks: The transition of each task, the target first.
        shares: Number of runs that learned the target and number of runs, by size, ascending.
        comparison: Result of the pairs of this mix and its baseline. None for the baseline and without pairs.
        synergy: Estimate of transition(baseline) / transition(mix) in parameters. It does not decide anything.
        spent: True if a run that did not learn used its whole budget. In a race, losing runs stop early.
        recipe: Name of the mix's settings. Empty in a sweep of one recipe.
        plain: Name of the mix without its recipe.
        composition: Name of the mix without its recipe and budget.
        budget: Steps and examples, as a multiple of the settings' values.
        seen: Examples of the target, relative to a mix of the target alone with the settings' budget.
        stopped: True if the user stopped the search for this mix.
        given_up: Runs whose outcome was settled before their end as not learned, or None if there are none.
        shortfall: Why its comparison can no longer be decided, or None if it can be or is decided.
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
    given_up: GivenUp | None = None
    shortfall: Shortfall | None = None

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
    def is_decided(self) -> bool:
        """True if the pairs have decided between the mix and its baseline."""
        return self.comparison is not None and self.comparison.decided is not None

    @property
    def target(self) -> TaskAnswer:
        """The transition of the target."""
        return self.tasks[0]


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
        subject: The subject of the tasks in a few words, such as ``modulus 6``.
        counts: Every size that the sweep may use, ascending.
        baseline: The baseline of the first recipe.
        tuned: The settings chosen for each mix before the sweep, one line per mix.
        recipes: The settings that each recipe changes, in one line; empty for a sweep of one recipe.
        cautions: Caveats that follow from the settings.
        learned: Share of the score above the best constant answer at which a run counts as learned.
        failed_run: Key of a run that failed, or an empty string.
    """

    target: str
    subject: str
    size_axis: str
    counts: tuple[Count, ...] = field(repr=False)
    baseline: str
    mixes: tuple[MixAnswer, ...] = field(repr=False)
    tuned: tuple[str, ...] = ()
    recipes: Mapping[str, str] = field(default_factory=dict)
    words: Words = field(default_factory=Words)
    cautions: tuple[str, ...] = ()
    learned: float = LEARNED
    failed_run: str = ""

    @property
    def runs(self) -> int:
        """Number of runs behind the transitions."""
        return sum(mix.runs for mix in self.mixes)

    @property
    def failed(self) -> int:
        """Number of runs that failed."""
        return sum(mix.failed for mix in self.mixes)

    @property
    def compared(self) -> list[MixAnswer]:
        """Mixes with a baseline."""
        return [mix for mix in self.mixes if mix.is_compared]

    @property
    def nothing_learned(self) -> bool:
        """True if every mix has runs and none of them learned."""
        other = (Verdict.FOUND, Verdict.LEVELS_OFF, Verdict.BELOW, Verdict.NEAR_FLOOR)
        return all(mix.runs and not mix.learned and mix.target.transition.verdict not in other for mix in self.mixes)

    def under(self, recipe: str) -> Answer:
        """Return the answer under one recipe. Its mixes have names without the recipe."""
        plain = [replace(mix, mix=mix.plain) for mix in self._mixes_under[recipe]]
        return replace(self, baseline=plain[0].mix, mixes=tuple(plain), recipes={})

    def baseline_of(self, mix: MixAnswer) -> MixAnswer:
        """Return the baseline of ``mix``: the first mix of its recipe."""
        return self._mixes_under[mix.recipe][0]

    @cached_property
    def _mixes_under(self) -> dict[str, list[MixAnswer]]:
        """The mixes of each recipe. A sweep may have thousands of mixes, and most readers ask for each recipe's."""
        mixes: dict[str, list[MixAnswer]] = {}
        for mix in self.mixes:
            mixes.setdefault(mix.recipe, []).append(mix)
        return mixes

    def has_learned(self, point: Point) -> bool:
        """Return whether a run learned the task."""
        return has_learned(point.accuracy, point.floor, point.settled, self.learned)

    def tested(self, transition: Transition) -> tuple[Count, Count]:
        """Return the smallest and largest size with a run. Before any run, return the ends of the offered sizes."""
        sizes = {point.size for point in transition.points}
        counts = [count for count in self.counts if count.size in sizes] or self.counts
        return counts[0], counts[-1]

    def curve(self, transition: Transition, sizes: Iterable[float]) -> PosteriorCurve | None:
        """Return the posterior curve at those ``sizes`` that are in the tested range. Return None if no transition was
        found."""
        if not transition.is_located:
            return None
        low, high = self.tested(transition)
        inside = sorted({size for size in sizes if low.size <= size <= high.size})
        return posterior_curve(transition.points, [count.size for count in self.counts], inside)

    def curve_parameters(self, transition: Transition) -> CurveParameters | None:
        """Return the parameters of the posterior curve, or None if no transition was found."""
        if not transition.is_located:
            return None
        return curve_parameters(transition.points, [count.size for count in self.counts])

    def mix(self, name: str) -> MixAnswer:
        """Return the answer for one mix. Raises ``KeyError`` for a mix outside the sweep."""
        return {mix.mix: mix for mix in self.mixes}[name]


def answer(
    spec: SweepSpec,
    runs: Iterable[Run],
    stopped: Collection[str] = (),
    blocks: Sequence[Block] = (),
    *,
    is_foreign: bool = False,
) -> Answer:
    """Return the answer of a sweep.

    Args:
        spec: The sweep.
        runs: Runs that ended. Runs of mixes outside the sweep are ignored.
        stopped: Mixes that the user stopped.
        blocks: Blocks of pairs, in the order of request.
        is_foreign: Whether somebody else may have written the specification. Files that it names are then not read.
    """
    family = spec.make_family()
    ended: dict[str, list[Run]] = {mix.name: [] for mix in spec.mixes}
    for run in runs:
        if run.counts_for_answer and run.request.mix in ended:
            ended[run.request.mix].append(run)
    all_runs = [run for own in ended.values() for run in own]
    learned = float(spec.search.settings.get("learned", LEARNED))
    decided = comparisons(spec, blocks, all_runs)
    # Shortfalls need a searcher with all results, so compute them only if a comparison is open.
    is_open = any(comparison.decided is None for comparison in decided.values())
    short = shortfalls(spec, blocks, all_runs) if is_open else {}
    mixes = [
        replace(
            mix,
            comparison=decided.get(mix.mix),
            stopped=mix.mix in stopped,
            shortfall=short.get(mix.mix) if mix.mix in decided else None,
        )
        for mix in _mix_answers(spec, family, ended, learned)
    ]
    counts = {size: family.parameters(size) for size in sorted({*spec.sizes, *(run.config.size for run in all_runs)})}
    used = {mix.recipe for mix in spec.mixes}
    return Answer(
        target=spec.target,
        subject=family.subject(),
        size_axis=family.size_axis,
        counts=tuple(Count(size, count.total, count.core) for size, count in counts.items()),
        baseline=spec.baseline.name,
        mixes=tuple(mixes),
        tuned=tuple(tuned_text(name, values, spec.tune) for name, values in spec.tuned.items()),
        recipes={name: difference(spec.settings, own) for name, own in spec.recipe_settings.items() if name in used},
        words=family.words,
        cautions=tuple(spec.warnings(of_code=not is_foreign)),
        learned=learned,
        failed_run=next((family.key(run.config) for run in all_runs if run.outcome.status is Status.FAILED), ""),
    )


def _mix_answers(
    spec: SweepSpec, family: Family, ended: Mapping[str, Sequence[Run]], learned: float
) -> Iterator[MixAnswer]:
    """Yield the answer for each mix, without its comparison."""
    tasks = {mix.name: tuple(_task_answers(spec, family, mix, ended[mix.name])) for mix in spec.mixes}
    for mix in spec.mixes:
        runs = ended[mix.name]
        baseline = spec.baseline_of(mix)
        statuses = Counter(run.outcome.status for run in runs)
        transition_of_mix = tasks[mix.name][0].transition
        transition_of_baseline = tasks[baseline.name][0].transition
        points = transition_of_mix.points
        compared = family.compares_mixes and mix != baseline
        tried = Counter(point.size for point in points)
        good = Counter(
            point.size for point in points if has_learned(point.accuracy, point.floor, point.settled, learned)
        )
        yield MixAnswer(
            mix=mix.name,
            finished=statuses[Status.FINISHED],
            diverged=statuses[Status.DIVERGED],
            failed=statuses[Status.FAILED],
            tasks=tasks[mix.name],
            shares=tuple(SizeShare(size, good[size], count) for size, count in tried.items()),
            synergy=(
                synergy(transition_of_baseline, transition_of_mix, lambda size: family.parameters(size).total)
                if compared
                else None
            ),
            spent=any(
                run.outcome.steps >= family.steps(run.config)
                for run in runs
                if run.outcome.accuracy.get(spec.target, 0.0)
                < least_accuracy(run.outcome.floor.get(spec.target, 0.0), learned)
            ),
            recipe=mix.recipe,
            plain=mix.plain_name,
            composition=mix.composition,
            budget=mix.budget,
            seen=mix.seen(spec.target) if family.compares_mixes else mix.budget,
            given_up=_given_up(spec, family, runs, learned),
        )


def _given_up(spec: SweepSpec, family: Family, ended: Sequence[Run], learned: float) -> GivenUp | None:
    """Count the runs that were given up. A few of them trained to the end, to show how many would have learned
    later."""
    runs = [run for run in ended if run.outcome.settled(spec.target) is False]
    whole = [run.outcome for run in runs if run.outcome.steps >= family.steps(run.config)]
    target = spec.target
    late = sum(has_learned(outcome.accuracy[target], outcome.floor[target], learned=learned) for outcome in whole)
    return GivenUp(len(runs), len(whole), late) if runs else None


def _task_answers(spec: SweepSpec, family: Family, mix: Arm, ended: Sequence[Run]) -> Iterator[TaskAnswer]:
    """Yield the transition of each task of a mix, the target first."""
    for task in sorted(mix.tasks, key=lambda task: (task != spec.target, task)):
        check_reading_time()  # A transition over 1,000 sizes takes seconds.
        points = [run.point(task) for run in ended]
        placed = transition([point for point in points if point is not None], spec.sizes)
        ends = [placed.relative.value, placed.relative.low, placed.relative.high]
        counts = [None if end is None else family.parameters(end) for end in ends]
        total = Estimate(*(None if count is None else count.total for count in counts))
        core = Estimate(*(None if count is None else count.core for count in counts))
        yield TaskAnswer(task, placed, total, core)
