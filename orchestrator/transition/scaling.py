"""Several transitions together: a power law through them, and the shares of recipe, mix and seeds in their variance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.transition.types import Density

Floats = NDArray[np.float64]

DRAWS = 4000
"""Draws behind the exponent's interval."""
TABLES = 2000
"""Redrawn tables behind the interval of a share."""


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

    ``scatter`` is the standard deviation, in ln size, of transitions around the law beyond what their own intervals
    explain; None for two places, which any law fits. ``bounded`` says that some transition lies beyond the sizes and
    was counted at the largest: the true exponent may then be further from what is said.
    """

    exponent: float
    low: float
    high: float
    places: int
    scatter: float | None
    bounded: bool


def scaling(places: Sequence[Place], confidence: float, rng: np.random.Generator) -> Scaling | None:
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
    tail = (1 - confidence) / 2
    low, middle, high = (float(each) for each in np.quantile(slopes, (tail, 0.5, 1 - tail)))
    bounded = any(place.beyond for place in places)
    return Scaling(middle, low, high, len(places), tau, bounded)


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


@dataclass(frozen=True)
class Share:
    """A part of the variance, as a share in [0, 1], with its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Variation:
    """Shares of the variance of ln transition over a table of recipes and mixes.

    ``recipe`` and ``mix`` are what either changes on average, ``both`` what a mix gains or loses by the recipe besides
    (a synergy that depends on the recipe), ``seeds`` what the runs of other seeds would change: the posterior variance
    of a transition. ``deviation`` is the standard deviation of all together, in ln size. ``bounded`` says that some
    transition lay beyond the sizes and was counted at the largest.
    """

    recipe: Share
    mix: Share
    both: Share
    seeds: Share
    deviation: float
    bounded: bool


def variation(
    table: Sequence[Sequence[Density]], largest: float, confidence: float, rng: np.random.Generator
) -> Variation | None:
    """Components of variance of a two-way table, a row a recipe and a column a mix, each cell's own variance known.

    Estimated from mean squares (Searle, Casella and McCulloch 1992, Variance components, chapter 4), negative ones as
    0; intervals from tables redrawn around the one found. None for fewer than two recipes or mixes.
    """
    if len(table) < 2 or min(len(row) for row in table) < 2:
        return None
    moments = np.array([[_moments(cell, largest) for cell in row] for row in table])
    mean_RM, variance_RM = moments[..., 0], moments[..., 1]
    found = _components(mean_RM[None], variance_RM)[0]
    noise = rng.normal(size=(TABLES, *mean_RM.shape)) * np.sqrt(variance_RM)
    drawn_D4 = _shares(_components(mean_RM + noise, variance_RM))
    tail = (1 - confidence) / 2
    low, high = np.quantile(drawn_D4, (tail, 1 - tail), axis=0)
    parts = zip(_shares(found[None])[0], low, high, strict=True)
    recipe, mix, both, seeds = (Share(*(float(end) for end in part)) for part in parts)
    bounded = any(cell.above > 0.5 for row in table for cell in row)
    return Variation(recipe, mix, both, seeds, math.sqrt(float(found.sum())), bounded)


def _moments(density: Density, largest: float) -> tuple[float, float]:
    """Mean and variance of ln transition, what lies beyond ``largest`` counted there."""
    place = np.minimum(np.log([*density.sizes, largest]), math.log(largest))
    weight = np.array([*density.weights, density.above])
    weight /= weight.sum()
    mean = float(weight @ place)
    return mean, float(weight @ (place - mean) ** 2)


def _components(mean_DRM: Floats, variance_RM: Floats) -> Floats:
    """The variances recipe, mix, both, seeds of each table; D x 4."""
    _, recipes, mixes = mean_DRM.shape
    whole = mean_DRM.mean(axis=(1, 2), keepdims=True)
    by_recipe = mean_DRM.mean(axis=2, keepdims=True) - whole
    by_mix = mean_DRM.mean(axis=1, keepdims=True) - whole
    rest = mean_DRM - whole - by_recipe - by_mix
    square_recipe = mixes * (by_recipe**2).sum(axis=(1, 2)) / (recipes - 1)
    square_mix = recipes * (by_mix**2).sum(axis=(1, 2)) / (mixes - 1)
    square_rest = (rest**2).sum(axis=(1, 2)) / ((recipes - 1) * (mixes - 1))
    seeds = float(variance_RM.mean())
    both = np.maximum(square_rest - seeds, 0)
    recipe = np.maximum((square_recipe - seeds - both) / mixes, 0)
    mix = np.maximum((square_mix - seeds - both) / recipes, 0)
    components: Floats = np.stack([recipe, mix, both, np.full_like(both, seeds)], axis=1)
    return components


def _shares(components_D4: Floats) -> Floats:
    shares: Floats = components_D4 / np.maximum(components_D4.sum(axis=1, keepdims=True), 1e-300)
    return shares
