"""Where the curves of a grid cross a level, sorted once so that weights can be summed over ln size at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orchestrator.transition.kinds import Floats

BINS = 4096
"""Bins of a crossing in which quantiles are found: about 0.002 of ln size each."""


class Crossing:
    """Where curves (kinds taken together) cross a level, sorted into :data:`BINS` equal bins of ln size."""

    def __init__(self, place: Floats) -> None:
        self.start, stop = float(place.min()), float(place.max()) + 1e-9
        self.width = (stop - self.start) / BINS
        self.bin: NDArray[np.intp] = ((place - self.start) / self.width).astype(np.intp)

    def masses(self, weights: Floats) -> Floats:
        """The weight in each bin."""
        mass: Floats = np.bincount(self.bin, weights=weights, minlength=BINS).astype(np.float64)
        return mass
