"""The operations of ListOps, all modulo n. To add an operation, add its entry at the end of ``OPERATIONS``.

Shapes: ``arguments`` is an int64 array [..., k] of numbers in 0..n-1, k >= 2; a function returns [...].
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from trainables.contract.tables import Function, Integers, fold

Build = Callable[[int, np.random.Generator], Function]
"""Function that makes the function of an operation, from the modulus and a random generator."""


class Operation(NamedTuple):
    """An operation.

    Attributes:
        build: Returns the operation's function, given (modulus, rng). Only random tables use ``rng``.
        commutative: True if the value does not depend on the order of the arguments.
    """

    build: Build
    commutative: bool


def _plain(function: Callable[[Integers, int], Integers]) -> Build:
    """Return ``build`` for an operation without a random table, from its function of (arguments, modulus)."""
    return lambda modulus, _: lambda arguments: function(arguments, modulus)


def _product(arguments: Integers, modulus: int) -> Integers:
    # Reduced after every factor: the plain product of many arguments overflows.
    return fold(lambda left, right: left * right % modulus, arguments)


def _median(arguments: Integers, _: int) -> Integers:
    """Return the middle argument, or the upper middle one of an even number of arguments."""
    middle: Integers = np.sort(arguments, axis=-1)[..., arguments.shape[-1] // 2]
    return middle


def _alternating_sum(arguments: Integers, modulus: int) -> Integers:
    total: Integers = arguments[..., ::2].sum(axis=-1) - arguments[..., 1::2].sum(axis=-1)
    return total % modulus


def _shuffled_sum(modulus: int, rng: np.random.Generator) -> Function:
    """Permute the n*n cells of the table of the sum. More than two arguments are folded from the left."""
    numbers = np.arange(modulus)
    cells = ((numbers[:, None] + numbers) % modulus).reshape(-1)
    table = rng.permutation(cells).reshape(modulus, modulus)
    return lambda arguments: fold(lambda left, right: table[left, right], arguments)


def _relabelled_sum(modulus: int, rng: np.random.Generator) -> Function:
    """Replace the sum of all arguments by its image under a permutation of the numbers."""
    labels = rng.permutation(modulus)
    return lambda arguments: labels[arguments.sum(axis=-1) % modulus]


OPERATIONS = {
    "max": Operation(_plain(lambda arguments, _: arguments.max(axis=-1)), commutative=True),
    "min": Operation(_plain(lambda arguments, _: arguments.min(axis=-1)), commutative=True),
    "med": Operation(_plain(_median), commutative=True),
    "add": Operation(_plain(lambda arguments, modulus: arguments.sum(axis=-1) % modulus), commutative=True),
    "prod": Operation(_plain(_product), commutative=True),
    "nadd": Operation(_plain(_alternating_sum), commutative=False),
    "shuffled_add": Operation(_shuffled_sum, commutative=False),
    "relabelled_add": Operation(_relabelled_sum, commutative=True),
}
"""All operations by name."""
FIRST_OPERATIONS = ("max", "min", "med", "add", "prod", "nadd", "shuffled_add", "relabelled_add")
"""Operations in the default vocabulary. Do not add to it: the number of tokens is part of a model's shape, which is
part of every run's key."""
