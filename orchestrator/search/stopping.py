"""Stopping rules of the statistical searcher: when a mix is done, and the checks before that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from orchestrator.search.audit import CONFIRMATIONS, audits, climb, longer_run, unseen
from orchestrator.search.base import Problem, Request, Results, SearchSettings
from orchestrator.search.belief import Belief, MixView, best_choice
from orchestrator.search.results import CostModel, has_free, missing_runs, stack_cost
from orchestrator.transition.comparison import FEWEST
from orchestrator.transition.plateau import contested
from orchestrator.transition.transition import SURE
from trainables.contract.settings import SettingsError

LEAST_PRECISION = 0.05
MOST_RUNS = 1_000_000
LEAST_COST_S = 1e-3
"""A mix that may cost nothing would be asked nothing."""
SECOND_THOUGHTS = 4
"""Finished runs, at most, at a size where some learn although larger ones do not: one of four is luck."""
WIDE, MOST_DEMANDED = 2.0, 2.0
"""The best next run must promise ``worth`` for its cost where the interval is the first number times as wide as asked
for, and up to the second number times as much where it is narrower."""
CLOSES = 0.8
"""A size is run to close an interval only where it learns (or fails) with at least this probability."""
COARSE = 1.5
"""An interval is not asked to be narrower than this times the gap between the candidate sizes around it."""

BESIDE = 2.0
"""Runs beside a transition lie within this factor of it."""

Checks = tuple[tuple[int, int], ...]
"""Sizes, and how many finished runs each needs."""


@dataclass(frozen=True)
class BayesSettings(SearchSettings):
    """Settings under ``search:`` with ``method: bayes``: when to stop, which run is next, what is checked."""

    precision: float = 0.33
    """A mix is done when the 90 % interval of its transition is narrower than this, in ln size."""
    max_runs: int = 48
    """Most finished runs of a mix. No run starts if pending runs are expected to exhaust this or ``max_cost``."""
    max_cost: float | None = None
    """Most seconds of training that the finished runs of a mix may take (of one core, if cores train, whatever else
    the machine does)."""
    min_runs: int = 6
    """Fewest runs to stop on."""
    thrift: float = 0.75
    """Information is divided by cost to this power."""
    gate: float = 1.0
    """While many runs are pending, another one starts only if it promises at least this share of what the best run
    would promise without them. Less is required while few are pending, of a cheap run if no other mix is open, and
    with more than 16 slots."""
    worth: float = 0.028
    """A mix is also done when the best next run promises fewer nats about the transition than this times the run's
    cost, where a run at the middle size costs 1. Less is required while the interval is still wide."""
    audit: float = 0.4
    """Checks of larger sizes may add this share to a mix's cost (0: no checks)."""
    share: bool = False
    """Choose a mix's runs as if its transition were probably near those of the others. Results and stopping never
    depend on it."""
    budget_audit: bool = False
    """Repeat one run just below each transition, or at the largest size if there is none, with twice the steps, to
    see whether the budget is the limit."""

    @property
    def most_spent(self) -> float:
        """``max_cost``, infinite where there is none."""
        return math.inf if self.max_cost is None else self.max_cost

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least, most in (
            ("precision", LEAST_PRECISION, 5.0),
            ("max_runs", 1, MOST_RUNS),
            ("max_cost", LEAST_COST_S, math.inf),
            ("min_runs", 1, MOST_RUNS),
            ("thrift", 0.0, 2.0),
            ("gate", 0.0, 1.0),
            ("worth", 0.0, 10.0),
            ("audit", 0.0, 10.0),
        ):
            given = getattr(self, name)
            if given is not None and not least <= given <= most:
                rule = f"be at least {least:g}" if most == math.inf else f"lie between {least:g} and {most:g}"
                raise SettingsError(f"search.{name} is {given!r}; it must {rule}.", key=name)


def gap_around(sizes: Sequence[int], size: float) -> tuple[int, int] | None:
    """The candidate sizes on either side of a ``size``, which may be the smaller one; None beyond their ends."""
    return next(((low, high) for low, high in pairwise(sizes) if low <= size < high), None)


def spent_on(view: MixView) -> float:
    """The cost of the finished runs of a mix, as far as they are evidence for its transition."""
    return sum(seen.cost for run, seen in view.known if seen is not None and run.is_evidence)


@dataclass(frozen=True)
class MixPlan:
    """The needs of a mix, given its results: nothing (``done``), finished runs at particular sizes (``checks``),
    one run with more steps (``longer``), or, without any of these, further search. ``note`` says why."""

    done: bool
    checks: Checks
    note: str
    longer: Request | None = None


@dataclass(frozen=True)
class Stopping:
    """The rules. A mix is done when its interval is narrow, when the transition lies outside the sizes with probability
    :data:`SURE` (and :data:`CONFIRMATIONS` runs at the end say so), when accuracy levels off too low to be learned (and
    no size was learned but by luck), or when its budget is spent. ``stack``: the most seeds at one size together.
    """

    problem: Problem
    settings: BayesSettings
    stack: int

    def plan(self, view: MixView, results: Results, costs: CostModel) -> MixPlan:
        """The plan for a mix."""
        if not self._has_budget(view):
            return MixPlan(True, (), f"not converged after {view.ended} runs: {view}")
        outside = self._outside(view, results)
        if outside is not None:
            return outside
        note = str(view)
        climbing = climb(view.points, self.problem.sizes) if view.levelling else ()
        if lacking := tuple(check for check in climbing if self._lacks(view, *check, results)):
            return MixPlan(False, lacking, f"seems to level off; checking size {lacking[0][0]}")
        if not self._narrow(view):
            # Where the posterior is narrow enough, only the bracket keeps the interval wide.
            telling = view.belief.width > self._wanted_width(view.belief) and self._worthwhile(view, results, costs)
            if len(view.points) < self.settings.min_runs or telling or self._may_close_an_end(view, results):
                return MixPlan(False, (), note)
            if (missing := self._closing(view)) is not None:
                return MixPlan(False, ((missing, 1),), f"{note}; closing it at size {missing}")
            note += ", and another run would say too little"
        elif len(view.points) < self.settings.min_runs:
            return MixPlan(False, (), note)
        return self._found(view, results, costs, note)

    def _outside(self, view: MixView, results: Results) -> MixPlan | None:
        """The plan for a mix that has no transition within the sizes, as far as is known; None for the others."""
        belief, sizes = view.belief, self.problem.sizes
        # A size where a run learned although larger ones do not is run again: it may have been luck.
        lucky = contested(view.points, view.plateau)
        unlearned = ((sizes[-1], CONFIRMATIONS), *((size, SECOND_THOUGHTS) for size in lucky))
        if belief.above >= SURE:
            return self._settle(view, (*unlearned, *unseen(view.points, sizes)), results, f"above {sizes[-1]}")
        if belief.below >= SURE:
            return self._settle(view, ((sizes[0], CONFIRMATIONS),), results, f"below {sizes[0]}")
        if view.plateau is None:
            return None
        luck = f"; non-monotone: some runs learn at {lucky[0]}" if lucky else ""
        return self._settle(view, unlearned, results, f"levels off at {view.plateau:.2f}{luck}")

    def _found(self, view: MixView, results: Results, costs: CostModel, note: str) -> MixPlan:
        """The plan for a mix whose interval is as narrow as it gets. Larger sizes are checked: a task may fail there
        again, or level off too low."""
        belief = view.belief
        transition = math.exp(belief.median)
        checks = audits(view.points, view.learned, self.problem.sizes, transition, costs, self.settings.audit)
        lost = [size for size, good in view.learned.items() if not good and math.log(size) > belief.high]
        note += f"; non-monotone: fails again at {lost[0]}" if lost else ""
        checks = (*_confirming(view, self.problem.sizes), *checks)
        if not any(self._lacks(view, *check, results) for check in checks):
            checks = climb(view.points, self.problem.sizes)
        return self._settle(view, checks, results, note)

    def _settle(self, view: MixView, checks: Checks, results: Results, note: str) -> MixPlan:
        """Done, unless one of the checks still lacks runs that are available."""
        open_checks = tuple(check for check in checks if self._lacks(view, *check, results))
        if open_checks:
            return MixPlan(False, open_checks, f"{note}; checking size {open_checks[0][0]}")
        longer = None
        if self.settings.budget_audit:
            longer = longer_run(self.problem, results, view.mix, view.bracket[0], view.level)
        if longer is not None:
            return MixPlan(False, (), f"{note}; size {longer.size} at {longer.steps_factor} times the steps", longer)
        return MixPlan(True, (), note)

    def _lacks(self, view: MixView, size: int, count: int, results: Results) -> bool:
        """True if a size has fewer than ``count`` finished runs and more are available."""
        return bool(missing_runs(self.problem, results, set(), view.mix, size, count))

    def _has_budget(self, view: MixView) -> bool:
        if view.ended >= self.settings.max_runs or view.untried == 0:
            return False
        return math.isinf(self.settings.most_spent) or spent_on(view) < self.settings.most_spent

    def _worthwhile(self, view: MixView, results: Results, costs: CostModel) -> bool:
        """True if the best next run promises enough information for its cost, measured in runs at the middle size as
        full stacks train them.

        Enough is ``worth`` for each such run where the interval is :data:`WIDE` times as wide as asked for. It falls
        with the square of the width, and nothing is required while the interval is open.
        """
        sizes, settings = self.problem.sizes, self.settings
        left = [size for size in sizes if has_free(self.problem, results, (), view.mix, size)]
        best = best_choice(view.belief, (), left, costs, self.stack, settings.thrift)
        if best is None:
            return False
        middle = costs.cost(sizes[len(sizes) // 2]) * stack_cost(self.stack) / self.stack
        wide = WIDE * settings.precision
        demanded = (wide / max(view.belief.width, wide / math.sqrt(MOST_DEMANDED))) ** 2
        return best.gain >= settings.worth * demanded * stack_cost(best.runs) * costs.cost(best.size) / middle

    def _may_close_an_end(self, view: MixView, results: Results) -> bool:
        """True if the interval reaches beyond an end of the sizes where runs are still available. The search then goes
        on: any run that closes the interval is cheaper than confirming that end."""
        smallest, largest = self.problem.sizes[0], self.problem.sizes[-1]
        ends = (smallest, view.belief.low < math.log(smallest)), (largest, view.belief.high > math.log(largest))
        return any(is_open and self._lacks(view, end, CONFIRMATIONS, results) for end, is_open in ends)

    def _closing(self, view: MixView) -> int | None:
        """The untested size nearest to the transition that probably closes the bracket further: one above the
        transition that probably learns, or one below it that probably fails. None where the bracket is no wider than
        the interval believed, or no such size is left."""
        belief = view.belief
        under, over = view.bracket
        predicted = [float(p) for p in belief.predicted]
        expected = [(s, p) for s, p in zip(self.problem.sizes, predicted, strict=True) if s not in view.learned]
        if over is None or math.log(over) > belief.high:
            above = (s for s, p in expected if math.log(s) > belief.median and p >= CLOSES)
            size = next(above, None)
            if size is not None and (over is None or size < over):
                return size
        if under is None or math.log(under) < belief.low:
            below = (s for s, p in reversed(expected) if math.log(s) < belief.median and p <= 1 - CLOSES)
            size = next(below, None)
            if size is not None and (under is None or size > under):
                return size
        return None

    def _narrow(self, view: MixView) -> bool:
        """True if the interval, bracket included, is as narrow as wanted."""
        under, over = view.bracket
        if under is None or over is None:
            return False
        low, high = min(view.belief.low, math.log(under)), max(view.belief.high, math.log(over))
        return high - low <= self._wanted_width(view.belief)

    def _wanted_width(self, belief: Belief) -> float:
        """The width of the interval at which to stop, in ln size: ``precision``, or what the candidate sizes allow."""
        gap = gap_around(self.problem.sizes, math.exp(belief.median))
        return max(self.settings.precision, COARSE * math.log(gap[1] / gap[0]) if gap else 0.0)


def _confirming(view: MixView, sizes: Sequence[int]) -> Checks:
    """The sizes on either side of the transition that need more runs, so that each side has :data:`FEWEST` within a
    factor :data:`BESIDE`. A comparison counts just these runs.

    The size nearest to the transition that probably learns (above it) or fails (below it) is chosen.
    """
    middle, reach, checks = view.belief.median, math.log(BESIDE), []
    learns = dict(zip(sizes, map(float, view.belief.predicted), strict=True))
    above = [size for size in sizes if 0 <= math.log(size) - middle <= reach]
    below = [size for size in reversed(sizes) if 0 < middle - math.log(size) <= reach]
    sure = [size for size in above if learns[size] >= CLOSES], [size for size in below if learns[size] <= 1 - CLOSES]
    for near, likely in zip((above, below), sure, strict=True):
        lacking = FEWEST - sum(point.size in near for point in view.points)
        if near and lacking > 0:
            size = likely[0] if likely else near[-1]
            checks.append((size, lacking + sum(point.size == size for point in view.points)))
    return tuple(checks)
