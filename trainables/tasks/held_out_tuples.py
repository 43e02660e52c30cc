"""Tuples of values that never occur in training text: half of them are for validation, half for the test.

A held-out tuple has as many values as the longest argument list. In every reduction step, including the prompt,
adjacent values are arguments of one operation. A window of that length is therefore always the whole argument list of
an operation with ``max_arguments`` arguments, so only those lists need to be checked.

Shapes: N = value_count**k tuples, k = max_arguments values of each.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from trainables.contract.tables import Integers
from trainables.tasks import stream
from trainables.tasks.expression_task import MOST_ASKED, ExpressionTask


class Part(IntEnum):
    """Part of the data in which a tuple may occur. An expression belongs to the highest part among its tuples."""

    TRAINED = 0
    VALIDATION = 1
    TEST = 2


class HeldOut:
    """The part of every tuple, a function of the seed and of the settings that define tuples.

    Half of the held-out tuples, rounded up, are for the test. With ``held_out: unordered``, multisets are held out
    instead, and all orders of a multiset are in the same part.
    """

    def __init__(self, settings: ExpressionTask, seed: int) -> None:
        self._values = settings.value_count
        self._length = settings.max_arguments
        self._unordered = settings.held_out == "unordered"
        self._powers = self._values ** np.arange(self._length)[::-1]
        rng = stream(seed, "held-out")
        rng.integers(2**64, dtype=np.uint64)  # No longer used, but drawn so that each seed keeps its tuples.
        kinds_Mk = np.indices((self._values,) * self._length, dtype=np.int16).reshape(self._length, -1).T
        kind_N = np.arange(len(kinds_Mk))
        if self._unordered:  # Multisets, each ascending, in colexicographic order.
            ascending_Nk = np.sort(kinds_Mk, axis=1)
            _, first, which_N = np.unique(ascending_Nk @ self._powers, return_index=True, return_inverse=True)
            order = np.lexsort(ascending_Nk[first].T)
            kinds_Mk = ascending_Nk[first][order]
            kind_N = np.argsort(order)[which_N]
        candidates = np.arange(len(kinds_Mk))
        if settings.held_out_numbers == "distinct":
            candidates = candidates[(np.diff(np.sort(kinds_Mk, axis=1), axis=1) != 0).all(axis=1)]
        order = candidates[rng.permutation(len(candidates))]
        parts_M = np.full(len(kinds_Mk), Part.TRAINED, dtype=np.uint8)
        parts_M[order[0 : settings.held_out_tuples : 2]] = Part.TEST
        parts_M[order[1 : settings.held_out_tuples : 2]] = Part.VALIDATION
        self._table_N = parts_M[kind_N]

    def part(self, arguments: Integers) -> NDArray[np.uint8]:
        """Return the :class:`Part` [...] of each tuple of ``arguments`` [..., k]."""
        parts: NDArray[np.uint8] = self._table_N[arguments @ self._powers]
        return parts

    def tuples(self, part: Part, limit: int, rng: np.random.Generator) -> Integers:
        """Return the tuples [T, k] of one part in ascending order, each once. Every order of a multiset is a tuple.

        If there are more than :data:`MOST_ASKED` tuples in all, return a random sample of at most ``limit``. Orders of
        one multiset are not independent, least of all for ``add``. :meth:`cases` counts the independent cases.
        """
        numbers = np.flatnonzero(self._table_N == part)
        if len(self._table_N) > MOST_ASKED:
            numbers = np.sort(rng.choice(numbers, size=min(limit, len(numbers)), replace=False))
        return numbers[:, None] // self._powers % self._values

    def cases(self, arguments: NDArray[np.integer], part: Part) -> int:
        """Return the number of different tuples (with ``unordered``, multisets) of a part in a text.

        ``arguments`` [L] are the values of the text in order. Every other token has a number outside 0..value_count-1.
        """
        windows = np.lib.stride_tricks.sliding_window_view(arguments, self._length)
        rows = windows[((windows >= 0) & (windows < self._values)).all(axis=1)].astype(np.int64)
        different = np.unique(np.sort(rows, axis=1) if self._unordered else rows, axis=0)
        return int(np.count_nonzero(self.part(different) == part))
