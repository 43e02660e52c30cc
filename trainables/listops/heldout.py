"""Which number tuples are kept out of training text, and whether for validation or for the test.

A held-out tuple has as many numbers as the longest argument list. In any reduction step, prompt included, adjacent
number tokens are arguments of one operation; so a window of that length is always the whole argument list of an
operation with ``max_arguments`` arguments that are all numbers by then, and looking at those lists is enough.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from trainables.listops.settings import TaskSettings
from trainables.listops.streams import stream

LARGEST_TABLE = 2**20
"""Up to this many tuples are kept in a table with exact counts; more are told apart by a hash of the tuple."""


class Part(IntEnum):
    """Where a tuple may occur. The part of an expression is the largest among its tuples."""

    TRAINED = 0
    VALIDATION = 1
    TEST = 2


class HeldOut:
    """The held-out tuples of one seed: a function of modulus, max_arguments, held_out_fraction, held_out and seed.

    Halved once: half of them (rounded up) are for the test, the others for validation.
    """

    def __init__(self, settings: TaskSettings, seed: int) -> None:
        self._modulus = settings.modulus
        self._length = settings.max_arguments
        self._fraction = settings.held_out_fraction
        self._unordered = settings.held_out == "unordered"
        rng = stream(seed, "held-out")
        self._key = rng.integers(2**64, dtype=np.uint64)
        self._powers = np.array(
            [pow(self._modulus, place, 2**64) for place in reversed(range(self._length))], dtype=np.uint64
        )
        self._table: NDArray[np.uint8] | None = None
        if self._modulus**self._length <= LARGEST_TABLE:
            self._table = self._draw_table(settings.held_out_tuples, rng)

    def part(self, arguments: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The :class:`Part` [...] of each tuple of ``arguments`` [..., max_arguments]."""
        if self._table is not None:
            return self._table[self._codes(arguments)]
        canonical = np.sort(arguments, axis=-1) if self._unordered else arguments
        place = _scramble(self._codes(canonical) ^ self._key).astype(np.float64) / 2.0**64
        held, test = place < self._fraction, place < self._fraction / 2
        return held.astype(np.uint8) + test.astype(np.uint8)

    def tuples(self, part: Part, limit: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Tuples [T, max_arguments] of one part, each once.

        All of them in ascending order; where there are too many tuples to list, about ``limit`` of them drawn at
        random, and no more than half of the part.
        """
        if self._table is not None:
            return self._digits(np.flatnonzero(self._table == part))
        limit = min(limit, int(self._fraction * self._modulus**self._length / 4))
        found = np.empty((0, self._length), dtype=np.int64)
        while len(found) < limit:
            drawn = rng.integers(self._modulus, size=(LARGEST_TABLE // self._length, self._length))
            found = np.unique(np.concatenate([found, drawn[self.part(drawn) == part]]), axis=0)
        return found[np.sort(rng.choice(len(found), size=limit, replace=False))]

    def _draw_table(self, wanted: int, rng: np.random.Generator) -> NDArray[np.uint8]:
        """The part of every tuple, by code. Units (a tuple, or all its permutations) are dealt out in turn."""
        codes = np.arange(self._modulus**self._length)
        if self._unordered:
            canonical = self._codes(np.sort(self._digits(codes), axis=-1))
            _, unit, sizes = np.unique(canonical, return_inverse=True, return_counts=True)
        else:
            unit, sizes = codes, np.ones_like(codes)
        order = rng.permutation(len(sizes))
        # At least two units, so that neither part is empty.
        taken = max(2, int(np.searchsorted(np.cumsum(sizes[order]), wanted)) + 1)
        parts = np.full(len(sizes), Part.TRAINED, dtype=np.uint8)
        parts[order[0:taken:2]] = Part.TEST
        parts[order[1:taken:2]] = Part.VALIDATION
        return parts[unit]

    def _codes(self, arguments: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Tuples read as numbers in base ``modulus``, modulo 2**64."""
        return arguments.astype(np.uint64) @ self._powers

    def _digits(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The tuples [N, max_arguments] of codes [N]; the inverse of :meth:`_codes`."""
        return codes[:, None] // self._powers.astype(np.int64) % self._modulus


def _scramble(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """A bijection of 64-bit words whose every output bit depends on every input bit (SplitMix64's finaliser, 2014)."""
    with np.errstate(over="ignore"):  # numpy warns of wrapping around where a single tuple is a scalar
        values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
