"""Tasks as functions and as tables: the result of each task for every ordered tuple of N items.

``table[a, b, ...]`` is the result of a task of k arguments for items a, b, ...: an array [N] * k of codes. Codes below
N are the items; higher codes are other results.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
"""Array of items or codes."""
Function = Callable[[Integers], Integers]
"""A task as a function of items [..., k], k >= 2, to codes [...]."""


def fold(combine: Callable[[Integers, Integers], Integers], arguments: Integers) -> Integers:
    """Combine items [..., k] from the left, two at a time, and return [...]."""
    return reduce(combine, np.moveaxis(arguments, -1, 0))


def entropy(values: Integers) -> float:
    """Return the entropy of the values in an array of any shape, in nats."""
    shares = np.unique(values, return_counts=True)[1] / values.size
    return float(-(shares * np.log(shares)).sum())


def group_of(codes: Integers, labels: Integers, items: int) -> Integers:
    """Return the label in ``labels`` [N] of each code below N = ``items``, and a separate group for each higher
    code."""
    count = int(labels.max()) + 1
    others = np.arange(items, max(items, int(codes.max()) + 1)) - items + count
    grouped: Integers = np.concatenate([labels, others])[codes]
    return grouped


def respects(table: Integers, labels: Integers, items: int) -> bool:
    """Return True if a result's group in a table [N] * k is a function of the arguments' groups, and not constant."""
    out = group_of(table, labels, items)
    cells = np.ravel_multi_index(tuple(labels[np.indices(table.shape)]), (int(labels.max()) + 1,) * table.ndim)
    one_of_cell = np.zeros(cells.max() + 1, dtype=np.int64)
    one_of_cell[cells] = out
    return bool((one_of_cell[cells] == out).all()) and len(np.unique(out)) > 1
