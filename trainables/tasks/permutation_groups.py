"""Finite permutation groups by name (``S4``, ``A5``, ``C6``, ``D4``), and the operations on their elements.

The points are 0..d-1; a permutation is written as its images, ``[1 0 2]`` being 0 -> 1, 1 -> 0, 2 -> 2. Products are
taken from the left: in ``a b`` the factor ``a`` acts first, (a b)(i) = b(a(i)), which is sympy's convention too.

An operation is a function of the product of its arguments: ``product`` itself, or a part of what is known of it (the
auxiliary operations on sub-blocks of arXiv 2505.18369). To add one, add its entry at the end of ``OPERATIONS``. What
an operation comes to is a code (:class:`Codes`).

Shapes: N elements, d points.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from trainables.base import SettingsError

Integers = NDArray[np.int64]

LARGEST_ORDER = 1_000
"""A product table of N x N numbers is kept; S6 has 720 elements, S7 5040."""
FORMS = (
    "S<n> (all permutations of n points), A<n> (the even ones), C<n> (the rotations of n points) or D<n> (the 2n "
    "symmetries of a polygon with n corners, n at least 3)"
)
_NAME = re.compile(r"([SACD])([1-9][0-9]{0,3})")
_ODD = 0x9E3779B97F4A7C15
"""2^64 over the golden ratio: its powers tell permutations apart (checked where they are used)."""


@dataclass(frozen=True, eq=False)
class Group:
    """A permutation group. The identity is element 0; elements stand in the lexicographic order of their images.

    ``images`` [N, d]: element e takes point i to ``images[e, i]``. ``table`` [N, N]: ``table[a, b]`` is a b.
    """

    name: str
    images: Integers
    table: Integers

    @property
    def order(self) -> int:
        """N."""
        return len(self.images)

    @property
    def points(self) -> int:
        """d."""
        return int(self.images.shape[1])

    def cycles(self) -> list[list[int]]:
        """The lengths of each element's cycles, fixed points included."""
        return [_cycle_lengths(row) for row in self.images.tolist()]

    def subgroup(self, name: str) -> Integers:
        """The elements, ascending, of a named subgroup on the first points; the other points stay where they are.

        Raises :class:`SettingsError` (key ``task.subgroup``) for a name that is none, and unless all of its elements
        are in the group.
        """
        kind, points = parse(name, key="task.subgroup")
        # Where the number of its elements does not divide the group's there may be far too many to list.
        if points <= self.points and self.order % _order(kind, points) == 0:
            places = {row.tobytes(): place for place, row in enumerate(self.images)}
            rows = np.tile(np.arange(self.points), (_order(kind, points), 1))
            rows[:, :points] = _elements(kind, points)
            found = [places.get(row.tobytes(), -1) for row in rows]
            if min(found) >= 0:
                return np.sort(np.array(found, dtype=np.int64))
        raise SettingsError(
            f"task.subgroup {name!r} is no subgroup of {self.name} on its points 0..{self.points - 1}",
            key="task.subgroup",
            given=name,
        )


@lru_cache
def named_group(name: str) -> Group:
    """The group of a name. Raises :class:`SettingsError` (key ``task.group``) for one that is none, has a single
    element or more than :data:`LARGEST_ORDER`."""
    kind, points = parse(name, key="task.group")
    order = _order(kind, points)
    if not 2 <= order <= LARGEST_ORDER:
        size = order if order < 10**9 else "too many"
        raise SettingsError(
            f"task.group {name!r} has {size} elements; it must have at least 2 and at most {LARGEST_ORDER}",
            key="task.group",
            given=name,
        )
    images = np.unique(_elements(kind, points), axis=0)
    return Group(name, images, _product_table(images))


def parse(name: str, *, key: str) -> tuple[str, int]:
    """The kind of a named group, and the number of its points. Raises :class:`SettingsError` with ``key``."""
    found = _NAME.fullmatch(name) if isinstance(name, str) else None
    if found is None or (found[1] == "D" and int(found[2]) < 3):
        raise SettingsError(f"{key} {name!r} names no group; give {FORMS}", key=key, given=str(name))
    return found[1], int(found[2])


def _order(kind: str, points: int) -> int:
    if kind in "SA":
        # More points than these have far more elements than are allowed.
        count = math.factorial(min(points, 30))
        return count if kind == "S" or points == 1 else count // 2
    return points if kind == "C" else 2 * points


def _elements(kind: str, points: int) -> Integers:
    """All elements [N, points] of a group, in any order."""
    corners = np.arange(points)
    if kind in "CD":
        rotations = (corners + corners[:, None]) % points
        return rotations if kind == "C" else np.concatenate([rotations, rotations[:, ::-1]])
    every = np.array(list(itertools.permutations(range(points))), dtype=np.int64)
    return every if kind == "S" else every[[is_even(_cycle_lengths(row)) for row in every.tolist()]]


def is_even(cycle_lengths: Iterable[int]) -> bool:
    """True if a permutation with such cycles is a product of an even number of transpositions."""
    return sum(length - 1 for length in cycle_lengths) % 2 == 0


def _cycle_lengths(images: list[int]) -> list[int]:
    lengths, seen = [], [False] * len(images)
    for point in range(len(images)):
        length = 0
        while not seen[point]:
            seen[point] = True
            point = images[point]
            length += 1
        if length:
            lengths.append(length)
    return lengths


def _product_table(images: Integers) -> Integers:
    """The product table [N, N] of all elements [N, d] of a group."""
    weights = np.array([pow(_ODD, place + 1, 2**64) for place in range(images.shape[1])], dtype=np.uint64)
    codes = images.astype(np.uint64) @ weights
    order = np.argsort(codes)
    assert (np.diff(codes[order]) > 0).all(), "two elements of one code"
    table = np.empty((len(images), len(images)), dtype=np.int64)
    for element, row in enumerate(images):
        products = images[:, row].astype(np.uint64) @ weights
        table[element] = order[np.searchsorted(codes[order], products)]
    return table


SIGNS = ("+", "-")


class Codes:
    """Numbers for everything that can be said of a group's elements: first the N elements themselves, then the d
    points, then even and odd, then the orders that elements have, ascending."""

    def __init__(self, group: Group) -> None:
        self._cycles = group.cycles()
        of_elements = np.array([math.lcm(*lengths) for lengths in self._cycles], dtype=np.int64)
        self.orders: Integers = np.unique(of_elements)
        self.point = group.order
        """The code of point 0."""
        self.sign = self.point + group.points
        """The code of "even"; that of "odd" is the next."""
        self.first_order = self.sign + len(SIGNS)
        self.count = self.first_order + len(self.orders)
        self.of_order: Integers = self.first_order + np.searchsorted(self.orders, of_elements)
        """The code of each element's order, [N]."""
        self.of_sign: Integers = self.sign + np.array([not is_even(lengths) for lengths in self._cycles])
        """The code of each element's sign, [N]."""


@dataclass(frozen=True)
class Asked:
    """Subjects of the auxiliary operations: the point whose image is asked for, and the elements, ascending, of the
    subgroup whose cosets are; None where none is named."""

    point: int
    subgroup: Integers | None


@dataclass(frozen=True)
class Operation:
    """An operation: ``codes(group, codes, asked)`` gives what it says of each product, [N], None where it needs a
    subgroup and none is named. ``gives_elements``: what it comes to is an element again."""

    name: str
    codes: Callable[[Group, Codes, Asked], Integers | None]
    gives_elements: bool


def _coset(group: Group, codes: Codes, asked: Asked) -> Integers | None:
    """The first element of the left coset x H: which of them the product lies in."""
    return None if asked.subgroup is None else group.table[:, asked.subgroup].min(axis=1)


OPERATIONS: dict[str, Operation] = {
    operation.name: operation
    for operation in (
        Operation("product", lambda group, codes, asked: np.arange(group.order), gives_elements=True),
        Operation("image", lambda group, codes, asked: codes.point + group.images[:, asked.point], False),
        Operation("sign", lambda group, codes, asked: codes.of_sign, gives_elements=False),
        Operation("order", lambda group, codes, asked: codes.of_order, gives_elements=False),
        Operation("coset", _coset, gives_elements=True),
    )
}
"""All operations by the name they have in a mix, in the order of their tokens."""


def product(group: Group, arguments: Integers) -> Integers:
    """The products [...] of elements [..., k], the first acting first."""
    value = arguments[..., 0]
    for place in range(1, arguments.shape[-1]):
        value = group.table[value, arguments[..., place]]
    return value


def ignores_order(group: Group, codes: Integers, arguments: int) -> bool:
    """True if an operation that says ``codes`` [N] of a product says the same of its factors in any order, for every
    number of factors from 2 to ``arguments``.

    Of two factors a b becomes b a. With a third, any product x can become x k for any commutator k = [a, b] (those of c
    in a b c and b a c; commutators are closed under conjugation), and swapping neighbours gives every order.
    """
    table = group.table
    if arguments == 2:
        return bool((codes[table] == codes[table.T]).all())
    inverse = np.argmin(table, axis=1)  # The identity is element 0.
    commutators = np.unique(table[inverse[table.T], table])
    return all(bool((codes[table[:, element]] == codes).all()) for element in commutators)
