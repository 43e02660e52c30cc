"""Tuples of values that are kept out of training text, for validation or for the test.

A held-out tuple has as many values as the longest argument list. In any reduction step, prompt included, adjacent
values are arguments of one operation; so a window of that length is always the whole argument list of an
operation with ``max_arguments`` arguments that are all values by then, and looking at those lists is enough.

With ``unordered`` multisets are held out: tuples whose order does not count. With ``distinct`` numbers only tuples
without a repeated value are held out. Shapes: M multisets, k numbers of each,
ascending.
"""

from __future__ import annotations

import math
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from trainables.tasks import stream
from trainables.tasks.expressions import ExpressionTask


class MultisetNumbering:
    """Numbers 0, 1, ... for the multisets of ``length`` numbers below ``modulus``: their places in the combinatorial
    number system (Knuth, The Art of Computer Programming 4A, 7.2.1.3). Few enough of them to be listed."""

    def __init__(self, modulus: int, length: int) -> None:
        # Ascending numbers a_i are strictly ascending as a_i + i, which counts for C(a_i + i, i + 1).
        self._counts = np.array(
            [[math.comb(number + place, place + 1) for number in range(modulus)] for place in range(length)],
            dtype=np.int64,
        )

    def number(self, multisets: NDArray[np.int64]) -> NDArray[np.int64]:
        """The numbers [...] of multisets [..., k]."""
        numbers: NDArray[np.int64] = self._counts[np.arange(len(self._counts)), multisets].sum(axis=-1)
        return numbers

    def multisets(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The multisets [M, k] of numbers [M]."""
        left = numbers.copy()
        found = np.empty((len(numbers), len(self._counts)), dtype=np.int64)
        for place in reversed(range(len(self._counts))):
            found[:, place] = np.searchsorted(self._counts[place], left, side="right") - 1
            left -= self._counts[place][found[:, place]]
        return found


def orders(multisets: NDArray[np.int64]) -> NDArray[np.float64]:
    """Number of tuples [M] for each multiset [M, k]: k! over the factorials of the counts of each number."""
    run, found = np.ones(len(multisets)), np.ones(len(multisets))
    for place in range(1, multisets.shape[1]):
        run = np.where(multisets[:, place] == multisets[:, place - 1], run + 1, 1)
        found = found * (place + 1) / run
    return found


LARGEST_TABLE = 2**20
"""Up to this many tuples (multisets) are kept in a table with exact counts; more are told apart by a hash of each."""


class Part(IntEnum):
    """Part of the data in which a tuple may occur. The part of an expression is the largest among its tuples."""

    TRAINED = 0
    VALIDATION = 1
    TEST = 2


class HeldOut:
    """The held-out tuples of one seed: a function of value_count, max_arguments, held_out_fraction, held_out,
    held_out_numbers and seed.

    Halved once: half of them (rounded up) are for the test, the others for validation. With ``unordered`` multisets are
    held out and halved, every tuple going where its multiset goes.
    """

    def __init__(self, settings: ExpressionTask, seed: int) -> None:
        self._values = settings.value_count
        self._length = settings.max_arguments
        self._tuples = settings.value_count**settings.max_arguments
        self._distinct = settings.held_out_numbers == "distinct"
        self._fraction = settings.held_out_fraction
        if self._distinct:  # The same number of tuples, taken from fewer.
            self._fraction *= settings.tuple_count / settings.eligible_tuples
        self._share = settings.held_out_share
        self._unordered = settings.held_out == "unordered"
        rng = stream(seed, "held-out")
        self._key = rng.integers(2**64, dtype=np.uint64)
        self._powers = np.array(
            [pow(self._values, place, 2**64) for place in reversed(range(self._length))], dtype=np.uint64
        )
        self._numbering: MultisetNumbering | None = None
        self._table: NDArray[np.uint8] | None = None
        if settings.tuple_count <= LARGEST_TABLE:
            if self._unordered:
                self._numbering = MultisetNumbering(self._values, self._length)
            self._table = _draw_table(self._eligible(settings.tuple_count), settings.held_out_tuples, rng)

    def part(self, arguments: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The :class:`Part` [...] of each tuple of ``arguments`` [..., max_arguments]."""
        canonical = np.sort(arguments, axis=-1) if self._unordered else arguments
        if self._table is not None:
            numbering = self._codes if self._numbering is None else self._numbering.number
            return self._table[numbering(canonical)]
        place = _scramble(self._codes(canonical) ^ self._key).astype(np.float64) / 2.0**64
        if self._distinct:
            place = np.where(_all_differ(arguments), place, 1.0)
        held, test = place < self._fraction, place < self._fraction / 2
        return held.astype(np.uint8) + test.astype(np.uint8)

    def tuples(self, part: Part, limit: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Tuples [T, max_arguments] of one part, each once; with ``unordered`` every order of a multiset is a tuple.

        All of them in ascending order; where there are too many tuples to list, about ``limit`` of them drawn at
        random, and no more than half of the part.

        So an accuracy over them means the same under ``ordered`` and ``unordered``, and for operations that depend on
        the order: the share of held-out tuples, all equally likely, that come out right. What it rests on are fewer
        cases (:meth:`cases`): orders of one multiset are no independent ones, least of all for ``add``.
        """
        if self._tuples <= LARGEST_TABLE:
            every = self._digits(np.arange(self._tuples))
            listed: NDArray[np.int64] = every[self.part(every) == part]
            return listed
        multisets = self._multisets(part)
        sizes = None if multisets is None else orders(multisets)
        limit = min(limit, int(self._share * self._tuples / 4 if sizes is None else sizes.sum() / 2))
        found = np.empty((0, self._length), dtype=np.int64)
        while len(found) < limit:
            count = LARGEST_TABLE // self._length
            if multisets is None or sizes is None:
                drawn = rng.integers(self._values, size=(count, self._length))
                drawn = drawn[self.part(drawn) == part]
            else:
                # A multiset as often as it stands for tuples, in any of its orders: any tuple, equally likely.
                drawn = rng.permuted(multisets[rng.choice(len(sizes), size=count, p=sizes / sizes.sum())], axis=1)
            found = np.unique(np.concatenate([found, drawn]), axis=0)
        return found[np.sort(rng.choice(len(found), size=limit, replace=False))]

    def cases(self, arguments: NDArray[np.integer], part: Part) -> int:
        """Number of different tuples (with ``unordered``, multisets) of a part in a text: its values [L] in order,
        with what is none of 0..value_count-1 for everything between them."""
        windows = np.lib.stride_tricks.sliding_window_view(arguments, self._length)
        rows = windows[((windows >= 0) & (windows < self._values)).all(axis=1)].astype(np.int64)
        found = np.unique(np.sort(rows, axis=1) if self._unordered else rows, axis=0)
        return int(np.count_nonzero(self.part(found) == part))

    def _eligible(self, count: int) -> NDArray[np.bool_]:
        """True for each of ``count`` tuples (multisets), by number, that can be held out."""
        if not self._distinct:
            return np.ones(count, dtype=np.bool_)
        every = np.arange(count)
        return _all_differ(self._digits(every) if self._numbering is None else self._numbering.multisets(every))

    def _multisets(self, part: Part) -> NDArray[np.int64] | None:
        """The multisets [M, max_arguments] of a part; None where they are not what is listed."""
        if self._table is None or self._numbering is None:
            return None
        return self._numbering.multisets(np.flatnonzero(self._table == part))

    def _codes(self, arguments: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Tuples read as numbers in base ``value_count``, modulo 2**64."""
        return arguments.astype(np.uint64) @ self._powers

    def _digits(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The tuples [N, max_arguments] of codes [N]; the inverse of :meth:`_codes`."""
        return codes[:, None] // self._powers.astype(np.int64) % self._values


def _all_differ(tuples: NDArray[np.int64]) -> NDArray[np.bool_]:
    """True for each tuple [..., k] without a repeated value."""
    different: NDArray[np.bool_] = (np.diff(np.sort(tuples, axis=-1), axis=-1) != 0).all(axis=-1)
    return different


def _draw_table(eligible: NDArray[np.bool_], held_out: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """The part of each tuple: a random order of those that are eligible is dealt out in turn."""
    order = np.flatnonzero(eligible)[rng.permutation(np.count_nonzero(eligible))]
    parts = np.full(len(eligible), Part.TRAINED, dtype=np.uint8)
    parts[order[0:held_out:2]] = Part.TEST
    parts[order[1:held_out:2]] = Part.VALIDATION
    return parts


def _scramble(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A bijection of 64-bit words whose every output bit depends on every input bit (SplitMix64's finaliser, 2014)."""
    with np.errstate(over="ignore"):  # numpy warns of wrapping around where a single tuple is a scalar
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
