"""The posterior of a transition: every curve of the grid, weighed by the runs seen.

Also from it: the mean curve with its band. Transition and curve share weights: the curve is the posterior *median*, as
the transition is, and passes 80 % there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from orchestrator.transition.curves import KINDS, LUCK, Curves, curves_for
from orchestrator.transition.scatter import BINS, Crossing, Floats
from orchestrator.transition.types import QUANTILES, Density, Point

DENSITY_BINS = 96
ACCURACY_BINS = 400
"""Bins of accuracy in [0, 1] in which quantiles are found: 0.0025 each, far below what a figure shows."""


def posterior_of(points: Iterable[Point], curves: Curves) -> Posterior:
    """The posterior of ``curves`` given these runs, in any order."""
    return Posterior(curves, curves.log_likelihood_of(points))


class Posterior:
    """Weights over :class:`Curves`, from a summed log likelihood: kind by kind, and kinds taken together."""

    def __init__(self, curves: Curves, log_likelihood: Floats) -> None:
        self.curves = curves
        unnormalised = curves.log_prior + log_likelihood
        weights = np.exp((unnormalised - unnormalised.max()).astype(np.float32)).astype(np.float64)
        total = float(weights.sum())
        self.by_kind: Floats = weights[: curves.cells]
        self.by_kind /= total
        self.weights: Floats = self.by_kind.reshape(len(KINDS), -1).sum(axis=0)
        self.flat: Floats = weights[curves.cells :].reshape(len(LUCK), -1).sum(axis=1) / total
        # By the crossing itself, which is kept alive by it: another one could come to lie where a forgotten one lay.
        self._masses: dict[Crossing, Floats] = {}

    def _cumulative(self, crossing: Crossing) -> Floats:
        if crossing not in self._masses:
            weights = self.weights if len(crossing.bin) == len(self.weights) else self.by_kind
            self._masses[crossing] = np.minimum(np.cumsum(crossing.masses(weights)), 1.0)
        return self._masses[crossing]

    def quantiles(self, crossing: Crossing, probabilities: Iterable[float]) -> list[float]:
        """Quantiles of the crossing, in ln size; infinite where flat curves hold that much.

        The crossing is one of all curves kind by kind, or of curves that cross alike whatever their kind.
        """
        cumulative = self._cumulative(crossing)
        wanted = np.asarray(list(probabilities))
        index = np.searchsorted(cumulative, np.minimum(wanted, cumulative[-1]))
        places = crossing.start + (index + 0.5) * crossing.width
        return [float(value) for value in np.where(wanted > cumulative[-1], np.inf, places)]

    def probability_above(self, size: float) -> float:
        """Probability that the relative transition is larger than ``size``, flat curves included."""
        return 1 - self.probability_below(size)

    def probability_below(self, size: float) -> float:
        """Probability that the relative transition is smaller than ``size``."""
        crossing = self.curves.relative
        edges = crossing.start + crossing.width * np.arange(1, BINS + 1)
        return float(np.interp(math.log(size), edges, self._cumulative(crossing), left=0.0))

    @cached_property
    def _curves(self) -> Floats:
        """Weights with their axes: M x K x L x F x A."""
        return self.weights.reshape(self.curves.shape[1:])

    @cached_property
    def _levels(self) -> Floats:
        """Weights over L x F x A, given that the task is learned. Sums to 1."""
        weights: Floats = self._curves.sum(axis=(0, 1))
        return weights / max(float(weights.sum()), 1e-300)

    def mean_top(self) -> float:
        """Posterior mean of the asymptote of mean accuracy, lapses included, given that the task is learned."""
        return float((self._levels * self.curves.tops).sum())

    def density(self, crossing: Crossing) -> Density:
        """The crossing's distribution over :data:`DENSITY_BINS` equal bins of ln size, the range of midpoints."""
        edges = np.linspace(self.curves.midpoints[0], self.curves.midpoints[-1], DENSITY_BINS + 1)
        places = crossing.start + (np.arange(BINS) + 0.5) * crossing.width
        index = np.clip(np.searchsorted(edges, places, side="right") - 1, 0, DENSITY_BINS)
        mass = np.bincount(index, weights=crossing.masses(self.weights), minlength=DENSITY_BINS + 1)
        centres = np.exp((edges[1:] + edges[:-1]) / 2)
        return Density(
            tuple(float(size) for size in centres),
            tuple(float(part) for part in mass[:-1]),
            float(mass[-1]) + float(self.flat.sum()),
        )


@dataclass(frozen=True)
class PosteriorCurve:
    """Mean accuracy over seeds at each of ``sizes``: its posterior median and an interval, given that the task is
    learned at some size."""

    sizes: tuple[float, ...]
    middle: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def posterior_curve(points: Sequence[Point], candidates: Sequence[int], at: Sequence[float]) -> PosteriorCurve:
    """The curve that runs ``points`` of a search over the sizes ``candidates`` give at the sizes ``at``, ascending."""
    floor = float(np.mean([point.floor for point in points]))
    curves = curves_for([*candidates, *(point.size for point in points)], floor)
    posterior = posterior_of(points, curves)
    low, middle, high = zip(*(_quantiles(posterior, size, QUANTILES) for size in at), strict=True)
    return PosteriorCurve(tuple(map(float, at)), middle, low, high)


def _quantiles(posterior: Posterior, size: float, probabilities: Sequence[float]) -> tuple[float, ...]:
    """Quantiles of the mean accuracy at one size, over all curves that rise."""
    curves = posterior.curves
    floor_C = np.broadcast_to(curves.floors[:, None], curves.tops.shape).ravel()  # C: lapse, floor and asymptote
    share_S1 = curves.share(size).ravel()[:, None]  # S: midpoint and slope
    accuracy_SC: Floats = floor_C + share_S1 * (curves.tops.ravel() - floor_C)
    place = np.clip((accuracy_SC * ACCURACY_BINS).astype(np.intp), 0, ACCURACY_BINS - 1)
    mass = np.bincount(place.ravel(), weights=posterior.weights, minlength=ACCURACY_BINS).cumsum()
    found = np.searchsorted(mass, np.asarray(probabilities) * mass[-1])
    return tuple(float(bin_ + 0.5) / ACCURACY_BINS for bin_ in np.minimum(found, ACCURACY_BINS - 1))
