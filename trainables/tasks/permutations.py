"""Permutation products as a task: operations on the elements of a group (the second testbed of arXiv 2505.18369).

An operation is a function of the product of its arguments: ``product`` itself, or one of its properties (the auxiliary
operations on sub-blocks of the paper). To add an operation, add its name at the end of ``OPERATIONS`` and its codes.
Codes of results are, in order: the N elements, the d points, even and odd, the orders of elements (ascending).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from trainables.base import Mix, SettingsError
from trainables.contract.tables import Function, Integers
from trainables.tasks.expression_task import ExpressionTask
from trainables.tasks.permutation_groups import is_odd, named_group
from trainables.transformer.vocabulary import ExpressionVocabulary

OPERATIONS = ("product", "image", "sign", "order", "coset")
"""All operations by name, in the order of their tokens."""
GIVE_ELEMENTS = ("product", "coset")
"""Operations whose result is an element."""
SIGNS = ("+", "-")
"""Tokens for the sign of a permutation: even and odd."""


@dataclass(frozen=True)
class TaskSettings(ExpressionTask):
    """Products in a permutation group. Raises :class:`SettingsError` with the key ``task.<field>``."""

    kind: ClassVar[str] = "permutations"
    value_word: ClassVar[str] = "element"
    values_setting: ClassVar[str] = "the order of task.group"

    group: str = "S3"
    """The group: all permutations of 3 to 6 points (``S3`` to ``S6``). An expression has up to ``max_arguments``
    factors."""
    point: int = 0
    """The point whose image under the product is the result of the operation ``image``."""
    subgroup: str | None = None
    """The subgroup H for ``coset``: the rotations (``C4``) or symmetries (``D4``) of a polygon of the first points. The
    operation ``coset`` reports the left coset x H of the product x by its first element. None if no mix contains it."""

    def __post_init__(self) -> None:
        group = named_group(self.group)
        self._require("point", 0 <= self.point < group.points, f"at least 0 and at most {group.points - 1}")
        if self.subgroup is not None:
            group.subgroup(self.subgroup)
        super().__post_init__()

    @property
    def value_count(self) -> int:
        return named_group(self.group).order

    def tasks(self) -> tuple[str, ...]:
        return OPERATIONS

    def check_mix(self, mix: Mix) -> None:
        super().check_mix(mix)
        if "coset" in mix.tasks and self.subgroup is None:
            needed = f"task.subgroup: the subgroup of {self.group} whose cosets it reports"
            raise SettingsError(f"the operation 'coset' needs {needed}", key="task.subgroup")

    def vocabulary(self) -> ExpressionVocabulary:
        """Return elements (``[1 0 2]``), points (``0``), signs, orders (``#2``), operations and ``( ) = <eos>``."""
        return _vocabulary(self.group)

    def stackable(self) -> Any:
        return [self.group, "token"] + ([] if self.decoding == "greedy" else [self.decoding])

    def described(self) -> dict[str, Any]:
        """Add ``elements: token``. Earlier versions let users choose it, and run keys must stay the same."""
        return super().described() | {"elements": "token"}

    def function(self, operation: str, seed: int) -> Function:
        group = named_group(self.group)
        codes = self.codes(operation)
        assert codes is not None, "the mix was checked"
        return lambda arguments: codes[group.product(arguments)]

    def gives_values(self, operation: str) -> bool:
        return operation in GIVE_ELEMENTS

    def codes(self, operation: str) -> Integers | None:
        """Return the code of an operation for each product, [N], or None if the operation needs a subgroup and none is
        set."""
        group = named_group(self.group)
        signs = group.order + group.points
        match operation:
            case "product":
                return np.arange(group.order)
            case "image":
                return group.order + group.images[:, self.point]
            case "sign":
                return signs + is_odd(group.images)
            case "order":
                return signs + len(SIGNS) + np.searchsorted(np.unique(group.orders), group.orders)
            case "coset":
                return None if self.subgroup is None else group.table[:, group.subgroup(self.subgroup)].min(axis=1)
        raise KeyError(operation)


@lru_cache
def _vocabulary(group_name: str) -> ExpressionVocabulary:
    group = named_group(group_name)
    elements = [f"[{' '.join(map(str, row))}]" for row in group.images.tolist()]
    orders = (f"#{order}" for order in np.unique(group.orders).tolist())
    return ExpressionVocabulary(elements, OPERATIONS, (*map(str, range(group.points)), *SIGNS, *orders))
