"""The two sizes that a mix is tuned at."""

from __future__ import annotations

import math
from collections.abc import Sequence

APART = 1.2
"""How far from a first estimate of a transition the sizes to tune at lie, at least, as a factor: about as far as a
sweep's interval reaches, so that most runs learn at the upper size and some do at the lower one."""


def sizes_around(sizes: tuple[int, ...], low: int | None, high: int | None) -> tuple[int, ...]:
    """A size a little below a transition and one a little above, of at least two ``sizes``, ascending.

    ``low`` is the largest that failed, ``high`` the smallest that learned, None where there is none: then the two sizes
    at the end beyond which the transition lies.
    """
    if high is None:
        return sizes[-2:]
    middle = math.sqrt(high * (high if low is None else low))
    below = max((place for place, size in enumerate(sizes) if size <= middle / APART), default=0)
    above = min((place for place, size in enumerate(sizes) if size >= middle * APART), default=len(sizes) - 1)
    return (sizes[below], sizes[max(above, below + 1)])


def possible_places(sizes: Sequence[int]) -> set[tuple[int, ...]]:
    """Every pair of sizes that :func:`sizes_around` may give."""
    brackets = zip([None, *sizes], [*sizes, None], strict=True)
    return {sizes_around(tuple(sizes), low, high) for low, high in brackets}
