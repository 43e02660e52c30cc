"""The posterior of a transition: every curve of the grid, weighed by the runs seen."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property

import numpy as np

from orchestrator.transition.crossing import BINS, Crossing
from orchestrator.transition.curves import KINDS, LUCK, Curves, Evidence
from orchestrator.transition.kinds import Floats
from orchestrator.transition.types import Density, Point

DENSITY_BINS = 96


def posterior_of(points: Iterable[Point], curves: Curves) -> Posterior:
    """The posterior of ``curves`` given these runs, in any order."""
    return Posterior(curves, Evidence.none(curves).plus(points).total)


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
    def marginal(self) -> Floats:
        """Weights over M x K x L: all that decides whether a run learns. Sums to 1 less the flat curves."""
        total: Floats = self._curves.sum(axis=(3, 4))
        return total

    @cached_property
    def _levels(self) -> Floats:
        """Weights over L x F x A, given that the task is learned. Sums to 1."""
        weights: Floats = self._curves.sum(axis=(0, 1))
        return weights / max(float(weights.sum()), 1e-300)

    def mean_top(self) -> float:
        """Posterior mean of the asymptote of mean accuracy, lapses included, given that the task is learned."""
        return float((self._levels * self.curves.tops).sum())

    def mean_floor(self) -> float:
        """Posterior mean of the floor, given that the task is learned."""
        return float((self._levels.sum(axis=(0, 2)) * self.curves.floors).sum())

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
