"""Results and blocks of a search, added up as they come in, so that a decision costs the same after any number of runs.

A decision depends only on the searcher's results and blocks. A :class:`Ledger` keeps sums over them, so that no
decision has to add them up again.
"""

from __future__ import annotations

import copy
import itertools
from array import array
from bisect import bisect, insort
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from orchestrator.search.base import Problem, Request, Results, requests_of
from orchestrator.search.next_run import KnownRuns, TransitionDesign, design_of, prior_of
from orchestrator.search.results import CostModel, fit_costs
from orchestrator.transition.e_value import Growth
from orchestrator.transition.evidence import Block, Pair, RunId, has_learned, pair_of
from orchestrator.transition.surrogate import Surrogate
from orchestrator.transition.types import Point

MixAndBaseline = tuple[str, str]
"""A mix and its baseline."""
DEVIATIONS = 1.5
"""Distance from the middle of the candidate sizes to their ends, in standard deviations of the prior of a midpoint."""


class PairCosts:
    """Size and cost of each run of a complete pair whose cost is known, in the order of the blocks. Sums over them are
    then the same for any order in which the runs ended."""

    def __init__(self) -> None:
        self.sizes, self.costs = array("d"), array("d")
        self._places: list[int] = []

    def add(self, place: int, size: int, cost: float) -> None:
        """Add a run of the block at ``place``, unless its ``cost`` is unknown (0)."""
        if cost > 0:
            at = bisect(self._places, place)
            self._places.insert(at, place)
            self.sizes.insert(at, size)
            self.costs.insert(at, cost)

    def branch(self) -> PairCosts:
        """Return an independent copy."""
        other = copy.copy(self)
        other.sizes, other.costs, other._places = self.sizes[:], self.costs[:], list(self._places)
        return other


class ComparedRuns:
    """The blocks of one comparison in order of request, and what its complete ones amount to.

    The first ``counted`` blocks are complete, and their pairs are in ``growth`` and the posteriors. Later blocks may
    also be complete, but do not count before all earlier ones are.
    """

    def __init__(self, problem: Problem) -> None:
        self.blocks: list[Block] = []
        self.pairs: list[Pair | None] = []
        self.growth = Growth()
        self.mix, self.baseline = prior_of(problem, DEVIATIONS), prior_of(problem, DEVIATIONS)
        self.open: dict[int, Block] = {}
        """Blocks that are not complete, by their place."""
        self.open_runs: dict[int, list[Request]] = {}
        """Their two runs."""
        self.costs = PairCosts()
        self.seeds_of_mix: dict[int, set[int]] = {}
        """Seeds of the blocks by size of the mix."""
        self.seeds_of_baseline: dict[int, set[int]] = {}
        """Seeds of the blocks by size of the baseline."""
        self.uses: Counter[int] = Counter()
        """Number of blocks by seed."""

    @property
    def counted(self) -> int:
        """Number of blocks before the first incomplete one."""
        return len(self.growth.pairs)

    def add(self, block: Block, pair: Pair | None, run_cost: Mapping[RunId, float]) -> None:
        """Add the next block, with its pair if it is complete, and the known costs of runs."""
        place = len(self.blocks)
        self.open[place], self.open_runs[place] = block, requests_of(block)
        self.blocks.append(block)
        self.pairs.append(None)
        self.seeds_of_mix.setdefault(block.mix_size, set()).add(block.seed)
        self.seeds_of_baseline.setdefault(block.baseline_size, set()).add(block.seed)
        self.uses[block.seed] += 1
        if pair is not None:
            self.complete(place, pair, run_cost)

    def complete(self, place: int, pair: Pair, run_cost: Mapping[RunId, float]) -> None:
        """Note the pair of a block, and the costs of its runs."""
        self.pairs[place] = pair
        del self.open[place], self.open_runs[place]
        for run in self.blocks[place].runs:
            self.costs.add(place, run[1], run_cost.get(run, 0.0))
        while self.counted < len(self.pairs) and (ready := self.pairs[self.counted]) is not None:
            self.growth.add(ready)
            self.mix.add(ready.mix_size, ready.mix_learned)
            self.baseline.add(ready.baseline_size, ready.baseline_learned)

    @property
    def version(self) -> tuple[int, int]:
        """Differs whenever a block was added or completed."""
        return len(self.blocks), len(self.open)

    def branch(self) -> ComparedRuns:
        """Return an independent copy."""
        other = copy.copy(self)
        other.blocks, other.pairs, other.open = list(self.blocks), list(self.pairs), dict(self.open)
        other.open_runs, other.costs, other.uses = dict(self.open_runs), self.costs.branch(), Counter(self.uses)
        other.seeds_of_mix = {size: set(seeds) for size, seeds in self.seeds_of_mix.items()}
        other.seeds_of_baseline = {size: set(seeds) for size, seeds in self.seeds_of_baseline.items()}
        other.growth, other.mix, other.baseline = self.growth.branch(), self.mix.branch(), self.baseline.branch()
        return other

    def posteriors(self) -> tuple[Surrogate, Surrogate]:
        """Return the posteriors of the mix and its baseline given all complete pairs, even those that do not count
        yet."""
        later = [pair for pair in self.pairs[self.counted :] if pair is not None]
        if not later:
            return self.mix, self.baseline
        mix, baseline = self.mix.branch(), self.baseline.branch()
        for pair in later:
            mix.add(pair.mix_size, pair.mix_learned)
            baseline.add(pair.baseline_size, pair.baseline_learned)
        return mix, baseline


class Ledger:
    """Sums over the results and blocks of a search.

    Attributes:
        learned: Whether each run that is evidence learned, None if it failed.
        ended: Number of runs that ended, by mix.
        spent: Cost of the runs that ended, by mix.
        least_cost: Cost of the cheapest run that is evidence, 0 if it is unknown.
        run_cost: Cost of each run that is evidence and did not fail.
        outcomes: By mix, what each run that did not fail shows, and whether it learned, sorted.
        cells: By mix, the runs that are evidence.
        compared: The blocks of each comparison.
    """

    def __init__(self, problem: Problem, share: float) -> None:
        self.learned: dict[RunId, bool | None] = {}
        self.ended: Counter[str] = Counter()
        self.spent: dict[str, float] = dict.fromkeys(problem.mixes, 0.0)
        self.run_cost: dict[RunId, float] = {}
        self.outcomes: dict[str, list[tuple[Point, bool]]] = {mix: [] for mix in problem.mixes}
        self.cells: dict[str, KnownRuns] = {mix: KnownRuns(problem.seeds) for mix in problem.mixes}
        self.compared: dict[MixAndBaseline, ComparedRuns] = {
            both: ComparedRuns(problem) for both in problem.comparisons
        }
        self._problem, self._share = problem, share
        self._results = self._blocks = 0
        self._last_block: Block | None = None
        self._waiting: dict[RunId, list[tuple[MixAndBaseline, int]]] = defaultdict(list)
        self._known_costs: list[tuple[int, float]] = []
        self._log_sizes, self._log_costs = array("d"), array("d")
        self.least_cost = 0.0
        self._cost_model: CostModel | None = None
        self._transitions: dict[str, TransitionDesign] = {}

    def is_current(self, results: Results, blocks: Sequence[Block]) -> bool:
        """Return True if exactly these results and blocks were added."""
        if len(results) != self._results or len(blocks) != self._blocks:
            return False
        return not blocks or blocks[-1] is self._last_block

    def knows(self, results: Results, blocks: Sequence[Block]) -> bool:
        """Return False if the results or blocks are not a continuation of those that were added."""
        is_same = self._blocks == 0 or (len(blocks) >= self._blocks and blocks[self._blocks - 1] is self._last_block)
        return is_same and len(results) >= self._results

    def update(self, results: dict[Request, Point | None], blocks: Sequence[Block]) -> None:
        """Add what has come since the last update."""
        new = list(itertools.islice(reversed(results.items()), len(results) - self._results))
        for run, point in reversed(new):
            self._add_result(run, point)
        for block in blocks[self._blocks :]:
            self._add_block(block)
        self._results, self._blocks = len(results), len(blocks)
        self._last_block = blocks[-1] if blocks else None

    def pair_of(self, block: Block) -> Pair | None:
        """Return the pair of a block, or None if it is incomplete."""
        return pair_of(block, self.learned)

    def waiting(self, request: Request) -> list[MixAndBaseline]:
        """Return the comparisons with open blocks that wait for the outcome of a run."""
        run = (request.mix, request.size, request.seed)
        return [pair for pair, _ in self._waiting.get(run, ())] if request.is_full else []

    @property
    def costs(self) -> CostModel:
        """Cost of a run by size, from all runs so far (:func:`orchestrator.search.results.cost_model`)."""
        if self._cost_model is None:
            self._cost_model = fit_costs(np.array(self._log_sizes), np.array(self._log_costs))
        return self._cost_model

    def transition(self, mix: str) -> TransitionDesign:
        """Return the search for a mix's transition, which is the same until another of its runs has ended."""
        if mix not in self._transitions:
            self._transitions[mix] = design_of(self._problem, mix, tuple(self.outcomes[mix]))
        return self._transitions[mix]

    def _add_result(self, request: Request, point: Point | None) -> None:
        self.ended[request.mix] += 1
        if point is not None:
            self.spent[request.mix] = self.spent.get(request.mix, 0.0) + point.cost
        if not request.is_full:
            return
        run = (request.mix, request.size, request.seed)
        self.cells.setdefault(request.mix, KnownRuns(self._problem.seeds)).add(run[1:], point is not None)
        self._transitions.pop(request.mix, None)
        if point is None:
            self.learned[run] = None
        else:
            learned = has_learned(point.accuracy, point.floor, point.settled, self._share)
            self.learned[run], self.run_cost[run] = learned, point.cost
            insort(self.outcomes.setdefault(request.mix, []), (point, learned))
            if point.cost > 0:
                self._add_cost(request.size, point.cost)
        for pair, place in self._waiting.pop(run, ()):
            self._try_to_complete(pair, place)

    def _add_cost(self, size: int, cost: float) -> None:
        self.least_cost = min(self.least_cost or cost, cost)
        place = bisect(self._known_costs, (size, cost))
        self._known_costs.insert(place, (size, cost))
        self._log_sizes.insert(place, float(np.log(float(size))))
        self._log_costs.insert(place, float(np.log(cost)))
        self._cost_model = None

    def _add_block(self, block: Block) -> None:
        key = (block.mix, block.baseline)
        if (own := self.compared.get(key)) is None:  # Of a mix that this sweep no longer compares.
            return
        own.add(block, self.pair_of(block), self.run_cost)
        for run in block.runs:
            if run not in self.learned:
                self._waiting[run].append((key, len(own.blocks) - 1))

    def _try_to_complete(self, key: MixAndBaseline, place: int) -> None:
        own = self.compared[key]
        if place in own.open and (pair := self.pair_of(own.open[place])) is not None:
            own.complete(place, pair, self.run_cost)
