"""The mean accuracy that the posterior expects at each size, with its band: the curve that a transition is read from.

Transition and curve come from the same weights over the same curves, so that a figure which shows both shows one
estimator. The curve is the posterior *median*, as the transition is: half of the weight lies on curves that have passed
their 80 % at the median transition, so that the median curve passes it there, which the mean of steep curves does not.
(The least-squares curve, :class:`orchestrator.transition.types.Fit`, is the paper's; it passes it somewhere else.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.transition.curves import curves_for
from orchestrator.transition.kinds import Floats
from orchestrator.transition.posterior import Posterior, posterior_of
from orchestrator.transition.types import LEVEL, Point

BINS = 400
"""Bins of accuracy in [0, 1] in which quantiles are found: 0.0025 each, far below what a figure shows."""


@dataclass(frozen=True)
class PosteriorCurve:
    """Mean accuracy over seeds at each of ``sizes``: its posterior median and an interval, given that the task is
    learned at some size. ``level`` is :data:`LEVEL` of the posterior mean asymptote: the bar of the transition."""

    sizes: tuple[float, ...]
    middle: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    level: float

    def at(self, size: float) -> float:
        """The posterior median at a size; between those given, linear in ln size."""
        return float(np.interp(math.log(size), np.log(self.sizes), self.middle))


def posterior_curve(
    points: Sequence[Point], candidates: Sequence[int], at: Sequence[float], confidence: float = 0.9
) -> PosteriorCurve:
    """The curve that runs ``points`` of a search over the sizes ``candidates`` give at the sizes ``at``, ascending.

    Raises ``ValueError`` without a run or a size.
    """
    if len(points) == 0 or len(at) == 0:
        raise ValueError("a curve needs at least one run and one size")
    floor = float(np.mean([point.floor for point in points]))
    curves = curves_for([*candidates, *(point.size for point in points)], floor)
    posterior = posterior_of(points, curves)
    tail = (1 - confidence) / 2
    low, middle, high = zip(*(_quantiles(posterior, size, (tail, 0.5, 1 - tail)) for size in at), strict=True)
    return PosteriorCurve(tuple(map(float, at)), middle, low, high, LEVEL * posterior.mean_top())


def _quantiles(posterior: Posterior, size: float, probabilities: Sequence[float]) -> tuple[float, ...]:
    """Quantiles of the mean accuracy at one size, over all curves that rise."""
    curves = posterior.curves
    floor_C = np.broadcast_to(curves.floors[:, None], curves.tops.shape).ravel()  # C: lapse, floor and asymptote
    share_S1 = curves.share(size).ravel()[:, None]  # S: midpoint and slope
    accuracy_SC: Floats = floor_C + share_S1 * (curves.tops.ravel() - floor_C)
    place = np.clip((accuracy_SC * BINS).astype(np.intp), 0, BINS - 1)
    mass = np.bincount(place.ravel(), weights=posterior.weights, minlength=BINS).cumsum()
    found = np.searchsorted(mass, np.asarray(probabilities) * mass[-1])
    return tuple(float(bin_ + 0.5) / BINS for bin_ in np.minimum(found, BINS - 1))
