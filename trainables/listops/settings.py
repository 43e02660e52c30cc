"""What ListOps is asked to be: expressions whose values are numbers modulo n."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trainables.expressions.shape import check_whole
from trainables.expressions.task import ExpressionTask
from trainables.expressions.trees import Function
from trainables.listops.operations import OPERATIONS, build_function
from trainables.listops.tokens import Vocabulary

LARGEST_MODULUS = 65_000
"""Token ids are stored in 16 bits; this leaves room for the tokens that are no numbers."""


@dataclass(frozen=True)
class TaskSettings(ExpressionTask):
    """The task, whole: two equal objects and a seed give the same data.

    ``modulus``
        Numbers are 0..modulus-1 and every operation is taken modulo it.

    The others are those of :class:`trainables.expressions.shape.ExpressionShape`. Raises :class:`SettingsError` with
    the key ``task.<field>``.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}
    kind: ClassVar[str] = "listops"
    value_word: ClassVar[str] = "number"
    values_setting: ClassVar[str] = "task.modulus"

    modulus: int = 20

    def __post_init__(self) -> None:
        check_whole("modulus", self.modulus, 2, LARGEST_MODULUS)
        super().__post_init__()

    @property
    def value_count(self) -> int:
        return self.modulus

    def tasks(self) -> tuple[str, ...]:
        return tuple(OPERATIONS)

    def subject(self) -> str:
        return f"modulus {self.modulus}"

    def groupings(self) -> dict[str, tuple[int, ...]]:
        """The residues of the numbers by each divisor of the modulus; none where it is prime."""
        divisors = [each for each in range(2, self.modulus) if self.modulus % each == 0]
        return {f"mod{each}": tuple(number % each for number in range(self.modulus)) for each in divisors}

    def values_in_order(self) -> bool:
        return True

    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.modulus)

    def function(self, operation: str, seed: int) -> Function:
        return build_function(operation, self.modulus, seed)

    def blind(self) -> tuple[str, ...]:
        return tuple(operation.name for operation in OPERATIONS.values() if operation.commutative)
