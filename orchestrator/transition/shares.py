"""Seeds tried and seeds that learned, size by size, and the size at which half of all seeds learn.

A run *learned* where its accuracy is at :data:`LEVEL` of the asymptote or more: the bar the transition itself uses, so
that both answers speak of the same thing. Where runs learn or do not, with nothing in between, the mean accuracy passes
the bar only at the size that some 80 % of the seeds learn; half of them do at a smaller one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.special import betainc, expit, logit

from orchestrator.transition.curves import LAPSES, SLOPES, Curves
from orchestrator.transition.scatter import ASYMPTOTES, CONCENTRATION, LOGITS, TABLE, Crossing, Floats
from orchestrator.transition.types import LEVEL, Point, SizeShare

ENDS = 0.25
"""Runs within this share of the way from the floor to the asymptote, or from its other end, are at an end."""
FEW = 4
"""Runs at the sizes that some seeds learn, at least, before their curve is called bimodal,"""
BETWEEN = 0.25
"""of which at most this share may lie in between."""


def size_shares(points: Sequence[Point], level: float) -> tuple[SizeShare, ...]:
    """For each size tested, ascending, how many of the seeds tried reached ``level``."""
    tried = Counter(point.size for point in points)
    learned = Counter(point.size for point in points if point.accuracy >= level)
    return tuple(SizeShare(size, learned[size], tried[size]) for size in sorted(tried))


def is_bimodal(points: Sequence[Point], level: float, asymptote: float, floor: float) -> bool:
    """True if runs learn or do not, with few in between.

    At the sizes that some seeds learn and others do not, of :data:`FEW` runs or more, at most :data:`BETWEEN` lie in
    the middle of the way from ``floor`` to ``asymptote``, further than :data:`ENDS` of it from either end.
    """
    mixed = [
        point.accuracy
        for share in size_shares(points, level)
        if 0 < share.learned < share.tried
        for point in points
        if point.size == share.size
    ]
    way = (np.array(mixed) - floor) / (asymptote - floor)
    return len(mixed) >= FEW and float(np.mean((way > ENDS) & (way < 1 - ENDS))) <= BETWEEN


@lru_cache(maxsize=16)
def half_crossing(curves: Curves) -> Crossing:
    """The size at which half of all seeds learn on each curve, kind by kind.

    All-or-nothing: where a run learns with that probability, lapses counted. Shares: where a run gets beyond the bar
    with that probability. Graded: where the curve itself passes the bar, for runs scatter evenly about it.
    """
    share_FA = (LEVEL * ASYMPTOTES - curves.floors[:, None]) / (ASYMPTOTES - curves.floors[:, None])
    bar_FA = np.clip(share_FA, 0.02, 0.98)
    wanted_L = 0.5 / (1 - LAPSES)
    shape = (len(LAPSES), *bar_FA.shape)
    all_or_nothing = np.broadcast_to(logit(wanted_L)[:, None, None], shape)
    graded = np.broadcast_to(logit(bar_FA), shape)
    offsets = np.stack([all_or_nothing, _beyond(bar_FA, wanted_L), graded])
    place = curves.midpoints[:, None, None, None, None] + offsets[:, None, None] / SLOPES[:, None, None, None]
    return Crossing(place.ravel())


def _beyond(bar_FA: Floats, wanted_L: Floats) -> Floats:
    """The logit of the place on the curve where a run's share of the way exceeds each bar with each probability."""
    places = np.linspace(-LOGITS, LOGITS, TABLE)
    at = expit(places)[:, None]
    beyond = 1 - betainc(CONCENTRATION * at, CONCENTRATION * (1 - at), bar_FA.ravel())
    found = np.stack([np.interp(wanted_L, beyond[:, cell], places) for cell in range(bar_FA.size)], axis=1)
    logits: Floats = found.reshape(len(wanted_L), *bar_FA.shape)
    return logits
