"""Sums over the results and blocks of a search, updated as results arrive.

A decision depends only on the searcher's results and blocks. A :class:`Ledger` keeps sums over them. A decision then
takes the same time after any number of runs.
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
GRADUAL_SHARE = 0.3
"""Prior probability of a gradual curve. The search uses such curves only when it doubts the others."""


class PairCosts:
    """Sizes and costs of the runs of complete pairs, in the order of the blocks. Runs of unknown cost are omitted."""

    def __init__(self) -> None:
        self.sizes = array("d")
        self.costs = array("d")
        self._blocks: list[int] = []
        """Index of the block of each run."""

    def add(self, block: int, size: int, cost: float) -> None:
        """Add a run of the block with this index, unless its ``cost`` is unknown (0)."""
        if cost > 0:
            # Sums of floats depend on their order. In the order of the blocks, they do not depend on which run ends
            # first, so a resumed sweep makes the same decisions.
            position = bisect(self._blocks, block)
            self._blocks.insert(position, block)
            self.sizes.insert(position, size)
            self.costs.insert(position, cost)

    def branch(self) -> PairCosts:
        """Return an independent copy."""
        other = copy.copy(self)
        other.sizes = self.sizes[:]
        other.costs = self.costs[:]
        other._blocks = list(self._blocks)
        return other


class ComparedRuns:
    """The blocks of one comparison in order of request, and sums over the complete ones.

    The first ``counted`` blocks are complete, and their pairs are in ``growth`` and the posteriors. Later blocks may
    also be complete. They do not count until all earlier blocks are complete, because evidence is only valid for pairs
    in the order of request (:mod:`orchestrator.transition.evidence`).
    """

    def __init__(self, problem: Problem) -> None:
        self.blocks: list[Block] = []
        self.pairs: list[Pair | None] = []
        self.growth = Growth()
        self.mix = prior_of(problem, DEVIATIONS, GRADUAL_SHARE)
        self.baseline = prior_of(problem, DEVIATIONS, GRADUAL_SHARE)
        self.open: dict[int, Block] = {}
        """Blocks that are not complete, by their index."""
        self.open_runs: dict[int, list[Request]] = {}
        """The two runs of each open block, by the block's index."""
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
        index = len(self.blocks)
        self.open[index] = block
        self.open_runs[index] = requests_of(block)
        self.blocks.append(block)
        self.pairs.append(None)
        self.seeds_of_mix.setdefault(block.mix_size, set()).add(block.seed)
        self.seeds_of_baseline.setdefault(block.baseline_size, set()).add(block.seed)
        self.uses[block.seed] += 1
        if pair is not None:
            self.complete(index, pair, run_cost)

    def complete(self, index: int, pair: Pair, run_cost: Mapping[RunId, float]) -> None:
        """Record the pair of a block, and the costs of its runs."""
        self.pairs[index] = pair
        del self.open[index], self.open_runs[index]
        for run in self.blocks[index].runs:
            self.costs.add(index, run[1], run_cost.get(run, 0.0))
        # A pair may complete a gap. Later pairs that waited for it count now.
        while self.counted < len(self.pairs) and (ready := self.pairs[self.counted]) is not None:
            self.growth.add(ready)
            self.mix.add(ready.mix_size, ready.mix_learned)
            self.baseline.add(ready.baseline_size, ready.baseline_learned)

    @property
    def version(self) -> tuple[int, int]:
        """Version of the state. It changes whenever a block is added or completed."""
        return len(self.blocks), len(self.open)

    def branch(self) -> ComparedRuns:
        """Return an independent copy."""
        other = copy.copy(self)
        other.blocks = list(self.blocks)
        other.pairs = list(self.pairs)
        other.open = dict(self.open)
        other.open_runs = dict(self.open_runs)
        other.costs = self.costs.branch()
        other.uses = Counter(self.uses)
        other.seeds_of_mix = {size: set(seeds) for size, seeds in self.seeds_of_mix.items()}
        other.seeds_of_baseline = {size: set(seeds) for size, seeds in self.seeds_of_baseline.items()}
        other.growth = self.growth.branch()
        other.mix = self.mix.branch()
        other.baseline = self.baseline.branch()
        return other

    def posteriors(self) -> tuple[Surrogate, Surrogate]:
        """Return the posteriors of the mix and its baseline given all complete pairs, even if they do not count yet."""
        # The search may use every outcome. Only the evidence must wait for earlier pairs.
        later = [pair for pair in self.pairs[self.counted :] if pair is not None]
        if not later:
            return self.mix, self.baseline
        mix = self.mix.branch()
        baseline = self.baseline.branch()
        for pair in later:
            mix.add(pair.mix_size, pair.mix_learned)
            baseline.add(pair.baseline_size, pair.baseline_learned)
        return mix, baseline


class Ledger:
    """Sums over the results and blocks of a search.

    Attributes:
        learned: Whether each full run learned, None if it failed. A run is full if it trained to the end of its arm
            (:attr:`Request.is_full`).
        ended: Number of runs that ended, by mix.
        spent: Cost of the runs that ended, by mix.
        least_cost: Cost of the cheapest full run, 0 if no cost is known.
        run_cost: Cost of each full run that did not fail.
        outcomes: By mix, the point of each full run that did not fail and whether it learned, sorted.
        cells: By mix, the full runs.
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
        self._problem = problem
        self._share = share
        self._results = 0
        """Number of results that were added."""
        self._blocks = 0
        """Number of blocks that were added."""
        self._last_block: Block | None = None
        self._waiting: dict[RunId, list[tuple[MixAndBaseline, int]]] = defaultdict(list)
        self._known_costs: list[tuple[int, float]] = []
        self._log_sizes = array("d")
        self._log_costs = array("d")
        self.least_cost = 0.0
        self._cost_model: CostModel | None = None
        self._transitions: dict[str, TransitionDesign] = {}

    def is_current(self, results: Results, blocks: Sequence[Block]) -> bool:
        """Return True if exactly these results and blocks were added."""
        if len(results) != self._results or len(blocks) != self._blocks:
            return False
        # Results are only ever added, so their number is enough. Blocks can be replaced by a restored list.
        return not blocks or blocks[-1] is self._last_block

    def knows(self, results: Results, blocks: Sequence[Block]) -> bool:
        """Return False if the results or blocks are not a continuation of those that were added."""
        is_same = self._blocks == 0 or (len(blocks) >= self._blocks and blocks[self._blocks - 1] is self._last_block)
        return is_same and len(results) >= self._results

    def update(self, results: dict[Request, Point | None], blocks: Sequence[Block]) -> None:
        """Add the results and blocks since the last update."""
        # A dictionary keeps the order of insertion, so the new results are the last ones.
        new = list(itertools.islice(reversed(results.items()), len(results) - self._results))
        for run, point in reversed(new):
            self._add_result(run, point)
        for block in blocks[self._blocks :]:
            self._add_block(block)
        self._results = len(results)
        self._blocks = len(blocks)
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
        """Return the state of the search for a mix's transition. It is cached until another run of the mix ends."""
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
            self.learned[run] = learned
            self.run_cost[run] = point.cost
            insort(self.outcomes.setdefault(request.mix, []), (point, learned))
            if point.cost > 0:
                self._add_cost(request.size, point.cost)
        for pair, block in self._waiting.pop(run, ()):
            self._try_to_complete(pair, block)

    def _add_cost(self, size: int, cost: float) -> None:
        self.least_cost = min(self.least_cost or cost, cost)
        # Sorted, so that the fitted costs do not depend on the order of results.
        position = bisect(self._known_costs, (size, cost))
        self._known_costs.insert(position, (size, cost))
        self._log_sizes.insert(position, float(np.log(float(size))))
        self._log_costs.insert(position, float(np.log(cost)))
        self._cost_model = None

    def _add_block(self, block: Block) -> None:
        key = (block.mix, block.baseline)
        compared = self.compared.get(key)
        if compared is None:  # This sweep extends one that compared this mix, but no longer does so.
            return
        compared.add(block, self.pair_of(block), self.run_cost)
        for run in block.runs:
            if run not in self.learned:
                self._waiting[run].append((key, len(compared.blocks) - 1))

    def _try_to_complete(self, key: MixAndBaseline, block: int) -> None:
        compared = self.compared[key]
        if block in compared.open and (pair := self.pair_of(compared.open[block])) is not None:
            compared.complete(block, pair, self.run_cost)
