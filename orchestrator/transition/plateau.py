"""Curves without a transition: those that level off too low, those that fall again, and sizes that may be learned all
the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import bdtr, bdtrc

from orchestrator.transition.curves import LAPSES
from orchestrator.transition.logistic import MIN_RISE
from orchestrator.transition.types import LEVEL, PLATEAU, SCATTER, Fit, Point

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
WIDEST = 12
"""Sizes on either side of a fall, at most."""
STRETCH = 1.4
"""Runs show a level where their sizes lie this factor apart."""


def plateau(fitted: Fit | None, points: Sequence[Point], sizes: Sequence[int]) -> float | None:
    """The accuracy that ``points`` (ascending) level off at where that is under :data:`PLATEAU`, else None.

    ``fitted`` is the curve through them. The largest of the candidate ``sizes`` has to be tested, runs be levelled over
    a factor :data:`STRETCH`, and the mean at the largest ones under the plateau; and either most runs there are, or
    failures there are beyond all chance.
    """
    if not points or points[-1].size < max(sizes):
        return None
    levelled = _levelled(fitted, points)
    return _level(fitted, points, levelled) if _stretches(levelled) else None


def levelling(fitted: Fit | None, points: Sequence[Point], sizes: Sequence[int]) -> bool:
    """True if accuracy seems to level off too low as far as sizes were tested: larger ones are worth a look, and beside
    the largest of ``sizes`` the next one that would show a level.

    Most runs have to lie in between themselves: where some learn and some do not, their mean is no level.
    """
    levelled = _levelled(fitted, points) if points else []
    if not levelled or _level(fitted, points, levelled) is None:
        return False
    part = mostly_in_between([point.accuracy for point in levelled])
    return part and (_stretches(levelled) or points[-1].size >= max(sizes))


def mostly_in_between(accuracies: Sequence[float]) -> bool:
    """True if most runs get part of the way: more than half of them."""
    return 2 * sum(HALF_LEARNED <= accuracy < PLATEAU - SCATTER for accuracy in accuracies) > len(accuracies)


def beside(largest: int, sizes: Sequence[int]) -> int | None:
    """The next size under the ``largest`` tested that shows whether accuracy levels off there; None without one."""
    return max((size for size in sizes if largest >= STRETCH * size), default=None)


def _stretches(levelled: Sequence[Point]) -> bool:
    """True if runs show a level: one size alone may be on its way up."""
    return bool(levelled) and levelled[-1].size >= STRETCH * levelled[0].size


def _level(fitted: Fit | None, points: Sequence[Point], levelled: Sequence[Point]) -> float | None:
    """The level, under :data:`PLATEAU`, of the runs at the largest sizes tested; None where they may be on their way up
    or above it but for chance."""
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


def falls(points: Sequence[Point], level: float) -> int | None:
    """The size from which on sizes fail where smaller ones learned (accuracy ``level``), beyond chance; None if none
    do.

    Up to :data:`WIDEST` neighbouring sizes are held against as many next ones above them: Fisher's exact test,
    one-sided, the smallest p of all pairs at most :data:`FALL`.
    """
    sizes = sorted({point.size for point in points})
    tried_S = np.array([sum(point.size == size for point in points) for size in sizes])
    good_S = np.array([sum(point.size == size and point.accuracy >= level for point in points) for size in sizes])
    tried, good = np.append(0, tried_S.cumsum()), np.append(0, good_S.cumsum())
    windows = [
        (i, j, k)
        for j in range(1, len(sizes))
        for i in range(max(0, j - WIDEST), j)
        for k in range(j + 1, min(len(sizes), j + WIDEST) + 1)
    ]
    if not windows:
        return None
    i, j, k = np.array(windows).T
    from scipy.stats import hypergeom  # Takes .8 s to import.

    p = hypergeom.sf(good[j] - good[i] - 1, tried[k] - tried[i], good[k] - good[i], tried[j] - tried[i])
    return sizes[j[p.argmin()]] if p.min() <= FALL else None
