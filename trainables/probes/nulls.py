"""Nulls of probes: as large as what was found, and found in the same way."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from trainables.contract.tables import Integers

OTHERS = 19
"""Other groupings that a grouping is compared with, at most: p is then .05 or more."""


def p_value(found: float, null: Sequence[float] | NDArray[np.float64]) -> float:
    """The share of the null's values, the one found counted in, that are as large: a permutation test."""
    return float(1 + (np.asarray(null) >= found - 1e-12).sum()) / (1 + len(null))


def other_groupings(labels: Integers, rng: np.random.Generator, most: int = OTHERS) -> list[Integers]:
    """Groupings of the same items into groups of the same sizes as ``labels`` [n], a label an item, none of them the
    same grouping: all there are, or ``most`` at random. A :func:`p_value` among all there are is exact."""
    wanted = min(most, grouping_count(labels) - 1)
    found = {_names_of(labels): labels}
    while len(found) <= wanted:
        drawn = rng.permutation(labels)
        found.setdefault(_names_of(drawn), drawn)
    return list(found.values())[1:]


def grouping_count(labels: Sequence[int] | Integers) -> int:
    """The groupings of so many items into groups of the same sizes, this one counted in: ten halvings of six, fifteen
    ways to make three pairs of them."""
    sizes = np.unique(labels, return_counts=True)[1].tolist()
    alike = math.prod(map(math.factorial, Counter(sizes).values()))
    return math.factorial(len(labels)) // math.prod(map(math.factorial, sizes)) // alike


def _names_of(labels: Integers) -> tuple[int, ...]:
    """The grouping whatever its labels are: groups counted in the order of their first items."""
    first = {label: place for place, label in enumerate(dict.fromkeys(labels.tolist()))}
    return tuple(first[label] for label in labels.tolist())
