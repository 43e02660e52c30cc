"""Choice of the next blocks of one comparison, by expected growth of its evidence per unit of cost.

A block depends only on the outcomes and costs of the comparison's own complete pairs, on parameters, and on the number
of its blocks. Seeds are used in a fixed order, each once as long as there are any. Runs of the baseline from another
mix or sweep therefore never influence a block, as rule 2 of :mod:`orchestrator.transition.evidence` requires.

Letters: D curves, S sizes of the mix, T sizes of the baseline, R runs.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from orchestrator.search.base import Problem
from orchestrator.search.next_run import prior_of
from orchestrator.transition.evidence import Block, Comparison, Direction, Pair, compare
from orchestrator.transition.types import Floats
from trainables.contract.runs import Parameters

DRAWS = 512
"""Number of curves drawn for each mix to place one block."""
DEVIATIONS = 1.5
"""Distance from the middle of the candidate sizes to their ends, in standard deviations of the prior of a midpoint."""
OVERHEAD = 1_000.0
"""Number added to a model's parameters to predict the cost of a run until costs are measured. A core trains models of
this size at half its full rate (tests/bench/results/throughput.md, nested)."""
THRIFT = 0.5
"""A pair's expected growth of the log evidence is divided by its cost to this power."""
STEP = 1.2
"""The next factor to certify is at least this many times the last one."""
AMBITION = 0.5
"""A pair's expected growth is multiplied by the rise of the log factor to this power. With 0, factors rise in
small steps. With 1, the search spends pairs on ratios too large to certify, and misses smaller factors
(tests/bench/results/searchers.md)."""
SMALLEST_VALUE = 1e-6
"""Value of a pair relative to its expected growth at sizes where the side that is behind overall may be ahead."""
LEAST_GROWTH = {False: 0.02, True: 0.05}
"""Stop when another pair is expected to add less log evidence than this (False: before the decision, True: after). If
both mixes are known to learn alike, a decision would take more than a hundred pairs."""


@dataclass(frozen=True)
class PairDesign:
    """State of the comparison of a mix with its baseline: its blocks in order of request, the pair of each (None if it
    is incomplete), and size and cost of each run of a complete pair whose cost is known. ``error`` is the probability
    of a decision if the mixes are equally good."""

    problem: Problem
    mix: str
    baseline: str
    blocks: tuple[Block, ...]
    pairs: tuple[Pair | None, ...]
    costs: tuple[tuple[int, float], ...]
    error: float

    @cached_property
    def comparison(self) -> Comparison:
        first_open = self.pairs.index(None) if None in self.pairs else len(self.pairs)
        complete = [pair for pair in self.pairs[:first_open] if pair]
        return compare(complete, self._parameters, self.error, self.problem.looks_at(self.mix, self.baseline))

    def next_blocks(self, most: int) -> list[Block]:
        """Return up to ``most`` next blocks at the same sizes, or an empty list if evidence would hardly grow."""
        sizes, seeds = self._best_place
        return [Block(self.mix, self.baseline, *sizes, seed) for seed in seeds[:most]]

    def _parameters(self, size: float) -> Parameters:
        # An extended sweep may have tried sizes that are no longer candidates.
        sizes, counts = zip(*sorted(self.problem.counts().items()), strict=True)
        count = math.exp(float(np.interp(math.log(size), list(map(math.log, sizes)), list(map(math.log, counts)))))
        return Parameters(total=count, core=count)

    def _run_costs(self) -> Floats:
        """Return the cost of a run at each size: the mean of its measured costs and one prediction from parameters."""
        expected_S = np.array(list(self.problem.counts().values())) + OVERHEAD
        if not self.costs:
            return expected_S
        size_R, cost_R = np.array(self.costs).T
        unit = float(cost_R.sum()) / sum(self._parameters(size).total + OVERHEAD for size in size_R)
        at_SR = np.array(self.problem.sizes)[:, None] == size_R
        cost_S: Floats = (expected_S * unit + at_SR @ cost_R) / (1 + at_SR.sum(axis=1))
        return cost_S

    @cached_property
    def _best_place(self) -> tuple[tuple[int, int], list[int]]:
        """Best sizes of the mix and the baseline, and the free seeds there (empty if evidence would hardly grow)."""
        sizes, cost_S = self.problem.sizes, self._run_costs()
        growth_ST, gain_ST = self._growth()
        seeds = {place: self._free(*place) for place in np.ndindex(growth_ST.shape) if growth_ST[place] > 0}
        least = LEAST_GROWTH[self.comparison.decided is not None]
        for place, free in seeds.items():
            gain_ST[place] *= bool(free) and growth_ST[place] >= least
        score_ST = gain_ST / (cost_S[:, None] + cost_S) ** THRIFT
        best = divmod(int(score_ST.argmax()), len(sizes))
        return (sizes[best[0]], sizes[best[1]]), seeds[best] if gain_ST[best] > 0 else []

    def _growth(self) -> tuple[Floats, Floats]:
        """Return the expected growth of the log evidence and its value, by size of the mix and of the baseline: S x T.

        Before the decision only pairs at equal sizes count (:func:`toward_one_side`). Afterwards only pairs that would
        raise the factor count, with more weight on large ratios, which certify all smaller factors too.
        """
        mix, baseline = prior_of(self.problem, DEVIATIONS), prior_of(self.problem, DEVIATIONS)
        for pair in self.pairs:
            if pair is not None:
                mix.add(pair.mix_size, pair.mix_learned)
                baseline.add(pair.baseline_size, pair.baseline_learned)
        sizes, rng = self.problem.sizes, np.random.default_rng([zlib.crc32(self.mix.encode()), len(self.blocks)])
        mix_DS, baseline_DT = (surrogate.draw(sizes, rng.random(DRAWS)) for surrogate in (mix, baseline))
        decided = self.comparison.decided
        if decided is None:
            growth_S, value_S = toward_one_side(mix_DS, baseline_DT)
            return np.diag(growth_S), np.diag(value_S)
        count_S = np.array(list(self.problem.counts().values()))
        ratio_ST = count_S / count_S[:, None]
        mix_DST, baseline_DST = mix_DS[:, :, None], baseline_DT[:, None, :]
        better_DST = mix_DST > baseline_DST
        if decided is Direction.MORE:
            ratio_ST, better_DST = 1 / ratio_ST, ~better_DST
        rise_ST = ratio_ST / (self.comparison.at_least or 1.0)
        growth_ST: Floats = (divergence(mix_DST, baseline_DST) * better_DST).mean(axis=0) * (rise_ST >= STEP)
        return growth_ST, growth_ST * np.log(np.maximum(rise_ST, 1.0)) ** AMBITION

    def _free(self, mix: int, baseline: int) -> list[int]:
        """Return the seeds that the comparison's blocks have not used for the mix or the baseline at these sizes, those
        that they have used least often at any size first.

        A seed fixes the data, and data may suit one mix better than the other at every size. Pairs with the same seed
        are then not independent, so each pair gets a seed of its own as long as there are any.
        """
        sizes = self.problem.sizes[mix], self.problem.sizes[baseline]
        used = {block.seed for block in self.blocks if block.mix_size == sizes[0] or block.baseline_size == sizes[1]}
        return [seed for seed in self._seeds if seed not in used]

    @cached_property
    def _seeds(self) -> list[int]:
        """The seeds, those that the comparison's blocks have used least often first."""
        used = Counter(block.seed for block in self.blocks)
        return sorted(self.problem.seeds, key=lambda seed: used[seed])


def toward_one_side(mix_DS: Floats, baseline_DS: Floats) -> tuple[Floats, Floats]:
    """Return the expected growth of the log evidence from a pair at each size, and the value of that growth, both S.

    If curves cross, pairs at sizes where the mix is ahead and pairs at sizes where it is behind undo each other's
    evidence. So choose one side, the one that is ahead over all sizes together, and value a size by the growth for that
    side minus the growth for the other side there. The second part counts the more, the surer it is which side is
    ahead: before the first pair not at all.
    """
    growth_DS = divergence(mix_DS, baseline_DS)
    sign_DS = np.sign(mix_DS - baseline_DS)
    lead = float(np.sign((growth_DS * sign_DS).sum(axis=1)).mean())
    side = 1.0 if lead >= 0 else -1.0
    ahead_S, behind_S = ((growth_DS * (sign_DS == sign)).mean(axis=0) for sign in (side, -side))
    # Where no size has a positive value, the search still goes on, at the size with the largest growth.
    value_S: Floats = np.maximum(ahead_S - abs(lead) * behind_S, SMALLEST_VALUE * ahead_S)
    return growth_DS.mean(axis=0), value_S


def divergence(p: Floats, q: Floats) -> Floats:
    """Return the expected growth of the log evidence from a pair: twice the Jensen-Shannon divergence, in nats."""
    middle = (p + q) / 2
    return _kl(p, middle) + _kl(q, middle)


def _kl(p: Floats, q: Floats) -> Floats:
    return p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
