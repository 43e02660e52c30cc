"""ListOps as a task: nested arithmetic modulo a number (arXiv 2505.18369, section 3). See also operations.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from trainables.base import SettingsError
from trainables.contract.settings import ADDED_LATER
from trainables.contract.tables import Function
from trainables.tasks import stream
from trainables.tasks.expression_task import ExpressionTask
from trainables.tasks.operations import FIRST_OPERATIONS, OPERATIONS
from trainables.transformer.vocabulary import ExpressionVocabulary


@dataclass(frozen=True)
class TaskSettings(ExpressionTask):
    """Arithmetic modulo a number. Raises :class:`SettingsError` with the key ``task.<field>``."""

    kind: ClassVar[str] = "listops"
    value_word: ClassVar[str] = "number"
    values_setting: ClassVar[str] = "task.modulus"

    modulus: int = 20
    """Numbers are 0..modulus-1, and operations are modulo this number."""
    operations: tuple[str, ...] = field(default=FIRST_OPERATIONS, metadata=ADDED_LATER)
    """Operations that have a token, in the order of their tokens, for every mix. A mix may contain only
    these operations."""

    def __post_init__(self) -> None:
        self._require("modulus", self.modulus >= 2, "at least 2")
        for name in [name for name in self.operations if name not in OPERATIONS]:
            message = f"there is no operation {name!r}"
            raise SettingsError(message, key="task.operations", given=name, allowed=tuple(OPERATIONS))
        if not self.operations or len(set(self.operations)) < len(self.operations):
            raise SettingsError("list at least one operation, and each only once", key="task.operations")
        super().__post_init__()

    @property
    def value_count(self) -> int:
        return self.modulus

    def tasks(self) -> tuple[str, ...]:
        return self.operations

    def vocabulary(self) -> ExpressionVocabulary:
        return ExpressionVocabulary([str(number) for number in range(self.modulus)], self.operations)

    def function(self, operation: str, seed: int) -> Function:
        return OPERATIONS[operation].build(self.modulus, stream(seed, "operation", operation))

    def commutes(self) -> bool:
        return any(OPERATIONS[name].commutative for name in self.operations)
