"""Choice of the next blocks of one comparison.

Before the decision, the best size is the one whose pairs are most likely to decide within what is left of the budget.
After it, the best sizes are those whose pairs are expected to raise the certified factor most per unit of cost.

A block depends only on the outcomes and costs of the comparison's own complete pairs, on parameters, and on the number
of its blocks. Seeds are used in a fixed order, and none is used twice while unused seeds are left. Runs of the baseline
that belong to another mix or sweep therefore never influence a block. Rule 2 of
:mod:`orchestrator.transition.evidence` requires this.

Letters: D curves, S sizes of the mix, T sizes of the baseline, R runs.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from orchestrator.search.base import Problem
from orchestrator.search.ledger import ComparedRuns
from orchestrator.search.reachable_pairs import Budget
from orchestrator.transition.evidence import Block, Direction
from orchestrator.transition.types import Floats

DRAWS = 512
"""Number of curves drawn for each mix to place one block."""
OVERHEAD = 1_000.0
"""Number added to a model's parameters to predict the cost of a run until costs are measured. A core trains models of
this size at half its full rate (tests/bench/results/throughput.md, nested)."""
THRIFT = 0.5
"""Exponent of a pair's cost, by which its value for the factor is divided."""
CONFIDENT = 0.3
"""If no size decides with at least this probability, the search doubts its curves."""
DOUBTED_EVERY = 2
"""Then every second block is chosen with gradual curves among the others. Steep curves that were wrong would otherwise
hide sizes at which the mixes differ (tests/bench/results/searchers.md, Crossing curves)."""
HORIZON = 40.0
"""Number of pairs of mean cost that the search plans ahead at most. With a budget of hundreds of pairs, nearly every
size would be certain to decide, and the search would not prefer the one that decides soonest."""
LEAST_NEEDED = 0.1
"""Least log evidence that a decision is assumed to need, so that it never seems certain."""
STEP = 1.2
"""The next factor to certify is at least this many times the last one."""
AMBITION = 0.5
"""A pair's expected growth is multiplied by the rise of the log factor to this power. With 0, factors rise in
small steps. With 1, the search spends pairs on ratios too large to certify, and misses smaller factors
(tests/bench/results/searchers.md)."""
FEWEST_OPEN = 8
"""With fewer open blocks than this, the search always requests more. Otherwise idle slots would wait for the slowest
run."""
TINY = 1e-9
"""Added to a variance that may be 0."""
SMALLEST_VALUE = 1e-6
"""Smallest value of a pair relative to its expected growth toward the side that is ahead. It applies if no size can
decide within the budget."""
LEAST_GROWTH = {False: 0.02, True: 0.05}
"""Least expected growth of the log evidence for another pair, before (False) and after (True) the decision. With less,
a decision would take more than a hundred pairs: both mixes are known to learn alike."""


@dataclass(frozen=True)
class PairDesign:
    """State of the comparison of a mix with its baseline while one decision is made.

    Attributes:
        runs: The comparison's blocks, with their pairs and costs.
        error: Probability of a decision if the mixes are equally good.
        budget: The mix's budget.
    """

    problem: Problem
    mix: str
    baseline: str
    runs: ComparedRuns
    error: float
    budget: Budget

    @cached_property
    def decided(self) -> Direction | None:
        """The direction that the counted pairs decided, or None if they did not decide."""
        return self.runs.growth.decision(self.error, self._looks)

    @cached_property
    def fewest_more(self) -> int:
        """Smallest number of further pairs that can decide the comparison."""
        return self.runs.growth.fewest_more(self.error, self._looks)

    @cached_property
    def _at_least(self) -> float:
        """The certified factor, 1 before the decision."""
        if self.decided is None:
            return 1.0
        return self.runs.growth.at_least(self.problem.count, self.decided, self.error, self._looks)

    @property
    def _looks(self) -> int:
        return self.problem.earlier_looks(self.mix, self.baseline)

    def next_blocks(self, most: int) -> list[Block]:
        """Return up to ``most`` next blocks at the same sizes, or an empty list if evidence would hardly grow."""
        sizes, seeds = self._best_place
        return [Block(self.mix, self.baseline, *sizes, seed) for seed in seeds[:most]]

    def _run_costs(self) -> Floats:
        """Return the cost of a run at each size: the mean of its measured costs and one prediction from parameters."""
        # The prediction counts like one more run. A size with many runs follows its measurements. A size without any
        # still has a cost, and a single slow run does not rule its size out.
        expected_S = np.array(list(self.problem.counts().values())) + OVERHEAD
        if not self.runs.costs.sizes:
            return expected_S
        sizes = self.runs.costs.sizes.tolist()
        cost_R = np.array(self.runs.costs.costs)
        count = {size: self.problem.count(size) + OVERHEAD for size in set(sizes)}
        unit = float(cost_R.sum()) / sum(map(count.__getitem__, sizes))
        size_R = np.array(sizes)
        at_SR = np.array(self.problem.sizes)[:, None] == size_R
        cost_S: Floats = (expected_S * unit + at_SR @ cost_R) / (1 + at_SR.sum(axis=1))
        return cost_S

    @property
    def has_enough_pairs(self) -> bool:
        """True if the open blocks of the comparison should be enough to decide it.

        More blocks would be chosen without knowing the outcomes of the open ones, and probably be trained in vain.
        """
        count = len(self.runs.open)
        return count >= FEWEST_OPEN and self.decided is None and count >= self._pairs_expected

    @cached_property
    def _pairs_expected(self) -> float:
        """Number of pairs that decide the comparison from here if evidence grows as expected."""
        growth_ST, _ = self._values
        needed = min(map(self._needed, Direction))
        return needed / max(float(growth_ST.max()), LEAST_GROWTH[False])

    def _needed(self, direction: Direction) -> float:
        """Return the log evidence that a decision in this direction still needs."""
        return -math.log(self.error) + math.log(self._looks + 1) - self.runs.growth.path[direction][-1]

    @cached_property
    def _best_place(self) -> tuple[tuple[int, int], list[int]]:
        """Best sizes of the mix and the baseline, and the free seeds there (empty if evidence would hardly grow)."""
        sizes = self.problem.sizes
        growth_ST, value_ST = (values.copy() for values in self._values)
        value_ST[growth_ST < LEAST_GROWTH[self.decided is not None]] = 0.0
        for cell in zip(*np.nonzero(value_ST), strict=True):
            # Every seed was used at these sizes. Without this, the best cell could have no block to request, and the
            # search would end although another cell still has seeds.
            if not self._has_free_seeds(*cell):
                value_ST[cell] = 0.0
        best = divmod(int(value_ST.argmax()), len(sizes))
        return (sizes[best[0]], sizes[best[1]]), self._free(*best) if value_ST[best] > 0 else []

    @cached_property
    def _values(self) -> tuple[Floats, Floats]:
        """Expected growth of the log evidence from a pair, and the value of a pair, by size of the mix and of the
        baseline: S x T. Before the decision, only pairs of equal sizes have a value."""
        if self.decided is not None:
            return self._values_for_factor(self.decided)
        growth_S, value_S = self._values_for_decision(gradual=False)
        if value_S.max() < CONFIDENT and len(self.runs.blocks) % DOUBTED_EVERY == DOUBTED_EVERY - 1:
            growth_S, value_S = self._values_for_decision(gradual=True)
        return np.diag(growth_S), np.diag(value_S)

    def _curves(self, *, gradual: bool) -> tuple[Floats, Floats]:
        """Draw curves of the mix and of the baseline: draws x sizes. ``gradual`` allows gradual curves."""
        # The number of blocks is the seed, so that the draws do not depend on when other mixes ask.
        rng = np.random.default_rng([zlib.crc32(self.mix.encode()), len(self.runs.blocks)])
        mix, baseline = self.runs.posteriors()
        sizes = self.problem.sizes
        return (
            mix.draw(sizes, rng.random(DRAWS), gradual=gradual),
            baseline.draw(sizes, rng.random(DRAWS), gradual=gradual),
        )

    def _values_for_decision(self, *, gradual: bool) -> tuple[Floats, Floats]:
        """Return the expected growth of the log evidence from a pair at each size, and the probability that pairs there
        decide within what is left of the budget, both S."""
        growth_DS = signed_growth(*self._curves(gradual=gradual))
        side = leading_side(growth_DS)
        needed = max(self._needed(side), LEAST_NEEDED)
        ahead_DS = np.maximum(growth_DS if side is Direction.MIX_AHEAD else -growth_DS, 0.0)
        chance_S = chance_to_decide(ahead_DS, needed, self._pairs_left())
        return np.abs(growth_DS).mean(axis=0), np.maximum(chance_S, SMALLEST_VALUE * ahead_DS.mean(axis=0))

    def _pairs_left(self) -> Floats:
        """Return the number of pairs at each size that what is left of the budget has room for, within the horizon."""
        cost_S = self._run_costs()
        pairs = min(max(self.budget.runs - len(self.runs.blocks), 1.0), HORIZON)
        if math.isinf(self.budget.cost) or not self.runs.costs.sizes:
            # Without a limit of the cost, prefer sizes as if these pairs could cost as much as pairs of the mean cost.
            of_mean_cost: Floats = pairs * cost_S.mean() / cost_S
            return of_mean_cost
        left = max(self.budget.cost - sum(self.runs.costs.costs) / 2, float(cost_S.min()))
        return np.minimum(pairs, min(left, HORIZON * float(cost_S.mean())) / cost_S)

    def _values_for_factor(self, decided: Direction) -> tuple[Floats, Floats]:
        """Return the expected growth of the log evidence from pairs that would raise the factor, and their value per
        cost: S x T. Large ratios have more weight, because they certify all smaller factors too."""
        mix_DS, baseline_DT = self._curves(gradual=False)
        count_S = np.array(list(self.problem.counts().values()))
        ratio_ST = count_S / count_S[:, None]
        sign = 1 if decided is Direction.MIX_AHEAD else -1
        rise_ST = ratio_ST**sign / self._at_least
        # Only these pairs (P of them) can raise the factor.
        mix_P, baseline_P = np.nonzero(rise_ST >= STEP)
        growth_DP = sign * signed_growth(mix_DS[:, mix_P], baseline_DT[:, baseline_P])
        growth_ST = np.zeros_like(rise_ST)
        growth_ST[mix_P, baseline_P] = np.maximum(growth_DP, 0.0).mean(axis=0)
        value_ST = growth_ST * np.log(np.maximum(rise_ST, 1.0)) ** AMBITION
        # Costs differ between sizes far more than growths do, so growth per cost would favor the smallest models too
        # much. The exponent is from simulated searches (tests/bench/results/searchers.md).
        cost_S = self._run_costs()
        return growth_ST, value_ST / (cost_S[:, None] + cost_S) ** THRIFT

    def _free(self, mix: int, baseline: int) -> list[int]:
        """Return the seeds that the comparison's blocks have not used at these sizes, for the mix or for the baseline.

        Seeds that were used least often at any size come first. A seed fixes the data, and data may suit one mix better
        than the other at every size. Pairs with the same seed are then not independent. Each pair therefore gets a new
        seed while unused seeds are left.
        """
        of_mix, of_baseline = self._used_at(mix, baseline)
        return [seed for seed in self._seeds if seed not in of_mix and seed not in of_baseline]

    def _has_free_seeds(self, mix: int, baseline: int) -> bool:
        of_mix, of_baseline = self._used_at(mix, baseline)
        # A quick test, because every decision asks this for every pair of sizes.
        if len(of_mix) + len(of_baseline) < len(self.problem.seeds):
            return True
        return any(seed not in of_mix and seed not in of_baseline for seed in self.problem.seeds)

    def _used_at(self, mix: int, baseline: int) -> tuple[set[int], set[int]]:
        """Return the seeds that the comparison's blocks have used for the mix and for the baseline at these sizes."""
        sizes = self.problem.sizes
        none = set[int]()
        return self.runs.seeds_of_mix.get(sizes[mix], none), self.runs.seeds_of_baseline.get(sizes[baseline], none)

    @cached_property
    def _seeds(self) -> list[int]:
        """The seeds, sorted by how often the comparison's blocks have used them."""
        return sorted(self.problem.seeds, key=lambda seed: self.runs.uses.get(seed, 0))


def signed_growth(mix_DS: Floats, baseline_DS: Floats) -> Floats:
    """Return the expected growth of the log evidence from a pair on each pair of curves: positive where the mix is
    ahead, negative where it is behind."""
    return divergence(mix_DS, baseline_DS) * np.sign(mix_DS - baseline_DS)


def leading_side(growth_DS: Floats) -> Direction:
    """Return the direction that is ahead over all sizes together on most drawn pairs of curves.

    If curves cross, pairs at sizes where the mix is ahead and pairs at sizes where it is behind undo each other's
    evidence. So the search keeps to one side.
    """
    lead = float(np.sign(growth_DS.sum(axis=1)).mean())
    return Direction.MIX_AHEAD if lead >= 0 else Direction.BASELINE_AHEAD


def chance_to_decide(growth_DS: Floats, needed: float, pairs_S: Floats) -> Floats:
    """Return the probability that pairs at a size add the needed log evidence, by size.

    Args:
        growth_DS: Expected growth of the log evidence from a pair on each pair of curves, 0 if it would not grow.
        needed: The needed log evidence.
        pairs_S: Number of pairs that the budget allows at each size.
    """
    from scipy.special import ndtr  # It takes .2 s to import, and commands that only read never need it.

    # A log likelihood ratio has a variance of about twice its mean, and a sum over pairs is about normal.
    total_DS = pairs_S * growth_DS
    chance_S: Floats = ndtr((total_DS - needed) / np.sqrt(2 * total_DS + TINY)).mean(axis=0)
    return chance_S


def divergence(p: Floats, q: Floats) -> Floats:
    """Return the expected growth of the log evidence from a pair: twice the Jensen-Shannon divergence, in nats."""
    middle = (p + q) / 2
    rest = 1 - middle
    both: Floats = _kl(p, middle, rest)
    both += _kl(q, middle, rest)
    return both


def _kl(p: Floats, q: Floats, q_fails: Floats) -> Floats:
    """Return p log(p / q) + (1 - p) log((1 - p) / (1 - q)), where ``q_fails`` is 1 - q."""
    # A third of a decision's time is spent here, so reuse arrays.
    p_fails = 1 - p
    learns = np.divide(p, q)
    np.log(learns, out=learns)
    learns *= p
    fails = np.divide(p_fails, q_fails, out=np.empty_like(p_fails))
    np.log(fails, out=fails)
    fails *= p_fails
    learns += fails
    return learns
