"""Tasks as tables: what each makes of every ordered tuple of items. What can be said of tasks before any training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class TaskTables:
    """Tasks that are functions of a fixed number k of items, of which there are N.

    ``values[task][a, b, ...]`` is what a task makes of items a, b, ...: an array [N] * k of codes. Codes below N are
    the items themselves, higher ones something else. ``groupings`` divide the items into groups that the tasks know (a
    label an item); ``in_order`` says that the items are the numbers modulo N, in their order.
    """

    values: dict[str, Integers]
    groupings: dict[str, tuple[int, ...]]
    in_order: bool

    @property
    def items(self) -> int:
        """N."""
        return int(next(iter(self.values.values())).shape[0])
