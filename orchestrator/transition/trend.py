"""Whether larger models learn less often."""

from __future__ import annotations

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
    risen = list(dropwhile(lambda share: not share.learned, shares))
    if len(risen) < 2 or all(share.learned == share.tried for share in risen):
        return False
    from scipy.stats import hypergeom  # Takes .8 s to import.

    tried, learned = (list(accumulate(getattr(share, kind) for share in risen)) for kind in ("tried", "learned"))
    return any(
        hypergeom.sf(good - 1, tried[-1], learned[-1], smaller) <= RARER
        for smaller, good in zip(tried[:-1], learned[:-1], strict=True)
    )
