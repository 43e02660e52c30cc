"""ListOps as a family: transformers of any width on mixes of nested arithmetic (arXiv 2505.18369, section 3)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from trainables.base import SettingsError, Words
from trainables.contract.settings import ADDED_LATER
from trainables.contract.tables import Function
from trainables.tasks import stream
from trainables.tasks.expression_task import ExpressionTask, ExpressionVocabulary
from trainables.tasks.operations import FIRST_OPERATIONS, OPERATIONS
from trainables.transformer.family import TransformerFamily, TransformerSettings


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


@dataclass(frozen=True)
class ListOpsSettings(TransformerSettings):
    """All settings except mix, size and seed."""

    task: TaskSettings = field(default_factory=TaskSettings)


class ListOps(TransformerFamily):
    """Transformers that learn nested arithmetic modulo n; the size is ``n_embed``."""

    name = "listops"
    version = 1
    Settings = ListOpsSettings
    words = Words(
        size="model width", task="operation", item="number token", cyclic=True, held="embeddings of the numbers"
    )
    settings: ListOpsSettings

    def subject(self) -> str:
        return f"modulus {self.settings.task.modulus}"

    def groupings(self) -> dict[str, tuple[int, ...]]:
        """Return the residues of the numbers by each divisor of the modulus; there are none for a prime modulus."""
        modulus = self.settings.task.modulus
        divisors = [divisor for divisor in range(2, modulus) if modulus % divisor == 0]
        return {f"mod{divisor}": tuple(number % divisor for number in range(modulus)) for divisor in divisors}

    def grouping_words(self) -> dict[str, str]:
        other = "numbers of different remainders modulo"
        words = {name: f"{other} {name.removeprefix('mod')}" for name in self.groupings()}
        return words | ({"mod2": "even and odd numbers"} if "mod2" in words else {})
