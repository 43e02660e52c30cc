"""Random expressions as trees, many at once.

A batch of B expressions is laid out in full k-ary trees, k = max_arguments. Level l has k**l slots; the children of
slot s are in slots k s .. k s + k - 1 of the next level. Most slots are empty; any level except the last may have
operations.

Shapes: B expressions, S = k**level slots of a level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from trainables.contract.tables import Function
from trainables.tasks.expressions import ExpressionTask
from trainables.tasks.held_out_tuples import HeldOut


@dataclass(frozen=True)
class Level:
    """One level of a batch of trees; all arrays are [B, S].

    ``present`` marks used slots, which have a ``value``. ``nested`` marks slots that are operations, with an
    ``operation`` (an index into the mix) and an ``arity``; the others are plain values.
    """

    present: NDArray[np.bool_]
    nested: NDArray[np.bool_]
    operation: NDArray[np.int64]
    arity: NDArray[np.int64]
    value: NDArray[np.int64]


Trees = tuple[Level, ...]
"""Levels from the root (a single slot) to the last, which has only plain values."""


def select(trees: Trees, chosen: NDArray[np.intp] | NDArray[np.bool_]) -> Trees:
    """Return a batch of the chosen expressions."""
    return tuple(Level(**{one.name: getattr(level, one.name)[chosen] for one in fields(Level)}) for level in trees)


@dataclass(frozen=True)
class Draw:
    """Random choice of operations by their ``shares`` in a mix.

    ``inner`` are the indices of the operations that may be arguments; inside an expression they are drawn by their
    shares among these. If ``inner`` is empty, nothing nests.
    """

    shares: Sequence[float]
    inner: Sequence[int]

    def root(self, where: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw the outermost operations, with 0 outside ``where``."""
        return _draw(self.shares, where, rng)

    def inside(self, where: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
        """Draw operations that are arguments of another operation, with 0 outside ``where``."""
        if len(self.inner) in (0, len(self.shares)):
            return _draw(self.shares, where, rng)
        shares = np.array(self.shares)[list(self.inner)]
        return np.array(self.inner)[_draw(shares / shares.sum(), where, rng)]


def grow(settings: ExpressionTask, draw: Draw, count: int, rng: np.random.Generator) -> Trees:
    """Return ``count`` random expressions: operations drawn by their shares, argument counts and values uniformly.

    They are not yet evaluated: values of operations are 0.
    """
    k = settings.max_arguments
    levels_of_operations = settings.levels if draw.inner else 1
    present = np.ones((count, 1), dtype=np.bool_)
    nested = present
    levels: list[Level] = []
    for depth in range(levels_of_operations + 1):
        level = Level(
            present=present,
            nested=nested,
            operation=draw.inside(nested, rng) if depth else draw.root(nested, rng),
            arity=np.where(nested, rng.integers(2, k + 1, nested.shape), 0),
            value=np.where(present & ~nested, rng.integers(settings.value_count, size=present.shape), 0),
        )
        levels.append(level)
        present = (np.arange(k) < level.arity[:, :, None]).reshape(count, -1)
        may_nest = depth + 1 < levels_of_operations
        nested = present & (rng.random(present.shape) < settings.nesting) if may_nest else np.zeros_like(present)
    return tuple(levels)


def flat(arguments: NDArray[np.int64]) -> Trees:
    """Return the mix's first operation on each argument list of ``arguments`` [B, k], not yet evaluated."""
    count, k = arguments.shape
    one = np.ones((count, 1), dtype=np.bool_)
    zero = np.zeros((count, 1), dtype=np.int64)
    none = np.zeros((count, k), dtype=np.int64)
    root = Level(one, one, zero, zero + k, zero.copy())
    return root, Level(none == 0, none != 0, none, none, arguments)


def evaluate(trees: Trees, functions: Sequence[Function]) -> None:
    """Set the values of all operations in place; ``functions`` are in the order of the mix."""
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


def count_operations(trees: Trees, operations: int) -> NDArray[np.int64]:
    """Return how often each of the mix's operations occurs in the batch, [operations]."""
    counts = np.zeros(operations, dtype=np.int64)
    for level in trees:
        counts += np.bincount(level.operation[level.nested], minlength=operations)
    return counts


def _arguments(level: Level, below: Level) -> NDArray[np.int64]:
    """Return the values [B, S, k] of every slot's children."""
    return below.value.reshape(*level.value.shape, -1)


def _draw(shares: Sequence[float], where: NDArray[np.bool_], rng: np.random.Generator) -> NDArray[np.int64]:
    if len(shares) == 1:
        return np.zeros(where.shape, dtype=np.int64)
    bounds = np.cumsum(shares)[:-1]
    return np.where(where, np.searchsorted(bounds, rng.random(where.shape), side="right"), 0)
