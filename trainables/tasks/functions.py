"""Operations as functions of arrays of values."""

from __future__ import annotations

from collections.abc import Callable

from trainables.contract.tables import Integers

Function = Callable[[Integers], Integers]
"""An operation as a function of values [..., k], k >= 2, to codes [...]."""


def fold(combine: Callable[[Integers, Integers], Integers], arguments: Integers) -> Integers:
    """Combine values [..., k] from the left, two at a time, and return [...]."""
    value = arguments[..., 0]
    for place in range(1, arguments.shape[-1]):
        value = combine(value, arguments[..., place])
    return value
