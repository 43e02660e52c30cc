"""Finite permutation groups by name (``S4``, ``A5``, ``C6``, ``D4``), and the operations on their elements.

The points are 0..d-1; a permutation is written as its images, ``[1 0 2]`` being 0 -> 1, 1 -> 0, 2 -> 2. Products are
taken from the left: in ``a b`` the factor ``a`` acts first, (a b)(i) = b(a(i)), which is sympy's convention too.

An operation is a function of the product of its arguments: ``product`` itself, or a part of what is known of it (the
auxiliary operations on sub-blocks of arXiv 2505.18369). To add one, add its name at the end of ``OPERATIONS`` and its
codes. What an operation comes to is a code: first the N elements themselves, then the d points, then even and odd, then
the orders that elements have, ascending.

Shapes: N elements, d points.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from trainables.base import SettingsError
from trainables.contract.tables import Integers
from trainables.tasks.functions import fold

LARGEST_ORDER = 1_000
"""A product table of N x N numbers is kept; S6 has 720 elements, S7 5040."""
OPERATIONS = ("product", "image", "sign", "order", "coset")
"""All operations by the name they have in a mix, in the order of their tokens."""
GIVE_ELEMENTS = ("product", "coset")
"""Those that come to an element again."""
SIGNS = ("+", "-")
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

    @cached_property
    def orders(self) -> Integers:
        """The order of each element, [N]."""
        every = np.arange(self.order)
        orders, power = np.ones_like(every), every
        while (left := power != 0).any():
            orders[left] += 1
            power = np.where(left, self.table[power, every], 0)
        return orders

    @property
    def known_orders(self) -> Integers:
        """The orders that elements have, ascending."""
        return np.unique(self.orders)

    def codes(self, operation: str, point: int, subgroup: Integers | None) -> Integers | None:
        """Code of what an operation says of each product, [N]; None if it needs a subgroup and none is named.

        ``point`` is the one whose image is asked for, ``subgroup`` the elements whose left cosets are: x H goes by its
        first element.
        """
        points, signs = self.order, self.order + self.points
        match operation:
            case "product":
                return np.arange(self.order)
            case "image":
                return points + self.images[:, point]
            case "sign":
                return signs + is_odd(self.images)
            case "order":
                return signs + len(SIGNS) + np.searchsorted(self.known_orders, self.orders)
            case "coset":
                return None if subgroup is None else self.table[:, subgroup].min(axis=1)
        raise KeyError(operation)

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
    return every if kind == "S" else every[~is_odd(every)]


def is_odd(images: Integers) -> NDArray[np.bool_]:
    """True for each permutation [N, d] that is a product of an odd number of transpositions: by its inversions."""
    inversions = np.zeros(len(images), dtype=np.int64)
    for place in range(images.shape[1]):
        inversions += (images[:, place + 1 :] < images[:, place, None]).sum(axis=1)
    odd: NDArray[np.bool_] = inversions % 2 == 1
    return odd


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


def product(group: Group, arguments: Integers) -> Integers:
    """The products [...] of elements [..., k], the first acting first."""
    return fold(lambda left, right: group.table[left, right], arguments)
