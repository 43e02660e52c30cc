"""What is believed about one mix, and how much another run at each size would tell about its transition.

Letters: C candidate sizes, D curves (midpoint x slope as one axis, the flat ones last), B bins of the transition.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from orchestrator.transition.curves import LAPSES, LUCK, SLOPES, Curves
from orchestrator.transition.kinds import Floats
from orchestrator.transition.posterior import Posterior
from orchestrator.transition.types import LEVEL

BIN = 0.05
"""Width of the bins of the transition, in ln size: finer than any interval asked for. Everything below the sizes is one
bin. Everything above them, curves without a transition included, is another."""
STRAY = 0.01
"""Probability that a run looks as if it had learned where none does."""
TAIL = 0.05
ALIKE, OWN = 0.7, 0.5
"""How far apart, in ln size, transitions of related mixes are taken to lie, and the share of a prior that stays its
own."""


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

    def leaning(self, others: Sequence[Belief]) -> Belief:
        """The same with a prior drawn towards the transitions that ``others``, of the same sizes, believe in.

        A share :data:`OWN` of the prior stays as it was. This is for choosing runs only, never for what is reported or
        for when to stop: it would make mixes look alike, and how they differ is the question.
        """
        if not others:
            return self
        kernel_MM = np.exp(-0.5 * ((self.curves.midpoints[:, None] - self.curves.midpoints) / ALIKE) ** 2)
        kernel_MM /= kernel_MM.sum(axis=1, keepdims=True)
        curves = self.curves.midpoints.size, len(SLOPES)
        shared_MK = kernel_MM @ np.sum([other.weight_D[: -len(LUCK)].reshape(curves) for other in others], axis=0)
        shared_MK /= max(float(shared_MK.mean()), 1e-300)
        lean_D = np.append((OWN + (1 - OWN) * shared_MK).ravel(), np.ones(len(LUCK)))
        leaning = copy(self)
        leaning.weight_D = self.weight_D * lean_D / (self.weight_D * lean_D).sum()
        leaning._alone = {}
        leaning.__dict__.pop("predicted", None)
        return leaning

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
