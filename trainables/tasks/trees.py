"""Random expressions as trees, many at once.

A batch of B expressions is laid out in full k-ary trees, k = max_arguments. Level l has k**l slots. The children of
slot s are in slots k s .. k s + k - 1 of the next level. Most slots are empty. Any level except the last may have
operations. Each reduction step replaces an operation by its value: the first operation in the text whose arguments are
all numbers. This visits the tree in post-order.

Shapes: B expressions, S = k**level slots of a level.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainables.contract.tables import Function, Integers
from trainables.tasks.expression_task import ExpressionTask
from trainables.tasks.held_out_tuples import HeldOut

Steps = NDArray[np.int16]
"""Reduction steps of the slots of a level."""


class Level(NamedTuple):
    """One level of a batch of trees. All arrays are [B, S].

    Attributes:
        present: True for used slots.
        nested: True for slots that are operations. Other used slots are plain values.
        operation: Index of an operation in the mix.
        arity: Number of arguments of an operation.
        value: Value of a used slot.
    """

    present: NDArray[np.bool_]
    nested: NDArray[np.bool_]
    operation: Integers
    arity: Integers
    value: Integers


Trees = tuple[Level, ...]
"""Levels from the root (a single slot) to the last, which has only plain values."""


def grow(
    settings: ExpressionTask, shares: Sequence[float], inner: Sequence[int], count: int, rng: np.random.Generator
) -> Trees:
    """Return ``count`` random expressions: operations drawn by their shares, argument counts and values uniformly.

    ``inner`` are the indices of the operations that may be arguments. Inside an expression, operations are drawn from
    these by their shares. If ``inner`` is empty, nothing nests. Values of operations are 0 until :func:`evaluate`.
    """
    k = settings.max_arguments
    levels_of_operations = settings.levels if inner else 1
    inner_shares = np.array(shares)[list(inner)]
    nested = present = np.ones((count, 1), dtype=np.bool_)
    levels: list[Level] = []
    for depth in range(levels_of_operations + 1):
        if depth and len(inner) not in (0, len(shares)):
            operation = np.array(inner)[_draw(inner_shares / inner_shares.sum(), nested, rng)]
        else:
            operation = _draw(shares, nested, rng)
        arity = np.where(nested, rng.integers(2, k + 1, nested.shape), 0)
        value = np.where(present & ~nested, rng.integers(settings.value_count, size=present.shape), 0)
        levels.append(Level(present, nested, operation, arity, value))
        present = (np.arange(k) < arity[:, :, None]).reshape(count, -1)
        may_nest = depth + 1 < levels_of_operations
        nested = present & (rng.random(present.shape) < settings.nesting) if may_nest else np.zeros_like(present)
    return tuple(levels)


def flat(arguments: Integers) -> Trees:
    """Return the mix's first operation on each argument list of ``arguments`` [B, k], not yet evaluated."""
    zero = np.zeros_like(arguments[:, :1])
    none = np.zeros_like(arguments)
    root = Level(zero == 0, zero == 0, zero, zero + arguments.shape[1], zero.copy())
    return root, Level(none == 0, none != 0, none, none, arguments)


def evaluate(trees: Trees, functions: Sequence[Function]) -> None:
    """Set the values of all operations in place. ``functions`` are in the order of the mix."""
    for level, below in reversed(list(pairwise(trees))):
        arguments = _arguments(level, below)
        for index, function in enumerate(functions):
            used = level.nested & (level.operation == index)
            for arity in range(2, arguments.shape[-1] + 1):
                chosen = used & (level.arity == arity)
                if chosen.any():
                    level.value[chosen] = function(arguments[chosen][:, :arity])


def part_of(trees: Trees, held_out: HeldOut) -> NDArray[np.uint8]:
    """Return the ``Part`` [B] of each evaluated expression: the largest part of the tuples in its reduction."""
    parts = np.zeros(len(trees[0].present), dtype=np.uint8)
    for level, below in pairwise(trees):
        arguments = _arguments(level, below)
        longest = level.nested & (level.arity == arguments.shape[-1])
        tuple_parts = np.zeros(longest.shape, dtype=np.uint8)
        tuple_parts[longest] = held_out.part(arguments[longest])
        np.maximum(parts, tuple_parts.max(axis=1), out=parts)
    return parts


def count_operations(trees: Trees, operations: int) -> Integers:
    """Return how often each of the mix's operations occurs in the batch, [operations]."""
    operation = np.concatenate([level.operation[level.nested] for level in trees])
    return np.bincount(operation, minlength=operations).astype(np.int64)


def reduction_steps(trees: Trees) -> list[Steps]:
    """Return the step (1, 2, ...) in which each operation is reduced, 0 for all other slots: an array [B, S] per level.

    An operation is reduced right after the last operation inside it. Operations in earlier arguments come first.
    """
    sizes = [trees[-1].nested.astype(np.int16)]
    for level in reversed(trees[:-1]):
        inside = sizes[0].reshape(*level.nested.shape, -1).sum(axis=2, dtype=np.int16)
        sizes.insert(0, np.where(level.nested, inside + 1, 0).astype(np.int16))
    first = np.zeros_like(sizes[0])
    steps = [sizes[0]]
    for parent, size in pairwise(sizes):
        children = size.reshape(*parent.shape, -1)
        before = np.cumsum(children, axis=2, dtype=np.int16) - children
        first = (first[:, :, None] + before).reshape(size.shape)
        steps.append(np.where(size > 0, first + size, 0).astype(np.int16))
    return steps


def _arguments(level: Level, below: Level) -> Integers:
    """Return the values [B, S, k] of every slot's children."""
    return below.value.reshape(*level.value.shape, -1)


def _draw(
    shares: Sequence[float] | NDArray[np.float64], where: NDArray[np.bool_], rng: np.random.Generator
) -> Integers:
    """Draw operations by their shares, with 0 outside ``where``."""
    if len(shares) == 1:
        return np.zeros(where.shape, dtype=np.int64)
    bounds = np.cumsum(shares)[:-1]
    return np.where(where, np.searchsorted(bounds, rng.random(where.shape), side="right"), 0)
