"""The operations on elements of a group: each is a function of the product of its arguments, taken from the left.

``product`` is that product. The others report a part of what is known of it, or act on a part of it: they are what
arXiv 2505.18369 calls auxiliary operations on sub-blocks. To add one, add its entry to ``OPERATIONS``, at the end.

What an operation comes to is a code (:class:`Codes`).

Shape legend: N elements, d points of the group.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainables.tasks.permutations.groups import Group, is_even

Integers = NDArray[np.int64]
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
    """Whether an operation that says ``codes`` [N] of a product says the same of its factors in any order, for every
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
