"""Nulls of probes: as large as what was found, and found in the same way."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

OTHERS = 19
"""Other groupings that a grouping is compared with, at most: p is then .05 or more."""


def p_value(found: float, null: Sequence[float] | NDArray[np.float64]) -> float:
    """The share of the null's values, the one found counted in, that are as large: a permutation test."""
    return float(1 + (np.asarray(null) >= found - 1e-12).sum()) / (1 + len(null))


def other_groupings(labels: Integers, rng: np.random.Generator, most: int = OTHERS) -> list[Integers]:
    """Groupings of the same items into groups of the same sizes as ``labels`` [n], a label an item, none of them the
    same grouping: all there are, or ``most`` at random.

    Of six items there are
    nine other halvings and fourteen other ways to make three pairs. A :func:`p_value` among all there are is exact.
    """
    sizes = np.unique(labels, return_counts=True)[1]
    alike = math.prod(math.factorial(count) for count in np.unique(sizes, return_counts=True)[1])
    there_are = math.factorial(len(labels)) // math.prod(math.factorial(size) for size in sizes) // alike
    wanted = min(most, there_are - 1)
    found = {_names_of(labels): labels}
    while len(found) <= wanted:
        drawn = rng.permutation(labels)
        found.setdefault(_names_of(drawn), drawn)
    return list(found.values())[1:]


def _names_of(labels: Integers) -> tuple[int, ...]:
    """The grouping whatever its labels are: groups counted in the order of their first items."""
    first = {label: place for place, label in enumerate(dict.fromkeys(labels.tolist()))}
    return tuple(first[label] for label in labels.tolist())
