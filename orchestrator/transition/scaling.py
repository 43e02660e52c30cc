"""Power law through several transitions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.transition.types import QUANTILES, Density, Floats

DRAWS = 4000
"""Number of draws for the interval of the exponent."""


@dataclass(frozen=True)
class PlacedTransition:
    """Posterior of a transition at one value of the varied setting.

    Attributes:
        value: Value of the setting, above 0.
        density: Posterior of the transition.
        largest: Largest candidate size.
        beyond: True if the transition was found to be above the largest size.
    """

    value: float
    density: Density
    largest: float
    beyond: bool


@dataclass(frozen=True)
class Scaling:
    """A power law: transition ~ value ** exponent.

    Attributes:
        low: Lower end of the exponent's interval.
        high: Upper end of the exponent's interval.
        places: Number of values of the setting.
        bounded: True if a transition, or its 90% interval, extends beyond the sizes. The transition then counts as the
            largest size, and the true exponent may be further away.
    """

    exponent: float
    low: float
    high: float
    places: int
    bounded: bool


def scaling(places: Sequence[PlacedTransition], rng: np.random.Generator) -> Scaling | None:
    """Return the exponent, or None if fewer than two different values have a transition within the sizes.

    This is a random-effects regression of ln size on ln value (Thompson and Sharp 1999, section 2). Each transition is
    drawn from its posterior and shifted by a draw of the scatter between values. The variance of the scatter comes from
    the method of moments (DerSimonian and Laird 1986). Transitions beyond the largest size count as that size.
    """
    if len({place.value for place in places if not place.beyond}) < 2:
        return None
    x = np.log([place.value for place in places])
    x -= x.mean()
    drawn_DP = np.stack([_draws(place, rng) for place in places], axis=1)
    tau = _scatter(x, drawn_DP.mean(axis=0), drawn_DP.var(axis=0))
    shifted = drawn_DP + rng.normal(size=drawn_DP.shape) * tau
    slopes = shifted @ x / (x @ x)
    low, middle, high = (float(slope) for slope in np.quantile(slopes, QUANTILES))
    at_largest_P = (drawn_DP >= np.log([place.largest for place in places])).mean(axis=0)
    bounded = bool((at_largest_P > QUANTILES[0]).any())
    return Scaling(middle, low, high, len(places), bounded)


def _draws(place: PlacedTransition, rng: np.random.Generator) -> Floats:
    """Draw ln sizes from the posterior of a transition. Draws beyond the largest size become that size."""
    sizes = np.log([*place.density.sizes, place.largest])
    weights = np.array([*place.density.weights, place.density.above])
    chosen = rng.choice(len(sizes), size=DRAWS, p=weights / weights.sum())
    width = sizes[1] - sizes[0] if len(sizes) > 2 else 0.0
    spread = rng.uniform(-0.5, 0.5, size=DRAWS) * width
    drawn: Floats = np.minimum(sizes[chosen] + np.where(chosen < len(sizes) - 1, spread, 0.0), math.log(place.largest))
    return drawn


def _scatter(x: Floats, y: Floats, variance: Floats) -> float:
    """Return the standard deviation of the transitions around their line, beyond their own variances. Two transitions
    always fit a line, so return 0."""
    if len(x) < 3:
        return 0.0
    rest = y - y.mean() - (x @ y) / (x @ x) * x
    beyond = float(rest @ rest) / (len(x) - 2) - float(variance.mean())
    return math.sqrt(max(beyond, 0.0))
