"""The probability that a run of a mix learns, by size, as far as runs that learned or did not say so.

A small posterior over logistic curves with lapses. It predicts single runs: evidence is weighed by the prediction, and
the searcher draws curves from it. Estimates of transitions come from :mod:`orchestrator.transition.posterior`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SLOPES = np.array([3.0, 6.0, 12.0, 24.0, 48.0])
"""Slopes of the curves, per unit of ln size."""
LAPSES = np.array([0.02, 0.1, 0.25])
"""Probabilities that a run fails although its size is large enough."""
REACH = math.log(24)
"""Midpoints reach this far to both sides of the first size, in ln size: from 1/24 of it to 24 times as large."""
STEP = 0.05
"""Distance between two midpoints, in ln size."""
LEAST, MOST = 0.01, 0.99
"""Every curve stays between these probabilities: no single run rules a curve out."""


class Chances:
    """The posterior of one mix. ``around`` is a size near which its curve may rise, such as that of its first run."""

    def __init__(self, around: float) -> None:
        middle = math.log(around)
        self._midpoints = middle + np.arange(-REACH, REACH + STEP / 2, STEP)
        self._log_weights = np.zeros(len(self._midpoints) * len(SLOPES) * len(LAPSES))

    def add(self, size: float, learned: bool) -> None:
        """Count a run in."""
        curves = self._curves(size)
        self._log_weights += np.log(curves if learned else 1 - curves)

    def predict(self, size: float) -> float:
        """Return the probability that the next run at a size learns."""
        return float(self._weights() @ self._curves(size))

    def draw(self, sizes: Sequence[float], uniform: Floats) -> Floats:
        """Draw curves, one for each number of ``uniform`` in [0, 1): draws x sizes."""
        cumulative = np.cumsum(self._weights())
        places = np.minimum(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"), len(cumulative) - 1)
        return np.stack([self._curves(size)[places] for size in sizes], axis=1)

    def _weights(self) -> Floats:
        weights: Floats = np.exp(self._log_weights - self._log_weights.max())
        weights /= weights.sum()
        return weights

    def _curves(self, size: float) -> Floats:
        return _curves(tuple(self._midpoints[[0, -1]]), len(self._midpoints), size)


@lru_cache(maxsize=4096)
def _curves(ends: tuple[float, float], count: int, size: float) -> Floats:
    """The probability to learn at a size on every curve: midpoints x slopes x lapses as one axis."""
    distance_M = math.log(size) - np.linspace(*ends, count)
    rise_MK = 1 / (1 + np.exp(-np.clip(SLOPES * distance_M[:, None], -50, 50)))
    curves: Floats = np.clip(rise_MK[:, :, None] * (1 - LAPSES), LEAST, MOST).ravel()
    return curves
