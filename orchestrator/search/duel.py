"""One comparison as its own blocks show it, and where its next block goes.

A block is placed by what the comparison's own complete pairs say and cost, by parameters and by the number of its
blocks, and by nothing else. Seeds are used in their fixed order at each size. So a run of the
baseline that is known already, from another mix or another sweep, never draws a block towards itself or away from it,
and the evidence stays valid (:mod:`orchestrator.transition.evidence`, rule 2).
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.search.base import Problem
from orchestrator.search.locating import prior_of
from orchestrator.transition.evidence import Block, Comparison, Direction, Run, compare, counted

Floats = NDArray[np.float64]

DRAWS = 512
"""Curves drawn of each mix to place one block."""
DEVIATIONS = 1.5
"""Before the first pair, the candidate sizes are expected to contain both transitions: they end this many standard
deviations of the prior from their middle."""
OVERHEAD = 1_000.0
"""Until costs are measured, the cost of a run is taken to grow as its parameters plus this many: at this size a core
trains at half its full rate (tests/bench/results/throughput.md, nested)."""
THRIFT = 0.75
"""Growth is divided by cost to this power."""
STEP = 1.2
"""The next factor to certify is this many times the last one."""
HOPELESS = {False: 0.02, True: 0.05}
"""Growth of the log evidence per pair below which no more blocks are placed, before and after the decision: where both
mixes are known to learn alike, more than a hundred pairs would be needed."""


@dataclass(frozen=True)
class Count:
    """Parameters of a model, for a searcher that knows one number alone."""

    total: float

    @property
    def core(self) -> float:
        """The same number."""
        return self.total


class Duel:
    """A mix against its baseline.

    Args:
        blocks: The comparison's own blocks, in the order asked.
        learned: Whether runs that ended learned, None for those that failed.
        seconds: What runs cost; 0 if unknown.
    """

    def __init__(
        self,
        problem: Problem,
        mix: str,
        baseline: str,
        blocks: Sequence[Block],
        learned: Mapping[Run, bool | None],
        seconds: Mapping[Run, float],
        error: float,
    ) -> None:
        self._problem, self._names = problem, (mix, baseline)
        self._counts = problem.counts()
        self.comparison: Comparison = compare(counted(blocks, learned), self._parameters, error)
        self._chances = prior_of(problem, DEVIATIONS), prior_of(problem, DEVIATIONS)
        complete = [block for block in blocks if all(run in learned for run in block.runs)]
        for block in complete:
            for chances, run in zip(self._chances, block.runs, strict=True):
                if (outcome := learned[run]) is not None:
                    chances.add(run[1], outcome)
        measured = [(run[1], seconds.get(run, 0.0)) for block in complete for run in block.runs]
        self._cost_S = self._costs([(size, cost) for size, cost in measured if cost > 0])

    def _costs(self, measured: Sequence[tuple[int, float]]) -> Floats:
        """The cost of a run at each size: the mean of what was measured there and what parameters say, as one run."""
        sizes = np.array(self._problem.sizes)
        expected_S = np.array([self._counts[size] + OVERHEAD for size in self._problem.sizes])
        if not measured:
            return expected_S
        size_R, cost_R = np.array(measured).T
        unit = float(cost_R.sum()) / sum(self._parameters(size).total + OVERHEAD for size in size_R)
        at_SR = sizes[:, None] == size_R
        costs: Floats = (expected_S * unit + at_SR @ cost_R) / (1 + at_SR.sum(axis=1))
        return costs

    def _parameters(self, size: float) -> Count:
        # A sweep that was extended may have tried sizes that are not among the candidates.
        known = sorted(self._counts.items())
        logs = np.interp(math.log(size), [math.log(each) for each, _ in known], [math.log(count) for _, count in known])
        return Count(math.exp(float(logs)))

    def place(self, blocks: Sequence[Block], most: int) -> list[Block]:
        """Return the next blocks after these, up to ``most`` at the same sizes; none if evidence would hardly grow."""
        growth_ST = self._growth(len(blocks))
        seeds = {place: self._free(blocks, *place) for place in np.ndindex(growth_ST.shape) if growth_ST[place] > 0}
        for place, free in seeds.items():
            growth_ST[place] *= bool(free)
        if growth_ST.max() < HOPELESS[self.comparison.decided is not None]:
            return []
        score_ST = growth_ST / (self._cost_S[:, None] + self._cost_S) ** THRIFT
        place = divmod(int(score_ST.argmax()), len(self._problem.sizes))
        mix_size, baseline_size = (self._problem.sizes[axis] for axis in place)
        return [Block(*self._names, mix_size, baseline_size, seed) for seed in seeds[place][:most]]

    def _growth(self, blocks: int) -> Floats:
        """The expected growth of the log evidence, by the size of the mix and that of the baseline."""
        sizes, rng = self._problem.sizes, np.random.default_rng([zlib.crc32(self._names[0].encode()), blocks])
        mix_DS, baseline_DT = (chances.draw(sizes, rng.random(DRAWS)) for chances in self._chances)
        gain_DST = divergence(mix_DS[:, :, None], baseline_DT[:, None, :])
        comparison = self.comparison
        if comparison.decided is None:
            equal: Floats = gain_DST.mean(axis=0) * np.eye(len(sizes))
            return equal
        counts = np.array([self._counts[size] for size in sizes])
        ratio_ST = counts / counts[:, None]
        better = mix_DS[:, :, None] > baseline_DT[:, None, :]
        if comparison.decided is Direction.MORE:
            ratio_ST, better = 1 / ratio_ST, ~better
        growth: Floats = (gain_DST * better).mean(axis=0) * (ratio_ST >= STEP * (comparison.at_least or 1.0))
        return growth

    def _free(self, blocks: Sequence[Block], mix: int, baseline: int) -> list[int]:
        """The seeds that this comparison used neither for the mix nor for the baseline at these places."""
        sizes = self._problem.sizes[mix], self._problem.sizes[baseline]
        used = {block.seed for block in blocks if block.mix_size == sizes[0] or block.baseline_size == sizes[1]}
        return [seed for seed in self._problem.seeds if seed not in used]


def divergence(p: Floats, q: Floats) -> Floats:
    """Return what a pair is expected to add to the log evidence: twice the Jensen-Shannon divergence, in nats."""
    middle = (p + q) / 2
    result: Floats = _kl(p, middle) + _kl(q, middle)
    return result


def _kl(p: Floats, q: Floats) -> Floats:
    result: Floats = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    return result
