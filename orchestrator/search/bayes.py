"""The statistical searcher: each run goes where it gives most information about a transition for its cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from orchestrator.search.audit import CONFIRMATIONS, next_step
from orchestrator.search.base import MixProgress, Problem, Request, Results, Searcher, SearchSettings
from orchestrator.search.belief import Belief, Fantasy, MixView, best_choice, view_of
from orchestrator.search.results import (
    CostModel,
    Known,
    by_mix,
    cost_model,
    free_runs,
    has_free,
    missing_runs,
)
from orchestrator.search.stopping import BayesSettings, MixPlan, Stopping, spent_on

LENIENCE = 0.5
"""While runs are pending, the next run of the only open mix may promise less the cheaper it is: its cost relative to
the largest size, to this power."""
FEW_SLOTS = 16
"""With more slots than this the next run may promise less, in proportion: each mix has so many runs pending at once
that hardly any promises much beside them, and slots that stand idle cost as much as those that train. Simulated with 8
mixes, 64 slots are then busy 93 % of the time in place of 37 %, for a sixth more runs in half the time."""


@dataclass(frozen=True)
class _Offer:
    """The runs that a mix would start next. The most urgent offer goes first. ``relative_cost`` is the cost of one of
    these runs, divided by that of a run at the largest size."""

    urgency: tuple[float, float]
    requests: list[Request]
    relative_cost: float = 1.0


class Bayes(Searcher):
    """Keeps the posterior of :mod:`orchestrator.transition.posterior` for each mix. Asks for the run with the largest
    expected information about the transition, divided by cost ** ``thrift``. Costs are those measured so far.

    :mod:`orchestrator.search.stopping` decides when a mix is done.
    """

    Settings: ClassVar[type[SearchSettings]] = BayesSettings
    settings: BayesSettings

    def __init__(self, problem: Problem, **settings: Any) -> None:
        super().__init__(problem, **settings)
        self._stopping = Stopping(self.problem, self.settings, self.stack)
        self._views: dict[str, MixView] = {}

    def choose(self, results: Results, pending: Sequence[Request], limit: int) -> list[Request]:
        costs = cost_model(results)
        taken = set(pending)
        known = by_mix(self.problem, results)
        views = {mix: self._view(mix, known[mix]) for mix in self.problem.mixes}
        plans = {mix: self._stopping.plan(view, results, costs) for mix, view in views.items()}
        going = [mix for mix, plan in plans.items() if not plan.done and mix not in self.stopped]
        beliefs = {mix: self._leaning(mix, views) for mix in going}
        offers: dict[str, _Offer | None] = {}
        wanted: list[Request] = []
        relief = min(1.0, FEW_SLOTS * self.stack / (len(pending) + limit))
        for _ in range(max(limit // self.stack, 1)):
            for mix in going:
                if mix not in offers:
                    offers[mix] = self._offer(views[mix], beliefs[mix], plans[mix], results, taken, costs)
            standing = {
                mix: offer
                for mix, offer in offers.items()
                if offer is not None
                and offer.urgency[0] >= relief * self._gate(offer, len(going), sum(run.mix == mix for run in taken))
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
        costs, known = cost_model(self.results), by_mix(self.problem, self.results)
        return [self.as_stopped(self._progress(self._view(mix, known[mix]), costs)) for mix in self.problem.mixes]

    def _progress(self, view: MixView, costs: CostModel) -> MixProgress:
        plan = self._stopping.plan(view, self.results, costs)
        under, over = view.bracket
        total = min(self.settings.max_runs, len(self.problem.sizes) * len(self.problem.seeds))
        left = 0 if plan.done else max(total - view.ended, 0) + self.settings.budget_audit
        return MixProgress(view.mix, under, over, left, plan.done, plan.note)

    def _gate(self, offer: _Offer, going: int, pending: int) -> float:
        """The least that a mix's next run must promise, as a share of what the best run would without the ``pending``.

        It is low while few runs are pending, since an idle worker costs more than a needless run. It is lower for a
        cheap run, which wastes little. That discount shrinks with the number of open mixes (``going``), since the
        worker can train for another mix instead.
        """
        crowded = pending / (pending + self.stack)
        return self.settings.gate * crowded * math.pow(offer.relative_cost, LENIENCE / going)

    def _leaning(self, mix: str, views: Mapping[str, MixView]) -> Belief:
        """The belief by which the runs of a mix are chosen: with ``share``, one drawn towards the other mixes'."""
        others = [view.belief for other, view in views.items() if other != mix and view.points]
        return views[mix].belief.leaning(others if self.settings.share else ())

    def _offer(
        self, view: MixView, belief: Belief, plan: MixPlan, results: Results, taken: set[Request], costs: CostModel
    ) -> _Offer | None:
        if plan.longer is not None:
            # With any seed: results that came since may have changed the seed that would be asked for now.
            asked = any(replace(run, seed=plan.longer.seed) == plan.longer for run in taken)
            return None if asked else _Offer((2.0, 0.0), [plan.longer])
        budget = self._affordable(view, taken, costs)
        if budget < 1:
            return None
        if plan.checks:
            checks = [missing_runs(self.problem, results, taken, view.mix, *check) for check in plan.checks]
            missing = [run for check in checks for run in check]
            return _Offer((2.0, 0.0), missing[:budget]) if missing else None
        return self._informative(view, belief, results, taken, costs, min(budget, self.stack))

    def _affordable(self, view: MixView, taken: set[Request], costs: CostModel) -> int:
        """The number of runs a mix may still start: by ``max_runs``, and by ``max_cost`` at the price of a run at the
        transition, or at the end of the sizes beyond which that lies. Those in training count as what they are
        expected to come to. Below 1: none."""
        flying = [request for request in taken if request.mix == view.mix]
        runs = self.settings.max_runs - view.ended - len(flying)
        if not math.isfinite(self.settings.most_spent):
            return runs
        left = self.settings.most_spent - spent_on(view) - sum(costs.cost(run.size) for run in flying)
        sizes = self.problem.sizes
        likely = min(max(math.exp(view.belief.median), sizes[0]), sizes[-1])
        return min(runs, math.ceil(left / costs.cost(likely)))

    def _informative(
        self, view: MixView, belief: Belief, results: Results, taken: set[Request], costs: CostModel, most: int
    ) -> _Offer | None:
        """The runs at the size with most information for its cost. Their urgency is the share of the best run's
        information that is left once the pending runs are counted in."""
        sizes, thrift, mix = self.problem.sizes, self.settings.thrift, view.mix
        flying = [run.size for run in taken if run.mix == mix and run.size in sizes and run.is_evidence]
        fantasies = [Fantasy(size, flying.count(size)) for size in sorted(set(flying))]
        tried = [run.size for run, _ in view.known] + [run.size for run in taken if run.mix == mix]
        step = next_step(sizes, tried, belief.above)
        if step is not None and not flying:
            free = free_runs(self.problem, results, taken, mix, step)
            return _Offer((1.0, belief.width), free[: min(most, CONFIRMATIONS)])
        left = [size for size in sizes if has_free(self.problem, results, taken, mix, size)]
        best = best_choice(belief, fantasies, left, costs, most, thrift)
        if best is None:
            return None
        share = 1.0
        if fantasies:
            alone = best_choice(belief, (), sizes, costs, most, thrift)
            share = best.score / max(alone.score, 1e-300) if alone is not None else 0.0
        relative_cost = costs.cost(best.size) / costs.cost(sizes[-1])
        free = free_runs(self.problem, results, taken, mix, best.size)
        return _Offer((min(share, 1.0), belief.width), free[: best.runs], relative_cost)

    def _view(self, mix: str, known: list[Known]) -> MixView:
        """The view of a mix's results. The last call's is reused as far as it still holds."""
        self._views[mix] = view_of(self.problem, known, mix, self._views.get(mix))
        return self._views[mix]
