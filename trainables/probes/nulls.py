"""Null distributions of probes, matched to a result in size and in how it was computed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trainables.contract.tables import Integers

OTHERS = 19
"""Maximum number of other groupings to compare a grouping with. With all of them, p is at least .05."""


def p_value(value: float, null: Sequence[float] | NDArray[np.float64]) -> float:
    """Return the permutation test's p: the share of ``null`` and ``value`` that is at least ``value``."""
    return float(1 + (np.asarray(null) >= value - 1e-12).sum()) / (1 + len(null))


def other_groupings(labels: Integers, rng: np.random.Generator, most: int = OTHERS) -> list[Integers]:
    """Return other groupings with the group sizes of ``labels`` [n].

    Return all of them if there are at most ``most``, which makes :func:`p_value` exact, otherwise a random sample.
    """
    wanted = min(most, grouping_count(labels) - 1)
    # Groupings are equal if they put the same pairs of items into one group, whatever their labels are.
    groupings = {(labels[:, None] == labels).tobytes(): labels}
    while len(groupings) <= wanted:
        drawn = rng.permutation(labels)
        groupings.setdefault((drawn[:, None] == drawn).tobytes(), drawn)
    return list(groupings.values())[1:]


def grouping_count(labels: Sequence[int] | Integers) -> int:
    """Return the number of groupings into groups of the same sizes, including this one: ten for halves of six items."""
    sizes = np.unique(labels, return_counts=True)[1].tolist()
    alike = math.prod(map(math.factorial, Counter(sizes).values()))
    return math.factorial(len(labels)) // math.prod(map(math.factorial, sizes)) // alike
