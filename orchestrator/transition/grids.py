"""Axes of the two grids of learning curves, and where curves cross a level.

The curves of :data:`RISING` reach .9 or so. Those of :data:`LEVELLING` level off below it, because runs reach less or
because many of them never learn. Axes: L lapse, A asymptote.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orchestrator.transition.scatter import MISTAKEN, NEAR_TOP, SHORTFALL, Floats32, normal
from orchestrator.transition.types import Floats

ASYMPTOTES = np.array([0.90, 0.93, 0.96, 0.99])
"""Accuracies of runs that learned, on a rising curve."""
SLOPES = np.geomspace(2.5, 80.0, 9)
"""Slopes of a rising curve, per unit of ln size."""
LAPSES = np.array([0.005, 0.03, 0.06])
"""Shares of runs that fail to learn at any size, on a rising curve."""
PLATEAUS = np.linspace(0.48, 0.84, 7)
"""Accuracies of runs that learned, on a curve whose runs reach less than .9."""
NEAR_PLATEAU = 0.035
"""Standard deviation of the accuracy of runs that learned, on such a curve."""
MIDPOINT_STEP = 0.05
"""Distance between midpoints of rising curves, in ln size."""
BINS = 4096
"""Number of bins of a crossing for quantiles, each about 0.002 in ln size."""


class CurveGrid:
    """Axes of a grid of curves.

    Attributes:
        slopes: Slopes K, per unit of ln size.
        lapses: Shares of runs that fail to learn at any size, L.
        asymptotes: Accuracies of runs that learned, A.
        near_top: Standard deviation of the accuracy of runs that learned, A.
        step: Distance between midpoints, in ln size.
    """

    def __init__(self, slopes: Floats, lapses: Floats, asymptotes: Floats, near_top: Floats, step: float) -> None:
        self.slopes = slopes
        self.lapses = lapses
        self.asymptotes = asymptotes
        self.near_top = near_top
        self.step = step

    def learned(self, accuracy: float) -> Floats:
        """Return the density of the accuracy of a run that learned: A."""
        mean, deviation = SHORTFALL
        mistaken_A = normal(accuracy, self.asymptotes - mean, deviation)
        plain_A = normal(accuracy, self.asymptotes, self.near_top)
        density_A: Floats = (1 - MISTAKEN) * plain_A + MISTAKEN * mistaken_A
        return density_A

    def over_asymptotes(self, values: Floats32) -> Floats32:
        """Return values with an axis of asymptotes."""
        return np.repeat(values[..., None], len(self.asymptotes), axis=-1)


RISING = CurveGrid(SLOPES, LAPSES, ASYMPTOTES, np.full_like(ASYMPTOTES, NEAR_TOP), MIDPOINT_STEP)
"""Curves that reach about .9."""
LEVELLING = CurveGrid(
    np.geomspace(3.0, 60.0, 5),
    np.array([0.01, 0.15, 0.28, 0.41, 0.54]),
    np.concatenate([PLATEAUS, ASYMPTOTES]),
    np.concatenate([np.full_like(PLATEAUS, NEAR_PLATEAU), np.full_like(ASYMPTOTES, NEAR_TOP)]),
    step=0.1,
)
"""Curves that level off, on a coarser grid of about the same size."""


class Crossing:
    """Crossing of each curve with a level, in ln size, in :data:`BINS` equal bins. If ``other`` is set, its bins are
    used."""

    def __init__(self, place: Floats, other: Crossing | None = None) -> None:
        self.start = float(place.min())
        stop = float(place.max()) + 1e-9
        self.width = (stop - self.start) / BINS
        if other is not None:
            self.start = other.start
            self.width = other.width
        self.bin: NDArray[np.intp] = np.clip((place - self.start) / self.width, 0, BINS - 1).astype(np.intp)

    def masses(self, weights: Floats) -> Floats:
        """Return the weight of each bin, given the weights of the curves."""
        return np.bincount(self.bin, weights=weights, minlength=BINS).astype(np.float64)
