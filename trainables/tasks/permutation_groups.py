"""The symmetric groups S3 to S6, and the rotations C<n> and symmetries D<n> of a polygon as their subgroups.

The points are 0..d-1. A permutation is written as its images: ``[1 0 2]`` is 0 -> 1, 1 -> 0, 2 -> 2. In a product the
left factor acts first, (a b)(i) = b(a(i)), as in sympy. Shapes: N elements, d points.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from trainables.base import SettingsError
from trainables.contract.tables import Integers, fold

GROUPS = ("S3", "S4", "S5", "S6")
"""Groups by name: all permutations of 3 to 6 points. S6 has 720 elements, and S7 would have 5040."""


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
        """Return the products [...] of elements [..., k]. The first element acts first."""
        return fold(lambda left, right: self.table[left, right], arguments)

    def subgroup(self, name: str) -> Integers:
        """Return the elements of a subgroup that acts on the first points and fixes all others.

        It consists of the rotations (``C4``) or symmetries (``D4``) of a polygon. Raises :class:`SettingsError` (key
        ``task.subgroup``) for another name.
        """
        # D3 is omitted because it is S3.
        corners = {f"{kind}{count}": count for kind in "CD" for count in range(3 + (kind == "D"), self.points + 1)}
        if name not in corners:
            message = f"{name!r} is not a known subgroup of {self.name}"
            raise SettingsError(message, key="task.subgroup", given=name, allowed=tuple(corners))
        corner = np.arange(corners[name])
        turned = (corner + corner[:, None]) % len(corner)
        moved = turned if name.startswith("C") else np.concatenate([turned, turned[:, ::-1]])
        rows = np.tile(np.arange(self.points), (len(moved), 1))
        rows[:, : len(corner)] = moved
        return np.searchsorted(_codes(self.images), _codes(rows))


@lru_cache
def named_group(name: str) -> Group:
    """Return the group with this name. Raises :class:`SettingsError` (key ``task.group``) for an unknown name."""
    if name not in GROUPS:
        raise SettingsError(f"there is no group {name!r}", key="task.group", given=name, allowed=GROUPS)
    images = np.array(list(itertools.permutations(range(int(name[1:])))), dtype=np.int64)
    table = np.stack([np.searchsorted(_codes(images), _codes(images[:, row])) for row in images])
    return Group(name, images, table)


def _codes(images: Integers) -> Integers:
    """Return a number for each permutation [N, d]. Numbers ascend in the lexicographic order of the images."""
    points = images.shape[1]
    return np.asarray(images @ points ** np.arange(points)[::-1])


def is_odd(images: Integers) -> NDArray[np.bool_]:
    """Return True for each permutation [N, d] with an odd number of inversions."""
    inversions = np.zeros(len(images), dtype=np.int64)
    for point in range(images.shape[1]):
        inversions += (images[:, point + 1 :] < images[:, point, None]).sum(axis=1)
    return np.asarray(inversions % 2 == 1)
