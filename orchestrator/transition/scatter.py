"""How the accuracies of single runs scatter around a curve of mean accuracy: densities by outcome of a run.

Axes: F floor, A asymptote, S share of the task that a run learns.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.transition.types import Floats

Floats32 = NDArray[np.float32]

NEAR_FLOOR = 0.06
"""Standard deviation of the accuracy of runs that did not learn. Small tasks have small test sets."""
NEAR_TOP = 0.02
"""Standard deviation of the accuracy of runs that learned, on a rising curve."""
PARTLY = 0.1
"""Share of the runs that did not learn whose accuracy rose anyway. They do not count as learned, so they do not raise
the mean accuracy of a curve."""
PARTLY_BELOW = 0.75
"""Highest accuracy of runs that did not learn but rose anyway."""
MISTAKEN = 0.05
"""Share of the runs that learned with mistakes."""
SHORTFALL = (0.05, 0.06)
"""Mean and standard deviation of the distance from the asymptote, for runs that learned with mistakes."""
OUTLIER = 0.03
"""Density of an accuracy that no curve explains."""
SETTLED = 0.8
"""Share of the way from the floor to a perfect accuracy that a run covers if it is settled as learned."""
NO_CURVE = 0.0015
"""Probability that no curve explains whether a run learned: :data:`OUTLIER` relative to the density at a peak."""
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
CLEAR = 0.08
""":data:`LEVEL` of a plateau must lie at least this far above the floor. Closer, noise alone carries runs past it."""
BETWEEN = 0.45
"""Scatter of runs on a graded curve, relative to s (1 - s) times the rise, where s is the share of the rise reached."""


def normal(value: Any, mean: Any, deviation: Any) -> Any:
    """Return the density of a normal distribution."""
    scaled = (value - mean) / deviation
    return np.exp(-0.5 * (scaled * scaled)) / (deviation * math.sqrt(2 * math.pi))


def not_learned(accuracy: float, floors: Floats) -> Floats32:
    """Return the density of the accuracy of a run that did not learn: F."""
    partly_F = ((floors < accuracy) & (accuracy < PARTLY_BELOW)) / (PARTLY_BELOW - floors)
    density_F: Floats = (1 - PARTLY) * normal(accuracy, floors, NEAR_FLOOR) + PARTLY * partly_F
    return density_F.astype(np.float32)


def part_of_the_way(accuracy: float, floors: Floats, asymptotes: Floats) -> Floats:
    """Return the density of the accuracy of a run around each step of the share except 0 and 1: S - 2 x F x A."""
    from scipy.special import ndtr

    edges_S = (np.arange(SHARES) + 0.5) / SHARES
    rise_FA = np.maximum(asymptotes - floors[:, None], CLEAR)  # Plateaus below have no prior.
    below_SFA = ndtr((accuracy - floors[:, None] - edges_S[:, None, None] * rise_FA) / BLUR)
    density_SFA: Floats = (below_SFA[:-1] - below_SFA[1:]) * SHARES / rise_FA
    return density_SFA


@lru_cache(maxsize=1)
def share_table() -> tuple[Floats, Floats]:
    """Return logits of points on the curve, and the probability of each step of the share there: 513 and 513 x S."""
    from scipy.special import betainc, expit

    logits = np.linspace(-LOGITS, LOGITS, TABLE)
    at = expit(logits)[:, None]
    edges_S = (np.arange(SHARES) + 0.5) / SHARES
    below = betainc(CONCENTRATION * at, CONCENTRATION * (1 - at), edges_S)
    steps = np.diff(np.concatenate([np.zeros_like(at), below, np.ones_like(at)], axis=1), axis=1)
    return logits, steps
