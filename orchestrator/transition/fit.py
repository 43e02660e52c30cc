"""The paper's estimator, a logistic in ln size fitted by least squares (arXiv 2505.18369, section 2), and the curves
without a transition: those that level off too low, and sizes that may be learned all the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import minimum_filter
from scipy.optimize import least_squares
from scipy.special import bdtr, bdtrc, expit
from scipy.stats import hypergeom

from orchestrator.transition.curves import LAPSES
from orchestrator.transition.types import LEVEL, PLATEAU, SCATTER, Fit, Point

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
LEVELLED = 0.95
"""A fitted curve has levelled off where it is at this share of its asymptote."""
CHANCE = 0.05
"""Runs under the plateau level are put down to lapses unless that many are less likely than this,"""
NO_CHANCE = 0.001
"""or, where most runs at the largest sizes are above the level, unless as many failures there are less likely than
this."""
TOP = 2.0
"""The largest sizes lie within this factor of the largest of all."""
STANDS_OUT = 2 * MIN_RISE
"""Runs of all sizes alike have levelled off where their mean is this far above the best constant answer."""
HALF_LEARNED = 0.45
"""An accuracy from which on it is worth looking whether more size helps; under it a task is as good as not learned."""
FALL = 0.01
"""A curve falls again if as many failures beyond sizes that learn are less likely than this."""
STRETCH = 1.4
"""Runs show a level where their sizes lie this factor apart."""


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
    lowest_around = minimum_filter(errors, size=3, mode="nearest")
    others = sorted((errors[row, column], row, column) for row, column in np.argwhere(errors == lowest_around))
    for _, row, column in others:
        if all(max(abs(row - r), abs(column - c)) > 1 for r, c in basins):
            basins.append((row, column))
    return [np.array([midpoints[r], slopes[c], floor[r, c], asymptote[r, c]]) for r, c in basins[:STARTS]]


def plateau(fitted: Fit | None, points: Sequence[Point], sizes: Sequence[int]) -> float | None:
    """The accuracy that ``points`` (ascending) level off at where that is under :data:`PLATEAU`, else None.

    ``fitted`` is the curve through them. The largest of the candidate ``sizes`` has to be tested, and the mean at the
    largest ones under the plateau; and either most runs there are, or failures there are beyond all chance.
    """
    if not points or points[-1].size < max(sizes):
        return None
    return _level(fitted, points)


def levelling(fitted: Fit | None, points: Sequence[Point]) -> bool:
    """True if accuracy seems to level off too low as far as sizes were tested: larger ones are worth a look.

    Most runs have to lie in between themselves: where some learn and some do not, their mean is no level.
    """
    if not points or _level(fitted, points) is None:
        return False
    levelled = _levelled(fitted, points)
    between = [HALF_LEARNED <= point.accuracy < PLATEAU - SCATTER for point in levelled]
    return float(np.mean(between)) > 0.5 and levelled[-1].size >= STRETCH * levelled[0].size


def _level(fitted: Fit | None, points: Sequence[Point]) -> float | None:
    """The level, under :data:`PLATEAU`, of the runs at the largest sizes tested; None where they may be on their way up
    or above it but for chance."""
    levelled = _levelled(fitted, points)
    if not levelled or levelled[-1].size < points[-1].size:
        return None
    level = float(np.mean([point.accuracy for point in levelled])) if fitted is None else fitted.asymptote
    last = [point for point in levelled if TOP * point.size >= points[-1].size]
    if level >= PLATEAU or float(np.mean([point.accuracy for point in last])) >= PLATEAU - SCATTER:
        return None
    mostly_low = 2 * sum(_is_low(point) for point in last) > len(last)
    sure = _chance(levelled) < CHANCE if mostly_low else _chance(last) < NO_CHANCE
    return level if sure else None


def _is_low(point: Point) -> bool:
    return point.accuracy < PLATEAU - SCATTER


def _chance(points: Sequence[Point]) -> float:
    """The probability that as many runs as these, or more, lapse of so many."""
    return float(bdtrc(sum(map(_is_low, points)) - 1, len(points), LAPSES[-1]))


def _levelled(fitted: Fit | None, points: Sequence[Point]) -> list[Point]:
    """The runs at sizes where the curve through all has levelled off: all of them where there is no curve, but each got
    what no constant answer explains."""
    if fitted is not None:
        return [point for point in points if fitted.accuracy(point.size) >= LEVELLED * fitted.asymptote]
    above = [point.accuracy - point.floor for point in points]
    return list(points) if min(above) >= MIN_RISE and float(np.mean(above)) >= STANDS_OUT else []


def contested(points: Sequence[Point], plateau: float | None = None) -> list[int]:
    """The sizes under the largest tested that may be learned by most seeds whatever becomes of the largest, ascending.

    That is where a run learned and too few failed beside it to rule out that :data:`LEVEL` of all seeds learn. A run
    learned that reached :data:`LEVEL` and is clearly above the ``plateau``, where accuracy levels off at one.
    """
    bar = LEVEL if plateau is None else max(LEVEL, min(plateau + 2 * SCATTER, PLATEAU - SCATTER))
    found = []
    for size in sorted({point.size for point in points})[:-1]:
        learned = [point.accuracy >= bar for point in points if point.size == size]
        if any(learned) and float(bdtr(sum(learned), len(learned), LEVEL)) >= CHANCE:
            found.append(size)
    return found


def falls(points: Sequence[Point], level: float) -> bool:
    """True if larger sizes fail where smaller ones learned (accuracy ``level``), beyond chance.

    Any neighbouring sizes are held against any next ones above them: Fisher's exact test, one-sided, the smallest p of
    all pairs at most :data:`FALL`.
    """
    sizes = sorted({point.size for point in points})
    tried_S = np.array([sum(point.size == size for point in points) for size in sizes])
    good_S = np.array([sum(point.size == size and point.accuracy >= level for point in points) for size in sizes])
    tried, good = np.append(0, tried_S.cumsum()), np.append(0, good_S.cumsum())
    i, j, k = (place.ravel() for place in np.meshgrid(*[np.arange(len(sizes) + 1)] * 3, indexing="ij"))
    ordered = (i < j) & (j < k)
    i, j, k = i[ordered], j[ordered], k[ordered]
    if not len(i):
        return False
    p = hypergeom.sf(good[j] - good[i] - 1, tried[k] - tried[i], good[k] - good[i], tried[j] - tried[i])
    return bool(p.min() <= FALL)
