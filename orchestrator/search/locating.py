"""Which run says most about one mix's transition, and when that is known well enough.

Letters: C candidate sizes, D curves, B bins of the transition.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from orchestrator.search.base import Problem, Request, Results
from orchestrator.search.results import CostModel, free_runs, has_free, missing_runs
from orchestrator.transition.chances import Chances
from orchestrator.transition.evidence import Run
from orchestrator.transition.transition import SURE
from orchestrator.transition.types import LEVEL, QUANTILES

Floats = NDArray[np.float64]

PRECISION = 0.33
"""A transition is located once its 90 % interval is narrower than this, in ln size."""
COARSE = 1.5
"""An interval is not asked to be narrower than this times the gap between the candidate sizes around it."""
FEWEST = 6
"""Finished runs of a mix, at least, before its transition counts as located."""
CONFIRMATIONS = 2
"""Finished runs that are needed at the largest (smallest) size to call a transition above (below) it."""
LEAST_GAIN = 0.02
"""Information about the transition, in nats, below which another run is not worth asking for."""
THRIFT = 0.75
"""Information is divided by cost to this power."""
TELLING = 0.25
"""Sizes with less than this share of the largest gain in information are not considered, however cheap."""
BIN = 0.05
"""Width of the bins of the transition, in ln size. Everything outside the candidate sizes is one bin on each side: how
far outside a transition lies need not be known."""
BEYOND = math.log(2)
"""Curves may rise so far outside the candidate sizes, in ln size."""


def chances_of(problem: Problem, learned: Mapping[Run, bool | None] = MappingProxyType({}), mix: str = "") -> Chances:
    """Return the chances to learn over the candidate sizes, of a mix whose runs ``learned`` or did not."""
    chances = prior_of(problem)
    for (name, size, _), outcome in sorted(learned.items()):
        if name == mix and outcome is not None:
            chances.add(size, outcome)
    return chances


def prior_of(problem: Problem, deviations: float = 0.0) -> Chances:
    """Return the chances to learn before any run.

    The prior of the midpoint is normal around the middle of the candidate sizes, which end this many standard
    ``deviations`` from it; with 0 it is flat.
    """
    smallest, largest = problem.sizes[0], problem.sizes[-1]
    half = math.log(largest / smallest) / 2
    return Chances(
        math.sqrt(smallest * largest), half + BEYOND, max(half, BEYOND) / deviations if deviations else math.inf
    )


class Location:
    """The transition of one mix as its runs show it."""

    def __init__(self, problem: Problem, mix: str, learned: Mapping[Run, bool | None]) -> None:
        self._problem, self._mix = problem, mix
        self._chances = chances_of(problem, learned, mix)
        own = [(size, outcome) for (name, size, _), outcome in learned.items() if name == mix and outcome is not None]
        self._runs = len(own)
        self._place_D = self._chances.crossings(LEVEL)
        order = np.argsort(self._place_D)
        cumulative = np.cumsum(self._chances.weights()[order])
        places = np.searchsorted(cumulative, np.array(QUANTILES) * cumulative[-1])
        self.low, self.median, self.high = (float(place) for place in self._place_D[order][places])
        tried, good = Counter(size for size, _ in own), Counter(size for size, outcome in own if outcome)
        failed = [size for size in tried if 2 * good[size] < tried[size] and math.log(size) <= self.median]
        passed = [size for size in tried if 2 * good[size] >= tried[size] and math.log(size) >= self.median]
        self.bracket = max(failed, default=None), min(passed, default=None)
        """The largest size that most runs failed, below the median, and the smallest that most learned, above it."""

    def __str__(self) -> str:
        return f"known to a factor of {math.exp(self.high - self.low):.2g}"

    def next_runs(self, results: Results, taken: Collection[Request], costs: CostModel, most: int) -> list[Request]:
        """Return the next runs, up to ``most`` at one size; none if the transition is located as well as it will be.
        ``taken`` are the pending runs."""
        problem, mix, sizes = self._problem, self._mix, self._problem.sizes
        weight_D = self._chances.weights()
        above = float(weight_D[self._place_D > math.log(sizes[-1])].sum())
        below = float(weight_D[self._place_D < math.log(sizes[0])].sum())
        for outside, end in ((above, sizes[-1]), (below, sizes[0])):
            if outside >= SURE:
                return missing_runs(problem, results, taken, mix, end, CONFIRMATIONS)[:most]
        if self._is_narrow():
            return []
        pending = Counter(run.size for run in taken if run.mix == mix and run.size in sizes and run.is_evidence)
        free_C = np.array([has_free(problem, results, taken, mix, size) for size in sizes])
        gain_C = np.where(free_C, self.information(pending), 0.0)
        if gain_C.max() < LEAST_GAIN:
            return []
        cost_C = np.array([costs.cost(size) for size in sizes])
        score_C = np.where(gain_C >= TELLING * gain_C.max(), gain_C / cost_C**THRIFT, 0.0)
        return free_runs(problem, results, taken, mix, sizes[int(score_C.argmax())])[:most]

    def information(self, pending: Mapping[int, int]) -> Floats:
        """Return the mutual information, in nats, between the transition and one more run at each size.

        Pending runs, so many at each size, count as soft labels: each is taken to end as is predicted for its size now.
        """
        sizes = self._problem.sizes
        weight_D = self._chances.weights()
        learns_CD = np.stack([self._chances.curves(size) for size in sizes])
        log_D = np.zeros_like(weight_D)
        for size, count in sorted(pending.items()):
            learns_D = self._chances.curves(size)
            predicted = float(learns_D @ weight_D)
            log_D += count * (predicted * np.log(learns_D) + (1 - predicted) * np.log1p(-learns_D))
        weight_D = weight_D * np.exp(log_D - log_D.max())
        weight_D /= weight_D.sum()
        inside_D = np.clip(self._place_D, math.log(sizes[0]) - BIN, math.log(sizes[-1]) + BIN)
        bins, bin_D = np.unique(np.floor(inside_D / BIN), return_inverse=True)
        member_DB = (bin_D[:, None] == np.arange(len(bins))) * weight_D[:, None]
        gain_C = np.zeros(len(sizes))
        for outcome_CD in (learns_CD, 1 - learns_CD):
            joint_CB = outcome_CD @ member_DB
            independent_CB = joint_CB.sum(axis=1, keepdims=True) * member_DB.sum(axis=0)
            ratio_CB = joint_CB / np.maximum(independent_CB, 1e-300)
            gain_C += (joint_CB * np.log(np.maximum(ratio_CB, 1e-300))).sum(axis=1)
        return gain_C

    def _is_narrow(self) -> bool:
        """True if the interval, bracket included, is as narrow as wanted."""
        under, over = self.bracket
        if under is None or over is None or self._runs < FEWEST:
            return False
        low, high = min(self.low, math.log(under)), max(self.high, math.log(over))
        gap = gap_around(self._problem.sizes, math.exp(self.median)) or (1, 1)
        return high - low <= max(PRECISION, COARSE * math.log(gap[1] / gap[0]))


def gap_around(sizes: Sequence[int], size: float) -> tuple[int, int] | None:
    """Return the candidate sizes on either side of a ``size``, which may be the smaller one; None beyond their ends."""
    return next(((small, large) for small, large in pairwise(sizes) if small <= size < large), None)
