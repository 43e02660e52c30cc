"""The statistical searcher: each run where it says most about a transition for its cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from orchestrator.errors import UserError
from orchestrator.search.audit import audits, longer_run, next_step, unseen
from orchestrator.search.base import MixProgress, Problem, Request, Results, Searcher, SearchSettings
from orchestrator.search.belief import Belief, Fantasy
from orchestrator.search.choice import best_choice
from orchestrator.search.costs import CostModel, cost_model, stack_cost
from orchestrator.search.evidence import points, requests
from orchestrator.transition.fit import fit
from orchestrator.transition.posterior import Curves, Floats, curves_for
from orchestrator.transition.transition import SURE, contested, learned_sizes, levels_off
from orchestrator.transition.types import LEVEL, PLATEAU, Point

FLOOR_STEP = 0.05
"""The constant-answer floor is rounded to this when choosing runs, so that a new seed rarely changes the grid."""
CONFIRMATIONS = 2
"""Finished runs at the largest (smallest) size before a transition is called above (below) it."""
SECOND_THOUGHTS = 4
"""Finished runs, at most, at a size where some learn although larger ones do not: one of four is luck."""
WIDE, MOST_EASE = 2.0, 2.0
"""A run is worth its price where the interval is this many times as wide as asked for, up to this much more of it where
it is narrower."""
CLOSES = 0.8
"""Probability of learning (of failing) at a size that is to close an interval."""
COARSE = 1.5
"""Between neighbouring candidate sizes an interval gets no narrower than this times their gap."""
LENIENCE = 0.5
"""Beside pending runs, a run of a mix that is alone may promise less the cheaper it is, by this power of its cost."""


@dataclass(frozen=True)
class BayesSettings(SearchSettings):
    """What can be set under ``search:`` with ``method: bayes``.

    ``precision``: a mix is done when the 90 % interval of its transition is narrower than this, in ln size.
    ``worth``: it is also done when the best next run promises fewer nats about the transition than this times its
    cost in runs at the middle size (less, the wider the interval still is). ``max_runs`` and ``max_cost`` (seconds) end
    a mix that gets no further; both count its finished runs. ``min_runs``: the least evidence to stop on.

    ``thrift``: information is divided by cost to this power. ``gate``: a run is only started
    beside many pending ones if it still promises this share of what the best one would without them (less of it
    beside few, and less for a run that is cheap where no other mix is open). ``audit``: the share that checks of
    larger sizes may add to a mix's cost (0: none). ``share``: choose a mix's runs as if its transition probably lay
    near those of the others; what is reported, and when a mix is done, never depend on it. ``budget_audit``: repeat
    one run just below each transition, or at the largest size where there is none, with twice the steps, which says
    whether the budget is what limits it.
    """

    precision: float = 0.33
    max_runs: int = 48
    max_cost: float | None = None
    min_runs: int = 6
    thrift: float = 0.75
    gate: float = 1.0
    worth: float = 0.025
    audit: float = 0.4
    share: bool = False
    budget_audit: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least, most in (
            ("precision", 0.05, 5.0),
            ("max_runs", 1, math.inf),
            ("max_cost", 0, math.inf),
            ("min_runs", 1, math.inf),
            ("thrift", 0.0, 2.0),
            ("gate", 0.0, 1.0),
            ("worth", 0.0, 10.0),
            ("audit", 0.0, 10.0),
        ):
            given = getattr(self, name)
            if given is not None and not least <= given <= most:
                raise UserError(f"search.{name} is {given!r}; it must lie between {least} and {most}.")


@dataclass(frozen=True)
class _Plan:
    """What a mix wants, given its results: a search, particular runs (``checks``: size and how many; ``longer``: one
    of more steps), or nothing."""

    done: bool
    checks: tuple[tuple[int, int], ...]
    note: str
    longer: Request | None = None


@dataclass(frozen=True)
class _View:
    """One mix: its evidence and what is believed from it. ``ended`` counts its finished runs, failed ones too;
    ``untried`` the runs of the problem that have not ended. ``plateau`` is the level that accuracy settles at where
    that is too low to be learned, else None."""

    mix: str
    points: tuple[Point, ...]
    ended: int
    untried: int
    curves: Curves
    log_likelihood: Floats
    belief: Belief
    plateau: float | None


@dataclass(frozen=True)
class _Offer:
    """Runs a mix would start next; the most urgent offer goes first. ``dearness`` is what one of them costs, as a share
    of a run at the largest size."""

    urgency: tuple[float, float]
    requests: list[Request]
    dearness: float = 1.0


class Bayes(Searcher):
    """Keeps the posterior of :mod:`orchestrator.transition.posterior` for each mix and asks for the run with the
    largest expected information about the transition per cost to the power ``thrift``, cost as measured so far.

    A mix is done when its interval is narrow, when the transition lies outside the sizes with probability
    :data:`SURE` (and :data:`CONFIRMATIONS` runs at the end say so), when accuracy levels off too low to be learned (and
    no size was learned but by luck), or when its budget is spent. Then sizes above the transition are audited for tasks
    that are lost again.
    """

    Settings: ClassVar[type[SearchSettings]] = BayesSettings
    settings: BayesSettings

    def __init__(self, problem: Problem, **settings: Any) -> None:
        super().__init__(problem, **settings)
        self._views: dict[str, _View] = {}

    def choose(self, results: Results, pending: Sequence[Request], limit: int) -> list[Request]:
        costs = cost_model(results)
        taken = set(pending)
        views = {mix: self._view(mix, results) for mix in self.problem.mixes}
        plans = {mix: self._plan(view, results, costs) for mix, view in views.items()}
        going = [mix for mix, plan in plans.items() if not plan.done]
        beliefs = {mix: self._leaning(mix, views) for mix in going}
        offers: dict[str, _Offer | None] = {}
        wanted: list[Request] = []
        for _ in range(max(limit // self.stack, 1)):
            for mix in going:
                if mix not in offers:
                    offers[mix] = self._offer(views[mix], beliefs[mix], plans[mix], results, taken, costs)
            standing = {
                mix: offer
                for mix, offer in offers.items()
                if offer is not None
                and offer.urgency[0] >= self._gate(offer, len(going), sum(run.mix == mix for run in taken))
            }
            if not standing:
                break
            # The first of the problem's order where several are equally urgent.
            mix = max(standing, key=lambda mix: standing[mix].urgency)
            started = standing[mix].requests[: limit - len(wanted)]
            del offers[mix]
            wanted += started
            taken.update(started)
        return wanted

    def progress(self) -> list[MixProgress]:
        return [self._progress(mix) for mix in self.problem.mixes]

    def _progress(self, mix: str) -> MixProgress:
        view = self._view(mix, self.results)
        plan = self._plan(view, self.results, cost_model(self.results))
        under, over = _bracket(view)
        total = min(self.settings.max_runs, len(self.problem.sizes) * len(self.problem.seeds))
        left = 0 if plan.done else max(total - view.ended, 0) + self.settings.budget_audit
        return MixProgress(mix, under, over, left, plan.done, plan.note)

    def _gate(self, offer: _Offer, going: int, pending: int) -> float:
        """What a mix's next run must still promise, as a share of what the best one would without those ``pending``.

        Less beside few, for a second worker costs more idle than a needless run does; and less for a cheap run, which
        wastes little, but the more of the ``going`` mixes a worker can be lent to, the less reason to start it.
        """
        crowded = pending / (pending + self.stack)
        return self.settings.gate * crowded * math.pow(offer.dearness, LENIENCE / going)

    def _leaning(self, mix: str, views: Mapping[str, _View]) -> Belief:
        """What runs of a mix are chosen by."""
        others = [view.belief for other, view in views.items() if other != mix and view.points]
        return views[mix].belief.leaning(others if self.settings.share else ())

    def _offer(
        self, view: _View, belief: Belief, plan: _Plan, results: Results, taken: set[Request], costs: CostModel
    ) -> _Offer | None:
        if plan.longer is not None:
            return None if plan.longer in taken else _Offer((2.0, 0.0), [plan.longer])
        budget = self.settings.max_runs - view.ended - sum(request.mix == view.mix for request in taken)
        if budget < 1:
            return None
        if plan.checks:
            checks = [self._missing(view.mix, size, count, results, taken) for size, count in plan.checks]
            missing = [run for check in checks for run in check]
            return _Offer((2.0, 0.0), missing[:budget]) if missing else None
        return self._informative(view.mix, belief, results, taken, costs, min(budget, self.stack))

    def _missing(self, mix: str, size: int, count: int, results: Results, taken: set[Request]) -> list[Request]:
        """Runs that make up ``count`` finished or pending ones at a size, as far as its seeds allow."""
        cell = requests(self.problem, mix, size)
        have = sum(results.get(request) is not None or request in taken for request in cell)
        return self._free(mix, size, results, taken)[: max(count - have, 0)]

    def _informative(
        self, mix: str, belief: Belief, results: Results, taken: set[Request], costs: CostModel, most: int
    ) -> _Offer | None:
        """The runs at the size that says most for its cost, and which share of what it said before those pending."""
        sizes, thrift = self.problem.sizes, self.settings.thrift
        free = {size: self._free(mix, size, results, taken) for size in sizes}
        flying = [run.size for run in taken if run.mix == mix and run.size in free and run.steps_factor == 1]
        fantasies = [Fantasy(size, flying.count(size)) for size in sorted(set(flying))]
        step = next_step(sizes, [run.size for run in (*results, *taken) if run.mix == mix], belief.above)
        if step is not None and not flying:
            return _Offer((1.0, belief.width), free[step][: min(most, CONFIRMATIONS)])
        best = best_choice(belief, fantasies, [size for size in sizes if free[size]], costs, most, thrift)
        if best is None:
            return None
        share = 1.0
        if fantasies:
            alone = best_choice(belief, (), sizes, costs, most, thrift)
            share = best.score / max(alone.score, 1e-300) if alone is not None else 0.0
        dearness = costs.cost(best.size) / costs.cost(sizes[-1])
        return _Offer((min(share, 1.0), belief.width), free[best.size][: best.runs], dearness)

    def _worthwhile(self, view: _View, results: Results, costs: CostModel) -> bool:
        """Whether the best next run promises enough for what it costs, in runs at the middle size as full stacks
        train them.

        Enough is ``worth`` where the interval is :data:`WIDE` times as wide as asked for, less where it is wider, and
        nothing while it is open.
        """
        sizes, settings = self.problem.sizes, self.settings
        left = [size for size in sizes if self._free(view.mix, size, results, set())]
        best = best_choice(view.belief, (), left, costs, self.stack, settings.thrift)
        if best is None:
            return False
        middle = costs.cost(sizes[len(sizes) // 2]) * stack_cost(self.stack) / self.stack
        wide = WIDE * settings.precision
        ease = (wide / max(view.belief.width, wide / math.sqrt(MOST_EASE))) ** 2
        return best.gain >= settings.worth * ease * stack_cost(best.runs) * costs.cost(best.size) / middle

    def _free(self, mix: str, size: int, results: Results, taken: set[Request]) -> list[Request]:
        """Runs to be had at a size, the seed least used by the mix first: runs that share a seed share their data, and
        one lucky draw of it must not look like a curve."""
        used = Counter(
            run.seed for runs in (results, taken) for run in runs if run.mix == mix and run.steps_factor == 1
        )
        free = [run for run in requests(self.problem, mix, size) if run not in results and run not in taken]
        return sorted(free, key=lambda run: used[run.seed])

    def _plan(self, view: _View, results: Results, costs: CostModel) -> _Plan:
        belief, sizes = view.belief, self.problem.sizes
        largest, smallest = (sizes[-1], CONFIRMATIONS), (sizes[0], CONFIRMATIONS)
        if not self._has_budget(view, results):
            return _Plan(True, (), f"not converged after {view.ended} runs: {_describe(belief)}")
        # A size where a run learned although larger ones do not gets a second opinion: it may have been luck.
        lucky = contested(view.points)
        unlearned = (largest, *((size, SECOND_THOUGHTS) for size in lucky))
        if belief.above >= SURE:
            checks = (*unlearned, *unseen(view.points, sizes))
            return self._settle(view, checks, results, f"above {sizes[-1]}")
        if belief.below >= SURE:
            return self._settle(view, (smallest,), results, f"below {sizes[0]}")
        if view.plateau is not None and len(view.points) >= self.settings.min_runs:
            note = f"levels off at {view.plateau:.2f}" + (
                f"; non-monotone: some runs learn at {lucky[0]}" if lucky else ""
            )
            return self._settle(view, unlearned, results, note)
        note = _describe(belief)
        if not self._narrow(view):
            # Once what is believed is narrow, only the bracket keeps the interval wide.
            telling = belief.width > self._wanted_width(belief) and self._worthwhile(view, results, costs)
            if len(view.points) < self.settings.min_runs or telling:
                return _Plan(False, (), note)
            ends = (smallest, belief.low < math.log(sizes[0])), (largest, belief.high > math.log(sizes[-1]))
            if any(is_open and self._missing(view.mix, *end, results, set()) for end, is_open in ends):
                # Whatever closes the interval will do: that is cheaper than confirming the end of the sizes.
                return _Plan(False, (), note)
            if (missing := self._closing(view)) is not None:
                return _Plan(False, ((missing, 1),), f"{note}; closing it at size {missing}")
            note += ", and another run would say too little"
        elif len(view.points) < self.settings.min_runs:
            return _Plan(False, (), note)
        learned = learned_sizes(view.points, LEVEL * belief.top)
        checks = audits(view.points, learned, sizes, math.exp(belief.median), costs, self.settings.audit)
        checks = (*_confirming(view), *checks)
        lost = [size for size, good in learned.items() if not good and math.log(size) > belief.high]
        note += f"; non-monotone: fails again at {lost[0]}" if lost else ""
        return self._settle(view, checks, results, note)

    def _closing(self, view: _View) -> int | None:
        """The size nearest to the transition that nobody tried and that most likely ends the interval nearer to what is
        believed: one that learns above it, or fails below it. None where the bracket is no wider than the belief, or no
        such size is left."""
        belief = view.belief
        under, over = _bracket(view)
        tried = {point.size for point in view.points}
        predicted = [float(p) for p in belief.predicted]
        expected = [(s, p) for s, p in zip(self.problem.sizes, predicted, strict=True) if s not in tried]
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

    def _has_budget(self, view: _View, results: Results) -> bool:
        if view.ended >= self.settings.max_runs or view.untried == 0:
            return False
        cells = ((run, seen) for run, seen in results.items() if run.mix == view.mix and run.steps_factor == 1)
        spent = sum(seen.cost for _, seen in cells if seen is not None)
        return self.settings.max_cost is None or spent < self.settings.max_cost

    def _settle(self, view: _View, checks: tuple[tuple[int, int], ...], results: Results, note: str) -> _Plan:
        """Done, unless one of the checks still lacks runs that can be had."""
        open_checks = tuple(check for check in checks if self._missing(view.mix, *check, results, set()))
        if open_checks:
            return _Plan(False, open_checks, f"{note}; checking size {open_checks[0][0]}")
        longer = None
        if self.settings.budget_audit:
            longer = longer_run(self.problem, results, view.mix, _bracket(view)[0], LEVEL * view.belief.top)
        if longer is not None:
            return _Plan(False, (), f"{note}; size {longer.size} at {longer.steps_factor} times the steps", longer)
        return _Plan(True, (), note)

    def _narrow(self, view: _View) -> bool:
        """Whether the interval, bracket included, is as narrow as wanted."""
        under, over = _bracket(view)
        if under is None or over is None:
            return False
        low, high = min(view.belief.low, math.log(under)), max(view.belief.high, math.log(over))
        return high - low <= self._wanted_width(view.belief)

    def _wanted_width(self, belief: Belief) -> float:
        """The width of interval to be content with, in ln size: as asked for, or as the candidate sizes allow."""
        smaller = [size for size in self.problem.sizes if math.log(size) <= belief.median]
        larger = [size for size in self.problem.sizes if math.log(size) > belief.median]
        gap = math.log(larger[0] / smaller[-1]) if smaller and larger else 0.0
        return max(self.settings.precision, COARSE * gap)

    def _view(self, mix: str, results: Results) -> _View:
        """Evidence and belief, kept from the last call as far as it still holds."""
        seen = tuple(points(self.problem, results, mix))
        ended = sum(request.mix == mix and request.steps_factor == 1 for request in results)
        kept = self._views.get(mix)
        if kept is not None and kept.points == seen and kept.ended == ended:
            return kept
        cells = (run for size in self.problem.sizes for run in requests(self.problem, mix, size))
        untried = sum(run not in results for run in cells)
        floor = float(np.mean([point.floor for point in seen])) if seen else 0.0
        curves = curves_for(self.problem.sizes, FLOOR_STEP * round(floor / FLOOR_STEP))
        new, total = list(seen), np.zeros(curves.all_cells)
        if kept is not None and kept.curves is curves and set(kept.points) <= set(seen):
            # Log likelihoods are rounded so that sums are exact: adding to one is the same as starting afresh.
            known = set(kept.points)
            new, total = [point for point in seen if point not in known], kept.log_likelihood.copy()
        for point in new:
            total += curves.log_likelihood(point.size, point.accuracy)
        belief = Belief(curves, total, self.problem.sizes)
        view = _View(mix, seen, ended, untried, curves, total, belief, _plateau(seen, self.problem.sizes))
        self._views[mix] = view
        return view


def _plateau(seen: Sequence[Point], sizes: Sequence[int]) -> float | None:
    """The level that accuracy settles at by the largest size, where that is a plateau."""
    last = [point.accuracy for point in seen if point.size == sizes[-1]]
    if not last or float(np.mean(last)) >= PLATEAU:
        return None
    fitted = fit(seen)
    return fitted.asymptote if fitted is not None and levels_off(fitted, seen, sizes) else None


def _bracket(view: _View) -> tuple[int | None, int | None]:
    """The largest size tested that failed below the median and the smallest that learned above it."""
    learned = learned_sizes(view.points, LEVEL * view.belief.top)
    under = [size for size, good in learned.items() if not good and math.log(size) <= view.belief.median]
    over = [size for size, good in learned.items() if good and math.log(size) >= view.belief.median]
    return max(under, default=None), min(over, default=None)


def _confirming(view: _View) -> tuple[tuple[int, int], ...]:
    """The size of the only run that learned at or above the transition, and one run more than it has: a transition does
    not rest on one run, which may have been lucky."""
    level = LEVEL * view.belief.top
    learned = [p.size for p in view.points if p.accuracy >= level and math.log(p.size) >= view.belief.median]
    if len(learned) != 1:
        return ()
    return ((learned[0], 1 + sum(point.size == learned[0] for point in view.points)),)


def _describe(belief: Belief) -> str:
    low, middle, high = (float(np.exp(place)) for place in (belief.low, belief.median, belief.high))
    return f"{middle:.3g} [{low:.3g}, {high:.3g}], width {belief.width:.2f}"
