"""Finite permutation groups by name (``S4``, ``A5``, ``C6``, ``D4``).

The points are 0..d-1; a permutation is written as its images: ``[1 0 2]`` is 0 -> 1, 1 -> 0, 2 -> 2. In a product the
left factor acts first, (a b)(i) = b(a(i)), as in sympy. Shapes: N elements, d points.
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
from trainables.contract.tables import Integers, fold

LARGEST_ORDER = 1_000
"""Limit of N, because a product table of N x N numbers is kept; S6 has 720 elements, S7 5040."""
FORMS = (
    "S<n> (all permutations of n points), A<n> (the even ones), C<n> (the rotations of n points) or D<n> (the 2n "
    "symmetries of a polygon with n corners, n at least 3)"
)
_NAME = re.compile(r"([SACD])([1-9][0-9]{0,3})")
_FIRST_POINTS = 6
"""Number of points whose images distinguish the elements of every group: S6 is the largest symmetric group."""


@dataclass(frozen=True, eq=False)
class Group:
    """A permutation group. The identity is element 0; elements are in the lexicographic order of their images.

    ``images`` [N, d]: element e takes point i to ``images[e, i]``. ``table`` [N, N]: ``table[a, b]`` is a b.
    """

    name: str
    images: Integers
    table: Integers

    @property
    def order(self) -> int:
        """Number of elements, N."""
        return len(self.images)

    @property
    def points(self) -> int:
        """Number of points, d."""
        return int(self.images.shape[1])

    @cached_property
    def orders(self) -> Integers:
        """Order of each element, [N]."""
        every = power = np.arange(self.order)
        orders = np.ones_like(every)
        while (not_yet := power != 0).any():
            orders += not_yet
            power = np.where(not_yet, self.table[power, every], 0)
        return orders

    def product(self, arguments: Integers) -> Integers:
        """Return the products [...] of elements [..., k]; the first element acts first."""
        return fold(lambda left, right: self.table[left, right], arguments)

    def subgroup(self, name: str) -> Integers:
        """Return the elements, ascending, of a named subgroup that acts on the first points and fixes all others.

        Raises :class:`SettingsError` (key ``task.subgroup``) if the name is unknown or an element is not in the group.
        """
        kind, points = _parse(name, key="task.subgroup")
        # A subgroup's order divides the group's; any other may be far too large to list.
        if points <= self.points and self.order % _order(kind, points) == 0:
            places = {row.tobytes(): place for place, row in enumerate(self.images)}
            rows = np.tile(np.arange(self.points), (_order(kind, points), 1))
            rows[:, :points] = _elements(kind, points)
            elements = [places.get(row.tobytes(), -1) for row in rows]
            if min(elements) >= 0:
                return np.sort(np.array(elements, dtype=np.int64))
        message = f"task.subgroup {name!r} is not a subgroup of {self.name} on its points 0..{self.points - 1}"
        raise SettingsError(message, key="task.subgroup", given=name)


@lru_cache
def named_group(name: str) -> Group:
    """Return the group with this name, with 2 to :data:`LARGEST_ORDER` elements.

    Raises :class:`SettingsError` (key ``task.group``) for an unknown name or another number of elements.
    """
    kind, points = _parse(name, key="task.group")
    order = _order(kind, points)
    if not 2 <= order <= LARGEST_ORDER:
        size = order if order < 10**9 else "too many"
        message = f"task.group {name!r} has {size} elements; it must have at least 2 and at most {LARGEST_ORDER}"
        raise SettingsError(message, key="task.group", given=name)
    images = np.unique(_elements(kind, points), axis=0)
    first = min(_FIRST_POINTS, points)
    weights = points ** np.arange(first)[::-1]
    codes = images[:, :first] @ weights  # Ascending, since elements are in lexicographic order.
    table = np.stack([np.searchsorted(codes, images[:, row[:first]] @ weights) for row in images])
    return Group(name, images, table)


def _parse(name: str, *, key: str) -> tuple[str, int]:
    """Return the kind of a named group and its number of points."""
    match = _NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None or (match[1] == "D" and int(match[2]) < 3):
        raise SettingsError(f"{key} {name!r} is not a group; give {FORMS}", key=key, given=str(name))
    return match[1], int(match[2])


def _order(kind: str, points: int) -> int:
    if kind in "CD":
        return points if kind == "C" else 2 * points
    count = math.factorial(min(points, 30))  # The factorial of 30 is already far above the limit.
    return count if kind == "S" or points == 1 else count // 2


def _elements(kind: str, points: int) -> Integers:
    corners = np.arange(points)
    if kind in "CD":
        rotations = (corners + corners[:, None]) % points
        return rotations if kind == "C" else np.concatenate([rotations, rotations[:, ::-1]])
    every = np.array(list(itertools.permutations(range(points))), dtype=np.int64)
    return every if kind == "S" else every[~is_odd(every)]


def is_odd(images: Integers) -> NDArray[np.bool_]:
    """Return True for each permutation [N, d] with an odd number of inversions."""
    inversions = np.zeros(len(images), dtype=np.int64)
    for place in range(images.shape[1]):
        inversions += (images[:, place + 1 :] < images[:, place, None]).sum(axis=1)
    odd: NDArray[np.bool_] = inversions % 2 == 1
    return odd
