"""Settings of the ListOps task: expressions whose values are numbers modulo n."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from trainables.base import SettingsError
from trainables.described import ADDED_LATER
from trainables.expressions.shape import check_whole
from trainables.expressions.task import ExpressionTask
from trainables.expressions.trees import Function
from trainables.listops.operations import FIRST_OPERATIONS, OPERATIONS, build_function
from trainables.listops.tokens import Vocabulary

LARGEST_MODULUS = 65_000
"""Token ids are stored in 16 bits; this leaves room for the tokens that are no numbers."""


@dataclass(frozen=True)
class TaskSettings(ExpressionTask):
    """The task, whole: two equal objects and a seed give the same data.

    ``modulus``
        Numbers are 0..modulus-1 and every operation is taken modulo it.
    ``operations``
        The operations that have a token, in the order of their tokens, whatever the mix. One that is not among the
        first eight must be named here by the search space that uses it.

    The others are those of :class:`trainables.expressions.shape.ExpressionShape`. Raises :class:`SettingsError` with
    the key ``task.<field>``.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}
    kind: ClassVar[str] = "listops"
    value_word: ClassVar[str] = "number"
    values_setting: ClassVar[str] = "task.modulus"

    modulus: int = 20
    operations: tuple[str, ...] = field(default=FIRST_OPERATIONS, metadata=ADDED_LATER)

    def __post_init__(self) -> None:
        check_whole("modulus", self.modulus, 2, LARGEST_MODULUS)
        for name in self.operations:
            if name not in OPERATIONS:
                raise SettingsError(
                    f"there is no operation {name!r}", key="task.operations", given=name, allowed=tuple(OPERATIONS)
                )
        if not self.operations or len(set(self.operations)) < len(self.operations):
            raise SettingsError("name at least one operation, each once", key="task.operations")
        super().__post_init__()

    @property
    def value_count(self) -> int:
        return self.modulus

    def tasks(self) -> tuple[str, ...]:
        return self.operations

    def subject(self) -> str:
        return f"modulus {self.modulus}"

    def groupings(self) -> dict[str, tuple[int, ...]]:
        """The residues of the numbers by each divisor of the modulus; none where it is prime."""
        divisors = [each for each in range(2, self.modulus) if self.modulus % each == 0]
        return {f"mod{each}": tuple(number % each for number in range(self.modulus)) for each in divisors}

    def values_in_order(self) -> bool:
        return True

    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.modulus, self.operations)

    def function(self, operation: str, seed: int) -> Function:
        return build_function(operation, self.modulus, seed)

    def blind(self) -> tuple[str, ...]:
        return tuple(name for name in self.operations if OPERATIONS[name].commutative)
