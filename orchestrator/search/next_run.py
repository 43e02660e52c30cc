"""Next run that locates the transition of one mix, chosen by information per cost.

Letters: C candidate sizes, D curves, B bins of the transition.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from orchestrator.search.base import Problem, Request, Results
from orchestrator.search.results import CostModel, points
from orchestrator.transition.estimate import SURE_OUTSIDE, transition
from orchestrator.transition.evidence import has_learned
from orchestrator.transition.surrogate import Surrogate
from orchestrator.transition.types import LEVEL, QUANTILES, Floats, Point, Verdict

PRECISION = 0.33
"""Maximum width of the 90% interval of a located transition, in ln size."""
COARSE = 1.5
"""Maximum width of the interval relative to the gap between the sizes around it, if that is above :data:`PRECISION`."""
FEWEST = 6
"""Minimum number of finished runs of a mix with a located transition."""
CONFIRMATIONS = 2
"""Minimum number of finished runs at the largest (smallest) size to call a transition above (below) it."""
LEAST_GAIN = 0.02
"""Minimum information about the transition, in nats, for another run."""
THRIFT = 0.75
"""Exponent of the cost by which information is divided."""
LEAST_SHARE = 0.25
"""Minimum information at a size relative to the maximum over sizes. Cheaper sizes with less are ignored."""
BIN = 0.05
"""Width of the bins of the transition, in ln size. Transitions outside the candidate sizes share one bin on each side,
because their distance is not needed."""
BEYOND = math.log(2)
"""Maximum distance of a midpoint outside the candidate sizes, in ln size."""


SizeSeed = tuple[int, int]
"""Size and seed of a run of one mix."""


class KnownRuns:
    """The runs of one mix that ended, and their counts, so that no decision has to count them again.

    Attributes:
        cells: Whether each run did not fail.
        taken: Number of runs by size, of those with one of the problem's ``seeds``.
        used: Number of runs by seed.
    """

    def __init__(self, seeds: Sequence[int]) -> None:
        self.cells: dict[SizeSeed, bool] = {}
        self.taken: Counter[int] = Counter()
        self.used: Counter[int] = Counter()
        self._seeds = frozenset(seeds)

    def add(self, cell: SizeSeed, is_intact: bool) -> None:
        """Add a run, and whether it did not fail."""
        if cell not in self.cells:
            size, seed = cell
            self.taken[size] += seed in self._seeds
            self.used[seed] += 1
        self.cells[cell] = is_intact


def prior_of(problem: Problem, deviations: float = 0.0, gradual: float = 0.0) -> Surrogate:
    """Return the prior over the candidate sizes. ``deviations`` is the distance from the middle of the sizes to their
    ends in standard deviations of the midpoint's normal prior; 0 makes the prior flat. ``gradual`` is the probability
    of a gradual curve."""
    smallest, largest = problem.sizes[0], problem.sizes[-1]
    half = math.log(largest / smallest) / 2
    spread = max(half, BEYOND) / deviations if deviations else math.inf
    return Surrogate(math.sqrt(smallest * largest), half + BEYOND, spread, gradual=gradual)


@dataclass(frozen=True)
class TransitionDesign:
    """State of the search for one mix's transition. ``runs`` has what each run that did not fail shows, and whether it
    learned, sorted."""

    problem: Problem
    mix: str
    runs: tuple[tuple[Point, bool], ...]

    @staticmethod
    def of(problem: Problem, mix: str, results: Results, share: float) -> TransitionDesign:
        """Return the design of a mix after ``results``. Runs that reach ``share`` count as learned (see
        :attr:`~orchestrator.search.base.EvidenceSettings.learned`)."""
        runs = [
            (point, has_learned(point.accuracy, point.floor, point.settled, share)) for point in points(results, mix)
        ]
        return design_of(problem, mix, tuple(runs))

    @cached_property
    def surrogate(self) -> Surrogate:
        """Posterior of the probability that a run learns."""
        surrogate = prior_of(self.problem)
        for point, learned in self.runs:
            surrogate.add(point.size, learned)
        return surrogate

    @cached_property
    def _weights(self) -> Floats:
        """Posterior probability of each curve."""
        return self.surrogate.weights()

    @cached_property
    def _gains(self) -> dict[tuple[tuple[int, int], ...], Floats]:
        """Results of :meth:`information`. Mixes that need no run are asked again at every decision."""
        return {}

    @cached_property
    def _places(self) -> Floats:
        """Transition on each curve, in ln size."""
        return self.surrogate.crossings(LEVEL)

    @cached_property
    def interval(self) -> tuple[float, float, float]:
        """Lower end, median and upper end of the transition's interval, in ln size."""
        order = np.argsort(self._places)
        cumulative = np.cumsum(self._weights[order])
        places = np.searchsorted(cumulative, np.array(QUANTILES) * cumulative[-1])
        low, median, high = (float(place) for place in self._places[order][places])
        return low, median, high

    @cached_property
    def _outside(self) -> tuple[float, float]:
        """Posterior probabilities that the transition is above and below the candidate sizes."""
        sizes, weight_D = self.problem.sizes, self._weights
        above = float(weight_D[self._places > math.log(sizes[-1])].sum())
        below = float(weight_D[self._places < math.log(sizes[0])].sum())
        return above, below

    @cached_property
    def bracket(self) -> tuple[int | None, int | None]:
        """Largest size below the median that did not learn, and smallest size above the median that did. A size learned
        if at least half of its runs did."""
        _, median, _ = self.interval
        tried = Counter(point.size for point, _ in self.runs)
        good = Counter(point.size for point, learned in self.runs if learned)
        failed = [size for size in tried if 2 * good[size] < tried[size] and math.log(size) <= median]
        passed = [size for size in tried if 2 * good[size] >= tried[size] and math.log(size) >= median]
        return max(failed, default=None), min(passed, default=None)

    def next_runs(self, known: KnownRuns, pending: Collection[SizeSeed], costs: CostModel, most: int) -> list[Request]:
        """Return up to ``most`` runs at one size, or none if the transition is located or they would not help.

        ``known`` are the mix's runs that ended; ``pending`` are those that have not.
        """
        sizes, seeds, waiting = self.problem.sizes, self.problem.seeds, set(pending)

        def least_used(size: int, count: int) -> list[Request]:
            # Runs with the same seed share data. A lucky data set must not look like a learning curve.
            used = Counter(seed for _, seed in pending)
            own = [seed for seed in seeds if (size, seed) not in known.cells and (size, seed) not in waiting]
            own.sort(key=lambda seed: known.used[seed] + used[seed])
            return [Request(self.mix, size, seed) for seed in own[:count]]

        for outside, end in zip(self._outside, (-1, 0), strict=True):
            if outside >= SURE_OUTSIDE:
                cell = [(sizes[end], seed) for seed in seeds]
                have = sum(known.cells.get(run, False) or run in waiting for run in cell)
                return least_used(sizes[end], min(most, max(CONFIRMATIONS - have, 0)))
        if self._is_narrow:
            return []
        own_seeds = set(seeds)
        begun = Counter(size for size, seed in waiting if seed in own_seeds and (size, seed) not in known.cells)
        free = [known.taken[size] + begun[size] < len(seeds) for size in sizes]
        gain_C = np.where(free, self.information(Counter(size for size, _ in pending if size in sizes)), 0.0)
        if gain_C.max() < LEAST_GAIN:
            return []
        cost_C = np.array([costs.cost(size) for size in sizes])
        score_C = np.where(gain_C >= LEAST_SHARE * gain_C.max(), gain_C / cost_C**THRIFT, 0.0)
        return least_used(sizes[int(score_C.argmax())], most)

    def information(self, pending: Mapping[int, int]) -> Floats:
        """Return the mutual information, in nats, between the transition and another run at each size. Each of the
        ``pending`` runs, a number by size, counts as a soft label, the prediction for its size."""
        key = tuple(sorted(pending.items()))
        if key not in self._gains:
            self._gains[key] = self._information(key)
        return self._gains[key]

    def _information(self, pending: Sequence[tuple[int, int]]) -> Floats:
        sizes = self.problem.sizes
        weight_D = self._weights
        learns_CD = np.stack([self.surrogate.curves(size) for size in sizes])
        log_D = np.zeros_like(weight_D)
        for size, count in pending:
            learns_D = self.surrogate.curves(size)
            predicted = float(learns_D @ weight_D)
            log_D += count * (predicted * np.log(learns_D) + (1 - predicted) * np.log1p(-learns_D))
        weight_D = weight_D * np.exp(log_D - log_D.max())
        weight_D /= weight_D.sum()
        inside_D = np.clip(self._places, math.log(sizes[0]) - BIN, math.log(sizes[-1]) + BIN)
        bins, bin_D = np.unique(np.floor(inside_D / BIN), return_inverse=True)
        member_DB = (bin_D[:, None] == np.arange(len(bins))) * weight_D[:, None]
        gain_C = np.zeros(len(sizes))
        for outcome_CD in (learns_CD, 1 - learns_CD):
            joint_CB = outcome_CD @ member_DB
            independent_CB = joint_CB.sum(axis=1, keepdims=True) * member_DB.sum(axis=0)
            ratio_CB = joint_CB / np.maximum(independent_CB, 1e-300)
            gain_C += (joint_CB * np.log(np.maximum(ratio_CB, 1e-300))).sum(axis=1)
        return gain_C

    @cached_property
    def _is_narrow(self) -> bool:
        under, over = self.bracket
        if under is None or over is None or len(self.runs) < FEWEST:
            return False
        low, median, high = self.interval
        low = min(low, math.log(under))
        high = max(high, math.log(over))
        return self._is_precise(low, math.exp(median), high) and self._is_answer_precise

    @cached_property
    def _is_answer_precise(self) -> bool:
        """Return False if the transition that the answer would report has a wide interval.

        The answer is fitted to scores, and may see a slow rise where nearly all of it counts as not learned. It is
        asked last because it takes far longer than the rest of a decision.
        """
        answered = transition([point for point, _ in self.runs], self.problem.sizes)
        if answered.verdict is Verdict.NEAR_FLOOR:
            return True  # Scores cannot place it, however many runs there are.
        size = answered.relative
        if size.value is None or size.low is None or size.high is None:
            return False
        return self._is_precise(math.log(size.low), size.value, math.log(size.high))

    def _is_precise(self, low: float, median: float, high: float) -> bool:
        """Return True if an interval, in ln size, around the size ``median`` is narrow enough to stop."""
        gaps = [math.log(large / small) for small, large in pairwise(self.problem.sizes) if small <= median < large]
        return high - low <= max([PRECISION, *(COARSE * gap for gap in gaps)])


design_of = lru_cache(maxsize=256)(TransitionDesign)
"""Returns an equal earlier design if there is one, because its results are already computed."""
