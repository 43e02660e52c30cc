"""Small Bayesian model of the probability that a run learns, by size.

The posterior is over logistic curves with lapses. The evidence uses its predictions of single runs, and the searcher
draws curves from it. Estimates of transitions come from :mod:`orchestrator.transition.estimate`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from orchestrator.transition.types import Floats

SLOPES = np.array([3.0, 6.0, 12.0, 24.0, 48.0])
"""Slopes of the curves, per unit of ln size."""
GRADUAL = 1.5
"""Slope of gradual curves, on which the share of runs that learn hardly changes over a factor of two in size."""
LAPSES = np.array([0.02, 0.1, 0.25])
"""Probabilities that a run does not learn, however large its model."""
REACH = math.log(24)
"""Maximum distance of a midpoint from the middle, in ln size: a factor of 24 on either side."""
STEP = 0.05
"""Maximum distance between two midpoints, in ln size."""
LEAST_PROBABILITY = 0.01
"""Lowest probability on every curve, so that a single run cannot rule a curve out."""
MOST_PROBABILITY = 0.99
"""Highest probability on every curve."""


class CurveGrid(NamedTuple):
    """Midpoints and slopes of the curves: the first and last midpoint in ln size, the number of midpoints, and slopes.

    Each combination has a curve for each of :data:`LAPSES`.
    """

    first: float
    last: float
    number: int
    slopes: tuple[float, ...]

    @property
    def midpoints(self) -> Floats:
        return np.linspace(self.first, self.last, self.number)


class Surrogate:
    """Posterior of one mix.

    Args:
        around: Size in the middle of the midpoints.
        reach: Maximum distance of a midpoint from ``around``, in ln size.
        spread: Standard deviation of the normal prior of midpoints, in ln size. By default the prior is flat.
        gradual: Prior probability that the curve is gradual, in [0, 1).
    """

    def __init__(self, around: float, reach: float = REACH, spread: float = math.inf, *, gradual: float = 0.0) -> None:
        middle = math.log(around)
        slopes = (*SLOPES.tolist(), GRADUAL) if gradual else tuple(SLOPES.tolist())
        self._grid = CurveGrid(middle - reach, middle + reach, 1 + 2 * math.ceil(reach / STEP), slopes)
        prior_M = -0.5 * ((self._grid.midpoints - middle) / spread) ** 2
        prior_MK = np.repeat(prior_M[:, None], len(slopes), axis=1)
        if gradual:
            prior_MK[:, -1] += math.log(len(SLOPES) * gradual / (1 - gradual))
        self._log_weights = np.repeat(prior_MK.ravel(), len(LAPSES))

    def add(self, size: float, learned: bool | None) -> None:
        """Update the posterior with a run. A failed run (None) changes nothing."""
        if learned is not None:
            self._log_weights += _log_likelihood(self._grid, size, learned)

    def branch(self) -> Surrogate:
        """Return an independent copy."""
        other = copy.copy(self)
        other._log_weights = self._log_weights.copy()
        return other

    def predict(self, size: float) -> float:
        """Return the probability that the next run at a size learns."""
        return float(self.weights() @ self.curves(size))

    def draw(self, sizes: Sequence[float], uniform: Floats, *, gradual: bool = True) -> Floats:
        """Draw curves, one for each number of ``uniform`` in [0, 1): draws x sizes. With ``gradual=False``, draw only
        from curves that are not gradual."""
        weights = self.weights()
        if not gradual and GRADUAL in self._grid.slopes:
            weights.reshape(-1, len(self._grid.slopes), len(LAPSES))[:, -1] = 0.0
        cumulative = np.cumsum(weights)
        index = np.minimum(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"), len(cumulative) - 1)
        drawn: Floats = _table(self._grid, tuple(sizes)).take(index, axis=0)
        return drawn

    def weights(self) -> Floats:
        """Return the posterior probability of each curve."""
        weights: Floats = np.exp(self._log_weights - self._log_weights.max())
        weights /= weights.sum()
        return weights

    def curves(self, size: float) -> Floats:
        """Return each curve's probability that a run at a size learns: midpoints x slopes x lapses as one axis."""
        return _curves(self._grid, size)

    def crossings(self, share: float) -> Floats:
        """Return the ln size at which each curve reaches a share of its top."""
        crossing_MK = self._grid.midpoints[:, None] + math.log(share / (1 - share)) / np.array(self._grid.slopes)
        return np.repeat(crossing_MK.ravel(), len(LAPSES))


@lru_cache(maxsize=4096)
def _curves(grid: CurveGrid, size: float) -> Floats:
    distance_M = math.log(size) - grid.midpoints
    rise_MK = 1 / (1 + np.exp(-np.clip(np.array(grid.slopes) * distance_M[:, None], -50, 50)))
    curves: Floats = np.clip(rise_MK[:, :, None] * (1 - LAPSES), LEAST_PROBABILITY, MOST_PROBABILITY).ravel()
    return _frozen(curves)


@lru_cache(maxsize=1024)
def _log_likelihood(grid: CurveGrid, size: float, learned: bool) -> Floats:
    """Return the log likelihood of a run's outcome by curve."""
    curves = _curves(grid, size)
    return _frozen(np.log(curves if learned else 1 - curves))


@lru_cache(maxsize=64)
def _table(grid: CurveGrid, sizes: tuple[float, ...]) -> Floats:
    """Return each curve's probabilities: curves x sizes."""
    return _frozen(np.stack([_curves(grid, size) for size in sizes], axis=1))


def _frozen(values: Floats) -> Floats:
    """Make an array read-only and return it, because several callers share it."""
    values.setflags(write=False)
    return values
