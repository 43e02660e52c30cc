"""Scatter of single runs around a learning curve, and the sizes at which the curves of a grid cross a level.

A run that *learned* is near the asymptote, sometimes with mistakes. A run that *did not learn* is near the floor,
sometimes part of the way up. Other runs reach a *share* of the rise. Axes: F floors, A asymptotes, S shares.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, expit, logit, ndtr

from orchestrator.transition.types import Floats

Floats32 = NDArray[np.float32]

ASYMPTOTES = np.array([0.90, 0.93, 0.96, 0.99])
NEAR_FLOOR, NEAR_TOP = 0.06, 0.02
"""Standard deviations of accuracy for runs that did not learn, and for runs that did. The former is larger because
small tasks have small test sets."""
PARTLY, PARTLY_BELOW = 0.1, 0.75
"""Among runs that did not learn: the share that ended part of the way up, and the accuracy below which these runs end.
They do not count as learned, so they do not raise the mean accuracy of a curve."""
MISTAKEN, SHORTFALL = 0.05, (0.05, 0.06)
"""Among runs that learned: the share with mistakes, and the mean and deviation of their distance from the asymptote."""
OUTLIER = 0.03
"""Density of an accuracy that no curve explains."""
CONCENTRATION = 2.0
"""Parameter c of the distribution of the shares that runs learn, Beta(c s, c (1 - s)) around the curve's share s."""
SHARES = 8
"""Number of equal steps of the share. Accuracy has a distribution at 0, at 1, and around each step in between."""
BLUR = 0.03
"""Standard deviation of the accuracy of a run around its share of the rise."""
TABLE = 513
"""Number of points on the curve, evenly spaced in the logit, at which the beta distribution is tabulated."""
LOGITS = 12.0
"""Largest logit of the table."""
BINS = 4096
"""Number of bins of a crossing for quantiles, each about 0.002 in ln size."""


def normal(value: Any, mean: Any, deviation: Any) -> Any:
    """Return the density of a normal distribution."""
    scaled = (value - mean) / deviation
    return np.exp(-0.5 * (scaled * scaled)) / (deviation * math.sqrt(2 * math.pi))


def learned(accuracy: float) -> Floats:
    """Return the density of the accuracy of a run that learned: A."""
    mean, deviation = SHORTFALL
    mistaken_A = normal(accuracy, ASYMPTOTES - mean, deviation)
    density_A: Floats = (1 - MISTAKEN) * normal(accuracy, ASYMPTOTES, NEAR_TOP) + MISTAKEN * mistaken_A
    return density_A


def not_learned(accuracy: float, floors: Floats) -> Floats32:
    """Return the density of the accuracy of a run that did not learn: F."""
    partly_F = ((floors < accuracy) & (accuracy < PARTLY_BELOW)) / (PARTLY_BELOW - floors)
    density_F: Floats = (1 - PARTLY) * normal(accuracy, floors, NEAR_FLOOR) + PARTLY * partly_F
    return density_F.astype(np.float32)


def part_of_the_way(accuracy: float, floors: Floats) -> Floats:
    """Return the density of the accuracy of a run around each step of the share except 0 and 1: S - 2 x F x A."""
    edges_S = (np.arange(SHARES) + 0.5) / SHARES
    rise_FA = ASYMPTOTES - floors[:, None]
    below_SFA = ndtr((accuracy - floors[:, None] - edges_S[:, None, None] * rise_FA) / BLUR)
    density_SFA: Floats = (below_SFA[:-1] - below_SFA[1:]) * SHARES / rise_FA
    return density_SFA


@lru_cache(maxsize=1)
def _table() -> tuple[Floats, Floats]:
    """Return logits of points on the curve, and the probability of each step of the share there: 513 and 513 x S."""
    places = np.linspace(-LOGITS, LOGITS, TABLE)
    at = expit(places)[:, None]
    edges_S = (np.arange(SHARES) + 0.5) / SHARES
    below = betainc(CONCENTRATION * at, CONCENTRATION * (1 - at), edges_S)
    steps = np.diff(np.concatenate([np.zeros_like(at), below, np.ones_like(at)], axis=1), axis=1)
    return places, steps


def share_probabilities(curve: Floats) -> Floats32:
    """Return the probability of each step of the share at points on the curve in (0, 1), along a new last axis S."""
    places, steps = _table()
    at = (logit(np.clip(curve, expit(-LOGITS), expit(LOGITS))) - places[0]) / (places[1] - places[0])
    below = np.minimum(at.astype(np.intp), TABLE - 2)
    weight = (at - below)[..., None]
    probabilities: Floats = steps[below] * (1 - weight) + steps[below + 1] * weight
    return probabilities.astype(np.float32)


class Crossing:
    """Crossing of each curve with a level, in ln size, in :data:`BINS` equal bins."""

    def __init__(self, place: Floats) -> None:
        self.start, stop = float(place.min()), float(place.max()) + 1e-9
        self.width = (stop - self.start) / BINS
        self.bin: NDArray[np.intp] = ((place - self.start) / self.width).astype(np.intp)

    def masses(self, weights: Floats) -> Floats:
        mass: Floats = np.bincount(self.bin, weights=weights, minlength=BINS).astype(np.float64)
        return mass
