"""Default searcher: first pairs of runs, to decide each comparison and certify a larger factor; then single runs, to
locate transitions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

from orchestrator.search.base import (
    EvidenceSettings,
    MixProgress,
    Request,
    Searcher,
    SearchSettings,
    check_range,
    requests_of,
)
from orchestrator.search.next_pair import PairDesign
from orchestrator.search.next_run import TransitionDesign
from orchestrator.search.results import cost_model, learned_runs
from orchestrator.transition.evidence import Block, pair_of

Aim = Literal["decide", "factor", "locate"]
MOST_RUNS = 1_000_000
LEAST_COST_S = 1e-3
"""Minimum ``max_cost``. A smaller value would not allow any run."""
RAISING = 2 / 3
"""Share of a mix's budget for certifying a larger factor if transitions are also to be located."""
_pair_design = lru_cache(maxsize=256)(PairDesign)
"""A cached :class:`PairDesign`: equal arguments return the same object, with its computed results."""


@dataclass(frozen=True)
class PairsSettings(EvidenceSettings):
    """Settings under ``search:`` with ``method: pairs``."""

    aim: Aim = "locate"
    """``decide`` ends once each comparison is decided; ``factor`` then tries to certify larger factors; ``locate``
    then also locates every mix's transition."""
    max_runs: int = 48
    """Maximum number of runs of a mix. For a baseline it is multiplied by the number of mixes compared with it."""
    max_cost: float | None = None
    """Maximum training time of a mix, in seconds (of one core if training runs on CPU cores). For a baseline it is
    multiplied by the number of mixes compared with it."""

    @property
    def most_spent(self) -> float:
        """``max_cost``, or infinity if it is not set."""
        return math.inf if self.max_cost is None else self.max_cost

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("max_runs", self.max_runs, 1, MOST_RUNS)
        check_range("max_cost", self.most_spent, LEAST_COST_S, math.inf)


class Pairs(Searcher):
    """Requests the block that adds most evidence for its cost, then runs that locate transitions. The mix with the
    fewest pending runs goes first; ties go to the mix with the fewest finished runs."""

    Settings: ClassVar[type[SearchSettings]] = PairsSettings
    settings: PairsSettings

    def choose(
        self, pending: Sequence[Request], limit: int, ending: Collection[Request] = ()
    ) -> Sequence[Request | Block]:
        decision = _Decision(self, pending, ending)
        before = len(decision.pending)
        chosen: list[Request | Block] = []
        chosen += decision.start(decision.unfinished()[:limit])
        while (room := limit + before - len(decision.pending)) > 0 and (items := decision.next(room)):
            chosen += decision.start(items)
        return chosen

    def progress_of(self, mix: str) -> MixProgress:
        return _Decision(self, ()).progress(mix)


class _Decision:
    """State for a single decision. Runs chosen so far count as pending."""

    def __init__(self, searcher: Pairs, pending: Iterable[Request], ending: Collection[Request] = ()) -> None:
        self._searcher, self._settings, self._problem = searcher, searcher.settings, searcher.problem
        self.pending = dict.fromkeys(pending)
        self._ending = frozenset(ending)
        self._costs = cost_model(searcher.results)
        self._learned = learned_runs(searcher.results, self._settings.learned)
        self._blocks = {
            pair: [block for block in searcher.blocks if (block.mix, block.baseline) == pair]
            for pair in self._problem.comparisons
        }
        self._ended = Counter(run.mix for run in searcher.results)
        costs = [(run, result.cost) for run, result in searcher.results.items() if result is not None]
        self._run_cost = {(run.mix, run.size, run.seed): cost for run, cost in costs if run.is_evidence}
        self._spent = {mix: sum(cost for run, cost in costs if run.mix == mix) for mix in self._problem.mixes}

    def start(self, items: Sequence[Request | Block]) -> Sequence[Request | Block]:
        """Count the chosen items as pending and return them."""
        for item in items:
            if isinstance(item, Block):
                self._blocks[item.mix, item.baseline].append(item)
        self.pending |= dict.fromkeys(run for run in requests_of(*items) if run not in self._searcher.results)
        return items

    def unfinished(self) -> list[Request]:
        """Return runs of earlier blocks that are neither known nor pending, for example after a resume."""
        blocks = [
            block
            for (mix, baseline), blocks in self._blocks.items()
            if not {mix, baseline} & self._searcher.stopped
            for block in blocks
        ]
        # The sweep may extend a sweep with more sizes and seeds.
        sizes, seeds, known = self._problem.sizes, self._problem.seeds, self._searcher.results
        runs = [run for run in requests_of(*blocks) if run.size in sizes and run.seed in seeds]
        return [run for run in runs if run not in known and run not in self.pending]

    def next(self, room: int) -> Sequence[Request | Block]:
        """Return the next blocks or runs of one mix, or an empty sequence if no mix needs any."""
        pending = Counter(run.mix for run in self.pending)
        order = sorted(self._problem.mixes, key=lambda mix: (pending[mix], self._ended[mix]))
        return next((items for mix in order if (items := self._next_of(mix, room))), [])

    def progress(self, mix: str) -> MixProgress:
        low, high = self._transition(mix).bracket
        waiting = sum(run.mix == mix for run in self.unfinished())
        is_open = any(self._next_blocks(pair) for pair in self._problem.comparisons if mix in pair)
        done = not (waiting or is_open or self._next_of(mix, 1))
        cells = len(self._problem.sizes) * len(self._problem.seeds)
        most = min(self._settings.max_runs * self._budgets(mix), cells)
        left = 0 if done else max(most - self._ended[mix], waiting)
        return MixProgress(mix, low, high, left, done)

    def _next_of(self, mix: str, room: int) -> Sequence[Request | Block]:
        compared = [pair for pair in self._problem.comparisons if mix in pair]
        if any(map(self._completes_soon, compared)):
            return []
        for pair in compared:
            if pair[0] == mix and (blocks := self._next_blocks(pair)):
                return blocks[: max(1, room // 2)]
        if (self._settings.aim != "locate" and compared) or any(self._next_blocks(pair) for pair in compared):
            return []
        if mix in self._searcher.stopped or not self._has_budget(mix):
            return []
        most = min(self._searcher.stack, room, self._runs_left(mix))
        return self._transition(mix).next_runs(self._searcher.results, self.pending, self._costs, most)

    def _next_blocks(self, pair: tuple[str, str]) -> list[Block]:
        if set(pair) & self._searcher.stopped or not all(map(self._has_budget, pair)):
            return []
        design, aim = self._comparison(pair), self._settings.aim
        raises = aim == "factor" or (aim == "locate" and self._has_budget(pair[0], RAISING))
        if design.comparison.decided is not None and not raises:
            return []
        return design.next_blocks(max(1, min(self._searcher.stack // 2, *map(self._runs_left, pair))))

    def _completes_soon(self, pair: tuple[str, str]) -> bool:
        """Return True if all open blocks of a comparison are about to be complete. With few slots, it takes less
        training to place the next block after they are."""
        pending = [run for run in requests_of(*self._blocks[pair]) if run in self.pending]
        return bool(pending) and self._ending.issuperset(pending)

    def _has_budget(self, mix: str, share: float = 1.0) -> bool:
        pending = [self._costs.cost(run.size) for run in self.pending if run.mix == mix]
        share *= self._budgets(mix)
        runs, cost = self._ended[mix] + len(pending), self._spent[mix] + sum(pending)
        return runs < share * self._settings.max_runs and cost < share * self._settings.most_spent

    def _runs_left(self, mix: str) -> int:
        used = self._ended[mix] + sum(run.mix == mix for run in self.pending)
        return self._settings.max_runs * self._budgets(mix) - used

    def _budgets(self, mix: str) -> int:
        """Return the number of a mix's budgets. A baseline has one for each mix compared with it."""
        return max(sum(baseline == mix for _, baseline in self._problem.comparisons), 1)

    def _comparison(self, pair: tuple[str, str]) -> PairDesign:
        blocks = tuple(self._blocks[pair])
        pairs = tuple(pair_of(block, self._learned) for block in blocks)
        runs = [run for block, complete in zip(blocks, pairs, strict=True) if complete for run in block.runs]
        costs = tuple((run[1], cost) for run in runs if (cost := self._run_cost.get(run, 0.0)) > 0)
        return _pair_design(self._problem, *pair, blocks, pairs, costs, self._settings.error)

    def _transition(self, mix: str) -> TransitionDesign:
        return TransitionDesign.of(self._problem, mix, self._learned)
