"""Posterior of a transition over a grid of curves, and the mean curve with its band.

Both are posterior *medians* with the same weights, so the curve passes 80% of its asymptote at the transition.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.transition.curves import BINS, KINDS, LUCK, Crossing, curves_for
from orchestrator.transition.types import QUANTILES, Density, Floats, Point

DENSITY_BINS = 96
ACCURACY_BINS = 400
"""Number of bins of accuracy in [0, 1] for quantiles. A bin of 0.0025 is far below the resolution of a figure."""


class Posterior:
    """Probability of each curve of the grid, given the runs of one mix: at least one point, in any order. The candidate
    ``sizes`` of the search set the range of the prior."""

    def __init__(self, points: Sequence[Point], sizes: Sequence[int]) -> None:
        floor = float(np.mean([point.floor for point in points]))
        self.curves = curves_for([*sizes, *(point.size for point in points)], floor)
        unnormalized = self.curves.log_prior + self.curves.log_likelihood_of(points)
        weights = np.exp((unnormalized - unnormalized.max()).astype(np.float32)).astype(np.float64)
        total = float(weights.sum())
        rising = weights[: self.curves.cells]
        rising /= total
        self.weights: Floats = rising.reshape(len(KINDS), -1).sum(axis=0)
        """Weights of the rising curves, summed over kinds: M x K x L x F x A, flat."""
        self.flat = float((weights[self.curves.cells :].reshape(len(LUCK), -1).sum(axis=1) / total).sum())

    def _cumulative(self, crossing: Crossing) -> Floats:
        return np.minimum(np.cumsum(crossing.masses(self.weights)), 1.0)

    def quantiles(self, crossing: Crossing, probabilities: Sequence[float]) -> list[float]:
        """Return quantiles of a crossing in ln size, infinite if they fall on flat curves."""
        cumulative, wanted = self._cumulative(crossing), np.array(probabilities)
        index = np.searchsorted(cumulative, np.minimum(wanted, cumulative[-1]))
        places = crossing.start + (index + 0.5) * crossing.width
        return [float(value) for value in np.where(wanted > cumulative[-1], np.inf, places)]

    def probability_below(self, size: float) -> float:
        """Return the probability that the relative transition is below a size. Flat curves never count."""
        crossing = self.curves.relative
        edges = crossing.start + crossing.width * np.arange(1, BINS + 1)
        return float(np.interp(math.log(size), edges, self._cumulative(crossing), left=0.0))

    def mean_top(self) -> float:
        """Return the mean asymptote of mean accuracy, including lapses, given that the task is learned."""
        weight_LFA = self.weights.reshape(self.curves.shape[1:]).sum(axis=(0, 1))
        weight_LFA = weight_LFA / max(float(weight_LFA.sum()), 1e-300)
        return float((weight_LFA * self.curves.tops).sum())

    def density(self, crossing: Crossing) -> Density:
        """Return the distribution of a crossing over :data:`DENSITY_BINS` bins of the range of midpoints."""
        edges = np.linspace(self.curves.midpoints[0], self.curves.midpoints[-1], DENSITY_BINS + 1)
        places = crossing.start + (np.arange(BINS) + 0.5) * crossing.width
        index = np.clip(np.searchsorted(edges, places, side="right") - 1, 0, DENSITY_BINS)
        mass = np.bincount(index, weights=crossing.masses(self.weights), minlength=DENSITY_BINS + 1)
        centers = np.exp((edges[1:] + edges[:-1]) / 2)
        return Density(tuple(centers.tolist()), tuple(mass[:-1].tolist()), float(mass[-1]) + self.flat)


@dataclass(frozen=True)
class PosteriorCurve:
    """Mean accuracy over seeds at each of ``sizes``, given that the task is learned at some size: the posterior median
    ``middle`` and the interval from ``low`` to ``high``."""

    sizes: tuple[float, ...]
    middle: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def posterior_curve(points: Sequence[Point], candidates: Sequence[int], at: Sequence[float]) -> PosteriorCurve:
    """Return the mean curve at the sizes ``at`` (ascending), given runs of a search over the sizes ``candidates``."""
    posterior = Posterior(points, candidates)
    curves = posterior.curves
    floor_C = np.broadcast_to(curves.floors[:, None], curves.tops.shape).ravel()  # C: lapse, floor and asymptote
    rows = []
    for size in at:
        share_S1 = curves.share(size).ravel()[:, None]  # S: midpoint and slope
        accuracy_SC: Floats = floor_C + share_S1 * (curves.tops.ravel() - floor_C)
        place = np.clip((accuracy_SC * ACCURACY_BINS).astype(np.intp), 0, ACCURACY_BINS - 1)
        mass = np.bincount(place.ravel(), weights=posterior.weights, minlength=ACCURACY_BINS).cumsum()
        bins = np.minimum(np.searchsorted(mass, np.asarray(QUANTILES) * mass[-1]), ACCURACY_BINS - 1)
        rows.append([float(bin_ + 0.5) / ACCURACY_BINS for bin_ in bins])
    low, middle, high = zip(*rows, strict=True)
    return PosteriorCurve(tuple(map(float, at)), middle, low, high)
