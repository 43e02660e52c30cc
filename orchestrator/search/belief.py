"""Beliefs about one mix, and the run that tells most about its transition for its cost.

Letters: C candidate sizes, D curves (midpoint x slope as one axis, the flat ones last), B bins of the transition.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from orchestrator.search.base import Problem
from orchestrator.search.results import CostModel, Known, points_of, stack_cost
from orchestrator.transition.curves import LAPSES, LUCK, SLOPES, Curves, Evidence, curves_for
from orchestrator.transition.posterior import Posterior
from orchestrator.transition.scatter import Floats
from orchestrator.transition.transition import learned_sizes
from orchestrator.transition.types import LEVEL, Point

BIN = 0.05
"""Width of the bins of the transition, in ln size: finer than any interval asked for. Everything below the sizes is one
bin. Everything above them, curves without a transition included, is another."""
STRAY = 0.01
"""Probability that a run looks as if it had learned where none does."""
TAIL = 0.05
TELLING = 0.25
"""Sizes with less than this share of the largest gain in information are not considered, however cheap."""
LIKELY_ABOVE, NEARLY = 0.4, 0.7
"""From the first probability of "above" on, the largest size is taken if it has the second share of the best gain."""
THRIFT = 0.75
"""Information is divided by cost to this power."""
FLOOR_STEP = 0.05
"""The constant-answer floor is rounded to this when choosing runs, so that a new seed rarely changes the grid."""


@dataclass(frozen=True)
class Fantasy:
    """Runs still pending: how many at which size."""

    size: int
    runs: int


class Belief:
    """The posterior of one mix, reduced to what choosing the next run needs."""

    def __init__(self, curves: Curves, log_likelihood: Floats, sizes: Sequence[int]) -> None:
        self.curves = curves
        self.sizes = tuple(sizes)
        posterior = Posterior(curves, log_likelihood)
        self.low, self.median, self.high = posterior.quantiles(curves.relative, (TAIL, 0.5, 1 - TAIL))
        self.above = posterior.probability_above(sizes[-1])
        self.below = posterior.probability_below(sizes[0])
        self.top = posterior.mean_top()
        self._set_marginals(posterior)
        self._alone: dict[int, Floats] = {}

    @property
    def width(self) -> float:
        """Width of the 90 % interval of the transition, in ln size."""
        return self.high - self.low

    def _set_marginals(self, posterior: Posterior) -> None:
        marginal_MKL = posterior.marginal
        weight_MK = marginal_MKL.sum(axis=2)
        lapse_MK = (marginal_MKL @ LAPSES) / np.maximum(weight_MK, 1e-300)
        self.weight_D = np.append(weight_MK.ravel(), posterior.flat)
        self._kept_D = np.append(1 - lapse_MK.ravel(), np.ones(len(LUCK)))
        # Where each curve crosses, with floor and asymptote at their means: these hardly move it.
        floor = posterior.mean_floor()
        share = (LEVEL * self.top - floor) / (self.top - floor)
        offset = math.log(share / (1 - share)) if 0.02 < share < 0.98 else 0.0
        place_MK = self.curves.midpoints[:, None] + offset / SLOPES
        # A transition outside the sizes is reported as just that: how far outside need not be found out.
        least, most = math.log(self.sizes[0]) - BIN, math.log(self.sizes[-1]) + BIN
        place_D = np.append(np.clip(place_MK.ravel(), least, most), np.full(len(LUCK), most))
        bin_D = np.floor(place_D / BIN)
        self._order = np.argsort(bin_D, kind="stable")
        self._starts = np.flatnonzero(np.append(True, np.diff(bin_D[self._order]) > 0))

    @cached_property
    def learns(self) -> Floats:
        """Probability that a run at each size learns, curve by curve."""
        share_CD = np.stack(
            [np.append(self.curves.expected_share(size).ravel(), np.maximum(LUCK, STRAY)) for size in self.sizes]
        )
        learns: Floats = np.clip(share_CD * self._kept_D, 1e-6, 1 - 1e-6)
        return learns

    @cached_property
    def predicted(self) -> Floats:
        """Probability that a run at each size learns."""
        predicted: Floats = self.learns @ self.weight_D
        return predicted

    def gains(self, pending: Sequence[Fantasy], runs: int) -> Floats:
        """Mutual information, in nats, between the transition and ``runs`` more runs at each size.

        Pending runs count as soft labels: each is taken to end as is predicted for its size now.
        """
        if pending:
            return self._gains(self._imagine(pending), runs)
        if runs not in self._alone:
            self._alone[runs] = self._gains(self.weight_D, runs)
        return self._alone[runs]

    def _gains(self, weight_D: Floats, runs: int) -> Floats:
        learns_CD = self.learns
        if runs == 1:
            outcomes = [learns_CD, 1 - learns_CD]
        else:
            outcomes = [
                math.comb(runs, count) * learns_CD**count * (1 - learns_CD) ** (runs - count)
                for count in range(runs + 1)
            ]
        in_bin_B = np.add.reduceat(weight_D[self._order], self._starts)
        gain_C = np.zeros(len(self.sizes))
        for outcome_CD in outcomes:
            joint_CD = (outcome_CD * weight_D)[:, self._order]
            joint_CB = np.add.reduceat(joint_CD, self._starts, axis=1)
            total_C = joint_CB.sum(axis=1, keepdims=True)
            ratio_CB = joint_CB / np.maximum(total_C * in_bin_B, 1e-300)
            gain_C += (joint_CB * np.log(np.maximum(ratio_CB, 1e-300))).sum(axis=1)
        return gain_C

    def _imagine(self, pending: Sequence[Fantasy]) -> Floats:
        log_D = np.zeros_like(self.weight_D)
        for fantasy in sorted(pending, key=lambda fantasy: fantasy.size):
            place = self.sizes.index(fantasy.size)
            learns_D, predicted = self.learns[place], self.predicted[place]
            log_D += fantasy.runs * (predicted * np.log(learns_D) + (1 - predicted) * np.log1p(-learns_D))
        weight_D: Floats = self.weight_D * np.exp(log_D - log_D.max())
        weight_D /= weight_D.sum()
        return weight_D


@dataclass(frozen=True)
class Choice:
    """The next run: how many ``runs`` at which ``size``, the information expected of them (``gain``, nats), and
    that divided by cost ** THRIFT (``score``)."""

    size: int
    runs: int
    gain: float
    score: float


def best_choice(
    belief: Belief, pending: Sequence[Fantasy], free: Sequence[int], costs: CostModel, most: int
) -> Choice | None:
    """The best of the sizes in ``free`` and of stacks of up to ``most`` runs; None where no size is free.

    Where a single run gives nearly all the information, as it does far from the transition, a stack is not worth its
    overhead.
    """
    free_C = np.array([size in free for size in belief.sizes])
    if not free_C.any():
        return None
    counts = sorted({*(2**power for power in range(most.bit_length()) if 2**power <= most), most})
    choices = [_best_size(belief, pending, free_C, costs, runs) for runs in counts]
    return max(choices, key=lambda choice: choice.score)


def _best_size(
    belief: Belief, pending: Sequence[Fantasy], free_C: NDArray[np.bool_], costs: CostModel, runs: int
) -> Choice:
    gain_C = belief.gains(pending, runs)
    score_C = gain_C / np.array([stack_cost(runs) * costs.cost(size) for size in belief.sizes]) ** THRIFT
    telling_C = free_C & (gain_C >= TELLING * gain_C[free_C].max())
    place = int(np.argmax(np.where(telling_C, score_C, -np.inf)))
    last = len(belief.sizes) - 1
    if belief.above >= LIKELY_ABOVE and telling_C[last] and gain_C[last] >= NEARLY * gain_C[place]:
        # Needed anyway before "above" is declared.
        place = last
    return Choice(belief.sizes[place], runs, float(gain_C[place]), float(score_C[place]))


@dataclass(frozen=True)
class MixView:
    """One mix: what is ``known`` of it, as evidence, and the belief that follows from it. ``ended`` counts its finished
    runs, failed ones too."""

    mix: str
    known: list[Known]
    points: tuple[Point, ...]
    ended: int
    evidence: Evidence
    belief: Belief

    @cached_property
    def learned(self) -> dict[int, bool]:
        """For each size tested, ascending, whether it learned in the mean."""
        return learned_sizes(self.points, LEVEL * self.belief.top)

    @cached_property
    def bracket(self) -> tuple[int | None, int | None]:
        """The largest size tested that failed below the median and the smallest that learned above it."""
        under = [size for size, good in self.learned.items() if not good and math.log(size) <= self.belief.median]
        over = [size for size, good in self.learned.items() if good and math.log(size) >= self.belief.median]
        return max(under, default=None), min(over, default=None)

    @property
    def spent(self) -> float:
        """Cost of the finished runs."""
        return sum(seen.cost for _, seen in self.known if seen is not None)

    def __str__(self) -> str:
        # How well it is known, not where it lies: that is the verdict's to say, in one place and in one way.
        factor = float(np.exp(self.belief.width))
        return f"known to a factor of {factor:.2g}" if math.isfinite(factor) else "no interval yet"


def view_of(problem: Problem, known: list[Known], mix: str, kept: MixView | None) -> MixView:
    """Return evidence and belief about a mix from its results. ``kept``, the view of the last call, is reused as far as
    it still holds: at every decision all mixes are looked at, of which one at most has changed."""
    if kept is not None and kept.known == known:
        return kept
    seen = tuple(points_of(known))
    ended = sum(request.is_evidence for request, _ in known)
    floor = float(np.mean([point.floor for point in seen])) if seen else 0.0
    curves = curves_for(problem.sizes, FLOOR_STEP * round(floor / FLOOR_STEP))
    new, evidence = list(seen), Evidence.none(curves)
    if kept is not None and kept.evidence.curves is curves and set(kept.points) <= set(seen):
        # Log likelihoods are rounded so that sums are exact: adding to one is the same as starting afresh.
        counted = set(kept.points)
        new, evidence = [point for point in seen if point not in counted], kept.evidence
    evidence = evidence.plus(new)
    return MixView(mix, known, seen, ended, evidence, Belief(curves, evidence.total, problem.sizes))
