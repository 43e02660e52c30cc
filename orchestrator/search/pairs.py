"""The default searcher, and its settings such as ``max_cost``.

First it requests pairs of runs, to decide each comparison and to certify a larger factor. Then it requests single runs,
to locate transitions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar, Literal, Self

from orchestrator.search.base import (
    EvidenceSettings,
    MixProgress,
    Problem,
    Request,
    Searcher,
    SearchSettings,
    check_range,
    requests_of,
)
from orchestrator.search.ledger import ComparedRuns, Ledger, MixAndBaseline
from orchestrator.search.next_pair import PairDesign
from orchestrator.search.next_run import TransitionDesign
from orchestrator.search.reachable_pairs import Budget, Shortfall, Side, most_pairs
from orchestrator.transition.e_value import Growth
from orchestrator.transition.evidence import Block

Aim = Literal["decide", "factor", "locate"]
MOST_RUNS = 1_000_000
LEAST_COST_S = 1e-3
"""Minimum ``max_cost``. A smaller value would not allow any run."""
RAISING = 1 / 3
"""Share of a mix's budget for certifying a larger factor if transitions must also be located."""


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
    multiplied by the number of mixes compared with it. For transformers on a CPU, these are the seconds of the native
    step on a typical core, so that any machine trains the same runs. For other models they are measured seconds."""

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
    prefers_small_stacks: ClassVar[bool] = True

    def __init__(self, problem: Problem, **settings: Any) -> None:
        super().__init__(problem, **settings)
        self._ledger = self._new_ledger()
        self._designs: dict[MixAndBaseline, tuple[tuple[int, int], PairDesign]] = {}
        """Cached designs, each with the version of the blocks that it is for."""
        budgets = Counter(baseline for _, baseline in problem.comparisons)
        self._shortfalls: dict[MixAndBaseline, tuple[tuple[int, int], Shortfall | None]] = {}
        self._closed: frozenset[MixAndBaseline] = frozenset()
        """The comparisons that were closed at the last release of their runs."""
        self.budgets = {mix: max(budgets[mix], 1) for mix in problem.mixes}
        """Number of budgets of each mix. A baseline has one for each mix compared with it."""

    def _new_ledger(self) -> Ledger:
        return Ledger(self.problem, self.settings.learned)

    @property
    def ledger(self) -> Ledger:
        """Sums over the present results and blocks."""
        if not self._ledger.is_current(self.results, self.blocks):
            if not self._ledger.knows(self.results, self.blocks):  # Restored blocks come before known blocks.
                self._ledger = self._new_ledger()
            self._ledger.update(self.results, self.blocks)
        return self._ledger

    def branch(self) -> Self:
        duplicate = super().branch()
        duplicate._ledger = self._new_ledger()
        return duplicate

    def design(self, comparison: MixAndBaseline) -> PairDesign:
        """Return the design of a comparison's next block. It is the same until a block is requested or completed."""
        return self.design_with(comparison, self.ledger.compared[comparison])

    def design_with(self, comparison: MixAndBaseline, runs: ComparedRuns) -> PairDesign:
        """Return the design of a comparison's next block, if ``runs`` are its blocks so far."""
        version, design = self._designs.get(comparison, (None, None))
        if design is None or version != runs.version or design.runs is not runs:
            budget = self._side(comparison[0], runs.seeds_of_mix).budget
            design = PairDesign(self.problem, *comparison, runs, self.settings.error, budget)
            self._designs[comparison] = (runs.version, design)
        return design

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

    def shortfall(self, comparison: MixAndBaseline) -> Shortfall | None:
        """Return why an undecided comparison can no longer be decided, or None if it can.

        The search may then give up on it: evidence is valid no matter when you stop.
        """
        state = len(self.results), len(self.blocks)
        known, result = self._shortfalls.get(comparison, (None, None))
        if known != state:
            result = self._find_shortfall(comparison)
            self._shortfalls[comparison] = state, result
        return result

    def _find_shortfall(self, comparison: MixAndBaseline) -> Shortfall | None:
        mix, baseline = comparison
        runs = self.ledger.compared[comparison]
        needed = self.design(comparison).fewest_more
        sides = (self._side(mix, runs.seeds_of_mix), self._side(baseline, runs.seeds_of_baseline))
        room = most_pairs(self.problem, self.ledger, runs, sides, needed)
        if room >= needed:
            return None
        return Shortfall(needed, room, runs.counted + room < Growth().fewest_more(self.settings.error))

    def _side(self, mix: str, used: dict[int, set[int]]) -> Side:
        count = self.budgets[mix]
        return Side(mix, Budget(self.settings.max_runs * count, self.settings.most_spent * count), used)

    def is_closed(self, comparison: MixAndBaseline) -> bool:
        """Return True if a comparison needs no further run, because it is decided or can no longer be decided.

        Its open blocks then stay incomplete. The decision still holds, because earlier pairs made it.
        """
        # With other aims, the search continues after a decision. Its open blocks must then be completed, because no
        # later pair counts before them.
        if self.settings.aim != "decide":
            return False
        return self.design(comparison).decided is not None or self.is_hopeless(comparison)

    def is_hopeless(self, comparison: MixAndBaseline) -> bool:
        """Return True if a comparison could have been decided, but no longer can. It gets no more pairs."""
        shortfall = self.shortfall(comparison)
        return shortfall is not None and not shortfall.from_start

    def needs(self, run: Request) -> bool:
        waiting = self.ledger.waiting(run)
        return not waiting or not all(map(self.is_closed, waiting))

    def release(self) -> list[Request]:
        closed = frozenset(filter(self.is_closed, self.problem.comparisons))
        if closed == self._closed:  # As after nearly every result.
            return []
        self._closed = closed
        return super().release()


class _Decision:
    """State during a single decision. Runs that it has chosen so far count as pending."""

    def __init__(self, searcher: Pairs, pending: Iterable[Request], ending: Collection[Request] = ()) -> None:
        self._searcher = searcher
        self._settings = searcher.settings
        self._problem = searcher.problem
        self._ledger = searcher.ledger
        self._branches: dict[MixAndBaseline, ComparedRuns] = {}
        """Copies of comparisons, with the blocks that this decision added."""
        self._chosen: dict[MixAndBaseline, list[Block]] = {}
        """Blocks of this decision that no copy contains yet. Copies are slow, and the last blocks never need one."""
        self._next: dict[MixAndBaseline, list[Block]] = {}
        """Cached next blocks of comparisons. They change as soon as an item is chosen."""
        self._ending = frozenset(ending)
        self.pending: dict[Request, None] = {}
        self._pending_of: dict[str, list[Request]] = {mix: [] for mix in self._problem.mixes}
        self._wait_for(pending)

    def start(self, items: Sequence[Request | Block]) -> Sequence[Request | Block]:
        """Count the chosen items as pending and return them."""
        self._next.clear()
        for item in items:
            if isinstance(item, Block):
                self._chosen.setdefault((item.mix, item.baseline), []).append(item)
        self._wait_for(run for run in requests_of(*items) if run not in self._searcher.results)
        return items

    def _runs_of(self, comparison: MixAndBaseline) -> ComparedRuns:
        """Return the blocks of a comparison, including those of this decision, which the ledger lacks."""
        if comparison in self._chosen:
            if comparison not in self._branches:
                self._branches[comparison] = self._ledger.compared[comparison].branch()
            for block in self._chosen.pop(comparison):
                self._branches[comparison].add(block, self._ledger.pair_of(block), self._ledger.run_cost)
        return self._branches.get(comparison, self._ledger.compared[comparison])

    def _wait_for(self, runs: Iterable[Request]) -> None:
        """Count runs as pending."""
        for run in runs:
            if run not in self.pending:
                self.pending[run] = None
                self._pending_of.setdefault(run.mix, []).append(run)

    def unfinished(self) -> list[Request]:
        """Return runs of earlier blocks that are neither known nor pending. A resumed sweep can have such runs."""
        missing = [
            run
            for comparison in self._problem.comparisons
            for both in self._runs_of(comparison).open_runs.values()
            for run in both
            if run not in self.pending and run not in self._searcher.results
            if not (self._searcher.stopped.intersection(comparison) or self._searcher.is_closed(comparison))
        ]
        # This sweep may extend a sweep that had other sizes and seeds.
        sizes = self._problem.sizes
        seeds = self._problem.seeds
        return [run for run in dict.fromkeys(missing) if run.size in sizes and run.seed in seeds]

    def next(self, room: int) -> Sequence[Request | Block]:
        """Return the next blocks or runs of one mix, or an empty sequence if no mix needs any."""
        ended = self._ledger.ended
        pending = self._pending_of
        order = sorted(self._problem.mixes, key=lambda mix: (len(pending[mix]), ended[mix]))
        return next((items for mix in order if (items := self._next_of(mix, room))), [])

    def progress(self, mix: str) -> MixProgress:
        low, high = self._transition(mix).bracket
        waiting = sum(run.mix == mix for run in self.unfinished())
        is_open = any(self._next_blocks(comparison) for comparison in self._problem.comparisons if mix in comparison)
        done = not (waiting or is_open or self._next_of(mix, 1))
        cells = len(self._problem.sizes) * len(self._problem.seeds)
        most = min(self._settings.max_runs * self._searcher.budgets[mix], cells)
        left = 0 if done else max(most - self._ledger.ended[mix], waiting)
        return MixProgress(mix, low, high, left, done)

    def _next_of(self, mix: str, room: int) -> Sequence[Request | Block]:
        """Return the next blocks or runs of a mix, or an empty sequence if it needs none now."""
        compared = [comparison for comparison in self._problem.comparisons if mix in comparison]
        # Results that may decide a comparison of this mix are under way. The next choice is better with them.
        if any(self._completes_soon(comparison) or self._has_enough_pairs(comparison) for comparison in compared):
            return []
        # Evidence comes before transitions. The mix requests the blocks of a comparison, its baseline does not.
        for comparison in compared:
            if comparison[0] == mix and (blocks := self._next_blocks(comparison)):
                return blocks[: max(1, room // 2)]  # A block has two runs.
        # Single runs would spend the budget of a baseline that another mix's blocks still need. With aim decide or
        # factor, a compared mix gets no single runs at all.
        if (self._settings.aim != "locate" and compared) or any(
            self._next_blocks(comparison) for comparison in compared
        ):
            return []
        if mix in self._searcher.stopped or not self._has_budget(mix):
            return []
        most = min(self._searcher.stack, room, self._runs_left(mix))
        pending = [(run.size, run.seed) for run in self._pending_of[mix] if run.is_full]
        return self._transition(mix).next_runs(self._ledger.cells[mix], pending, self._ledger.costs, most)

    def _next_blocks(self, comparison: MixAndBaseline) -> list[Block]:
        """Return the next blocks of a comparison. The result is cached, because each mix of a baseline asks for it."""
        if comparison not in self._next:
            self._next[comparison] = self._find_next_blocks(comparison)
        return self._next[comparison]

    def _find_next_blocks(self, comparison: MixAndBaseline) -> list[Block]:
        # A block needs runs of both sides.
        if set(comparison) & self._searcher.stopped or not all(map(self._has_budget, comparison)):
            return []
        design = self._design(comparison)
        if design.decided is None and self._searcher.is_hopeless(comparison):
            return []
        # A decided comparison only gets pairs that raise its factor. With aim locate, part of the budget is kept for
        # the transition.
        aim = self._settings.aim
        raises = aim == "factor" or (aim == "locate" and self._has_budget(comparison[0], RAISING))
        if design.decided is not None and not raises:
            return []
        return design.next_blocks(max(1, min(self._searcher.stack // 2, *map(self._runs_left, comparison))))

    def _completes_soon(self, comparison: tuple[str, str]) -> bool:
        """Return True if all open blocks of a comparison are about to be complete.

        With few slots, a decision takes less training if the next block is chosen after that.
        """
        if not self._ending:
            return False
        waits = False
        for run in chain.from_iterable(self._runs_of(comparison).open_runs.values()):
            if run in self.pending:
                waits = True
                if run not in self._ending:
                    return False
        return waits

    def _has_enough_pairs(self, comparison: MixAndBaseline) -> bool:
        """Return True if a comparison has at least a stack of open blocks, and these should decide it."""
        open_blocks = self._runs_of(comparison).open
        return len(open_blocks) >= self._searcher.stack // 2 and self._design(comparison).has_enough_pairs

    def _has_budget(self, mix: str, share: float = 1.0) -> bool:
        """Return True if a mix has runs and cost left in this share of its budget. Pending runs count as spent."""
        share *= self._searcher.budgets[mix]
        if self._ledger.ended[mix] + len(self._pending_of[mix]) >= share * self._settings.max_runs:
            return False
        if self._settings.max_cost is None:
            return True
        pending = [self._ledger.costs.cost(run.size) for run in self._pending_of[mix]]
        return self._ledger.spent[mix] + sum(pending) < share * self._settings.most_spent

    def _runs_left(self, mix: str) -> int:
        used = self._ledger.ended[mix] + len(self._pending_of[mix])
        return self._settings.max_runs * self._searcher.budgets[mix] - used

    def _design(self, comparison: MixAndBaseline) -> PairDesign:
        return self._searcher.design_with(comparison, self._runs_of(comparison))

    def _transition(self, mix: str) -> TransitionDesign:
        return self._ledger.transition(mix)
