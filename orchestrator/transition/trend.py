"""Whether larger models learn less often."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, dropwhile

from orchestrator.transition.types import SizeShare

RARER = 0.01
"""Probability below which fewer learned runs at larger sizes count as a trend."""


def is_rarer_with_size(shares: Sequence[SizeShare]) -> bool:
    """Return whether learning becomes rarer with size, beyond chance.

    Starting at the smallest size with a learned run, try every split into smaller and larger sizes. The smallest p of
    Fisher's one-sided exact test decides.
    """
    # Small sizes that never learn are below the transition, so they are no sign of a trend.
    risen = list(dropwhile(lambda share: not share.learned, shares))
    if len(risen) < 2 or all(share.learned == share.tried for share in risen):
        return False
    tried, learned = (list(accumulate(getattr(share, kind) for share in risen)) for kind in ("tried", "learned"))
    return any(
        _fisher(good, smaller, learned[-1], tried[-1]) <= RARER
        for smaller, good in zip(tried[:-1], learned[:-1], strict=True)
    )


def _fisher(good: int, drawn: int, all_good: int, all_: int) -> float:
    """Return the probability that at least ``good`` of ``drawn`` runs learned, if they were drawn at random from
    ``all_`` runs, of which ``all_good`` learned."""
    # Integers make it exact, and scipy.stats would take .8 s to import.
    ways = (
        math.comb(all_good, count) * math.comb(all_ - all_good, drawn - count)
        for count in range(good, min(drawn, all_good) + 1)
    )
    return sum(ways) / math.comb(all_, drawn)
