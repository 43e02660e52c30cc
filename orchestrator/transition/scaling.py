"""A power law through several transitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.transition.types import QUANTILES, Density

Floats = NDArray[np.float64]

DRAWS = 4000
"""Draws behind the exponent's interval."""


@dataclass(frozen=True)
class Place:
    """A transition's posterior at one value (positive) of what varies; ``largest`` is the largest size to choose, and
    ``beyond`` says that the transition was found to lie above it."""

    value: float
    density: Density
    largest: float
    beyond: bool


@dataclass(frozen=True)
class Scaling:
    """transition ~ value ** exponent, over ``places`` values; ``low`` and ``high`` are the exponent's interval.

    ``bounded`` says that some transition lies beyond the sizes, or may at 90 %, and was counted at the largest: the
    true exponent may then be further from what is said.
    """

    exponent: float
    low: float
    high: float
    places: int
    bounded: bool


def scaling(places: Sequence[Place], rng: np.random.Generator) -> Scaling | None:
    """The exponent with its interval; None for fewer than two different values with a transition within the sizes.

    A random-effects regression of ln size on ln value (Thompson and Sharp 1999, section 2): each transition is drawn
    from its posterior, and shifted by a draw of the scatter between places, whose variance is the method of moments'
    (DerSimonian and Laird 1986). What lies beyond the largest size is counted there.
    """
    if len({place.value for place in places if not place.beyond}) < 2:
        return None
    x = np.log([place.value for place in places])
    x -= x.mean()
    drawn_DP = np.stack([_draws(place, rng) for place in places], axis=1)
    variance_P = drawn_DP.var(axis=0)
    tau = _scatter(x, drawn_DP.mean(axis=0), variance_P)
    shifted = drawn_DP + rng.normal(size=drawn_DP.shape) * (tau or 0.0)
    slopes = shifted @ x / (x @ x)
    low, middle, high = (float(each) for each in np.quantile(slopes, QUANTILES))
    at_largest_P = (drawn_DP >= np.log([place.largest for place in places])).mean(axis=0)
    bounded = bool((at_largest_P > QUANTILES[0]).any())
    return Scaling(middle, low, high, len(places), bounded)


def _draws(place: Place, rng: np.random.Generator) -> Floats:
    """ln sizes from the posterior, spread evenly within their bins."""
    sizes = np.log([*place.density.sizes, place.largest])
    weights = np.array([*place.density.weights, place.density.above])
    chosen = rng.choice(len(sizes), size=DRAWS, p=weights / weights.sum())
    width = sizes[1] - sizes[0] if len(sizes) > 2 else 0.0
    spread = rng.uniform(-0.5, 0.5, size=DRAWS) * width
    drawn: Floats = np.minimum(sizes[chosen] + np.where(chosen < len(sizes) - 1, spread, 0.0), math.log(place.largest))
    return drawn


def _scatter(x: Floats, y: Floats, variance: Floats) -> float | None:
    """Standard deviation of the places around their line beyond their own variances; None where none can be seen."""
    if len(x) < 3:
        return None
    rest = y - y.mean() - (x @ y) / (x @ x) * x
    beyond = float(rest @ rest) / (len(x) - 2) - float(variance.mean())
    return math.sqrt(max(beyond, 0.0))
