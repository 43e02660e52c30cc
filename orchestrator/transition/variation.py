"""How much of the way transitions differ is the recipe's, the mix's, and the seeds'."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestrator.transition.types import Density

Floats = NDArray[np.float64]

DRAWS = 2000
"""Redrawn tables behind the interval of a share."""


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
    noise = rng.normal(size=(DRAWS, *mean_RM.shape)) * np.sqrt(variance_RM)
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
