"""The paper's estimator: a logistic in ln size, fitted by least squares (arXiv 2505.18369, section 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from orchestrator.transition.types import Fit, Point

Floats = NDArray[np.float64]

MIN_RISE = 0.1
"""Accuracy has to rise by this much between sizes before there is a curve to fit."""
MARGIN = math.log(2)
"""Distance outside the tested sizes (in ln size) the midpoint may be fitted."""
MIN_SLOPE = 0.5
SHARPEST = 20.0
"""The steepest slope worth telling apart, times the smallest gap in ln size: 10 to 90 % within a quarter of it."""

STARTS = 4
"""Least squares ends in the basin it starts in: so many are tried."""
SAME_COST = 1e-7
"""Half a sum of squares: what two ends of the solver may differ by in one basin."""


def fit(points: Sequence[Point]) -> Fit | None:
    """Fit the logistic to accuracies, one point a run.

    The floor is at the mean constant-answer floor of the points or above it, the asymptote at most 1. None where
    there is no curve to fit: fewer than two sizes or three points, or mean accuracies at the sizes that rise by
    less than :data:`MIN_RISE` (everything learned, nothing learned).
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
    if not _rises(means):
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
        found = least_squares(residuals, inside, bounds=(lower, upper), x_scale=[0.1, 5.0, 0.1, 0.1])
        # A curve that falls is none. And better by more than the solver's own tolerance: the first start stands where
        # several end alike.
        if found.x[3] > found.x[2] and (best is None or found.cost < best.cost - SAME_COST):
            best = found
    if best is None:
        return None
    midpoint, slope, floor, asymptote = (float(value) for value in best.x)
    return Fit(midpoint, slope, floor, asymptote) if asymptote - floor >= MIN_RISE / 2 else None


def _rises(means: Floats) -> bool:
    """True if some size does better than a smaller one by :data:`MIN_RISE`."""
    return bool((means[1:] - np.minimum.accumulate(means)[:-1]).max() >= MIN_RISE)


def _curve(parameters: Floats, x: Floats) -> Any:
    midpoint, slope, floor, asymptote = parameters
    return floor + (asymptote - floor) * expit(slope * (x - midpoint))


def _starts(x: Floats, y: Floats, levels: Floats, base: float, lower: Floats, upper: Floats) -> list[Floats]:
    """The best of a coarse grid of midpoints and slopes, floor and asymptote solved for exactly at each, and the best
    of other basins: cells no worse than all around them. At most :data:`STARTS`, best first.

    Data that step from one size to the next land midway between the two.
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
    # Between equally good slopes the middle one: least squares cannot leave a flat region it starts in.
    best = np.argwhere(errors == errors.min())
    basins = [tuple(best[len(best) // 2])]
    from scipy.ndimage import minimum_filter

    lowest_around = minimum_filter(errors, size=3, mode="nearest")
    others = sorted((errors[row, column], row, column) for row, column in np.argwhere(errors == lowest_around))
    for _, row, column in others:
        if all(max(abs(row - r), abs(column - c)) > 1 for r, c in basins):
            basins.append((row, column))
    return [np.array([midpoints[r], slopes[c], floor[r, c], asymptote[r, c]]) for r, c in basins[:STARTS]]
