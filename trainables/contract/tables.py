"""Tasks as tables: what each makes of every ordered tuple of N items.

``table[a, b, ...]`` is what a task of k arguments makes of items a, b, ...: an array [N] * k of codes. Codes below N
are the items themselves, higher ones something else.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


def entropy(values: Integers) -> float:
    """Of the values in an array of any shape, in nats."""
    shares = np.unique(values, return_counts=True)[1] / values.size
    return float(-(shares * np.log(shares)).sum())


def group_of(codes: Integers, labels: Integers, items: int) -> Integers:
    """The group of each code of an array of any shape: its label in ``labels`` [N], N = ``items``; what is no item is a
    group of its own."""
    count = int(labels.max()) + 1
    others = np.arange(items, max(items, int(codes.max()) + 1)) - items + count
    grouped: Integers = np.concatenate([labels, others])[codes]
    return grouped


def respects(table: Integers, labels: Integers, items: int) -> bool:
    """True if the task can be done with groups in place of items: the group of what comes out of a table [N] * k is a
    function of the groups of what goes in, and not a constant."""
    out = group_of(table, labels, items).reshape(-1)
    count, cells = int(labels.max()) + 1, np.zeros(table.shape, dtype=np.int64)
    for axis in range(table.ndim):
        shape = [1] * table.ndim
        shape[axis] = items
        cells = cells * count + labels.reshape(shape)
    first = np.full(count**table.ndim, -1, dtype=np.int64)
    first[cells.reshape(-1)] = out
    return bool((first[cells.reshape(-1)] == out).all()) and len(np.unique(out)) > 1
