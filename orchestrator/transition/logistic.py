"""The paper's estimator: a logistic in ln size, fitted by least squares (arXiv 2505.18369, section 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from orchestrator.transition.types import Fit, Floats, Point

MIN_RISE = 0.1
"""Least rise of the mean accuracy between sizes for which a curve is fitted."""
MARGIN = math.log(2)
"""Largest distance of the midpoint outside the tested sizes, in ln size."""
MIN_SLOPE = 0.5
SHARPEST = 20.0
"""Largest slope, times the smallest gap in ln size: accuracy rises from 10 to 90 % within a quarter of the gap."""
STARTS = 4
"""Number of starts of the solver, which ends in the basin it starts in."""
SAME_COST = 1e-7
"""Largest difference in cost (half a sum of squares) between two results of the solver in one basin."""


def fit(points: Sequence[Point]) -> Fit | None:
    """Fit the logistic to accuracies, one point per run.

    The fitted floor is at least the mean floor of the points; the asymptote is at most 1.

    Returns:
        None for fewer than three points or two sizes, or if the mean accuracy does not rise by :data:`MIN_RISE` between
        any two sizes.
    """
    if len(points) < 3:
        return None
    ordered = sorted(points)
    x = np.log([float(point.size) for point in ordered])
    y = np.array([point.accuracy for point in ordered])
    levels = np.unique(x)
    if len(levels) < 2:
        return None
    means = np.array([y[x == level].mean() for level in levels])
    if (means[1:] - np.minimum.accumulate(means)[:-1]).max() < MIN_RISE:
        return None
    base = float(np.clip(np.mean([point.floor for point in ordered]), 0.0, 0.95))
    lower = np.array([levels[0] - MARGIN, MIN_SLOPE, base, base + 0.01])
    upper = np.array([levels[-1] + MARGIN, SHARPEST / np.diff(levels).min(), 0.99, 1.0])

    from scipy.optimize import least_squares  # Takes .2 s to import.

    def residuals(parameters: Floats) -> Any:
        return _curve(parameters, x) - y

    best = None
    for start in _starts(x, y, levels, base, lower, upper):
        inside = np.clip(start, lower + 1e-6, upper - 1e-6)
        result = least_squares(residuals, inside, bounds=(lower, upper), x_scale=[0.1, 5.0, 0.1, 0.1])
        # Falling curves are rejected. The margin keeps the first start if several reach the same basin.
        if result.x[3] > result.x[2] and (best is None or result.cost < best.cost - SAME_COST):
            best = result
    if best is None:
        return None
    midpoint, slope, floor, asymptote = (float(value) for value in best.x)
    return Fit(midpoint, slope, floor, asymptote) if asymptote - floor >= MIN_RISE / 2 else None


def _curve(parameters: Floats, x: Floats) -> Any:
    midpoint, slope, floor, asymptote = parameters
    return floor + (asymptote - floor) * expit(slope * (x - midpoint))


def _starts(x: Floats, y: Floats, levels: Floats, base: float, lower: Floats, upper: Floats) -> list[Floats]:
    """Return at most :data:`STARTS` starts from a coarse grid of midpoints and slopes, best first.

    Floor and asymptote are solved for exactly in each cell. The starts are the best cell and the best cells of other
    basins, which are no worse than their neighbors. A step from one size to the next starts midway between the two.
    """
    between = (levels[1:] + levels[:-1]) / 2
    midpoints = np.unique(np.concatenate([levels, between]))
    slopes = np.geomspace(max(2.0, lower[1]), upper[1], 8)
    share = expit(slopes[None, :, None] * (x - midpoints[:, None, None]))
    # Regression of y on share: y = floor + rise * share.
    centred = share - share.mean(axis=-1, keepdims=True)
    variance = (centred**2).sum(axis=-1)
    rise = (centred * (y - y.mean())).sum(axis=-1) / np.maximum(variance, 1e-12)
    floor = np.clip(y.mean() - rise * share.mean(axis=-1), base, 0.99)
    asymptote = np.clip(floor + rise, floor + 0.01, 1.0)
    predicted = floor[..., None] + (asymptote - floor)[..., None] * share
    errors = np.round(((predicted - y) ** 2).sum(axis=-1), 9)
    # Among equally good slopes take the middle one: least squares cannot leave a flat region.
    best = np.argwhere(errors == errors.min())
    basins = [tuple(best[len(best) // 2])]
    from scipy.ndimage import minimum_filter

    lowest_around = minimum_filter(errors, size=3, mode="nearest")
    others = sorted((errors[row, column], row, column) for row, column in np.argwhere(errors == lowest_around))
    for _, row, column in others:
        if all(max(abs(row - r), abs(column - c)) > 1 for r, c in basins):
            basins.append((row, column))
    return [np.array([midpoints[r], slopes[c], floor[r, c], asymptote[r, c]]) for r, c in basins[:STARTS]]
