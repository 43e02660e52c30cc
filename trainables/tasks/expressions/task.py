"""Nested expressions as a task: what a family adds to their shape is the values, the operations and the words."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from trainables.base import Mix, SettingsError
from trainables.contract.tables import TaskTables
from trainables.tasks.expressions.data import make_dataset
from trainables.tasks.expressions.shape import FEW_HELD_OUT, ExpressionShape
from trainables.tasks.expressions.trees import Function
from trainables.tasks.expressions.vocabulary import ExpressionVocabulary
from trainables.transformer.text_task import Alphabet, Dataset, TextTask

TABLE_ENTRIES = 2_000_000
"""A table of three arguments holds S5, of 120 elements, and not much more."""


@dataclass(frozen=True)
class ExpressionTask(ExpressionShape, TextTask):
    """The task, whole: two equal objects, a mix and a seed give the same data."""

    generator_version: ClassVar[int] = 2

    @abstractmethod
    def vocabulary(self) -> ExpressionVocabulary:
        """The tokens of its texts, whatever the mix."""

    @abstractmethod
    def function(self, operation: str, seed: int) -> Function:
        """Function of an operation; random tables depend on the seed. Raises ``KeyError`` for an unknown one."""

    @abstractmethod
    def blind(self) -> tuple[str, ...]:
        """The operations whose value does not depend on the order of their arguments."""

    def groupings(self) -> dict[str, tuple[int, ...]]:
        """Ways to divide the values into groups that the operations know: by name, a label a value."""
        return {}

    def values_in_order(self) -> bool:
        """True if the values are the numbers modulo their count, in their order."""
        return False

    def tables(self, tasks: Sequence[str], seed: int) -> TaskTables:
        """What each operation makes of every ordered tuple of values, of at most three and so few that a table has at
        most :data:`TABLE_ENTRIES` entries (of two in any case)."""
        most = min(self.max_arguments, 3)
        count = most if self.value_count**most <= TABLE_ENTRIES else 2
        every = np.stack(np.meshgrid(*[np.arange(self.value_count)] * count, indexing="ij"), axis=-1)
        values = {task: self.function(task, seed)(every) for task in tasks}
        return TaskTables(values, self.groupings(), self.values_in_order())

    def gives_values(self, operation: str) -> bool:
        """True if an operation gives a value again, so that it may be an argument of another."""
        return True

    def check_mix(self, mix: Mix) -> None:
        for task in mix.tasks:
            if task not in self.tasks():
                raise SettingsError(
                    f"there is no operation {task!r}", key="mixes", given=task, allowed=tuple(self.tasks())
                )

    def texts(self) -> str:
        return f"expressions of depth {self.depth} with up to {self.max_arguments} arguments"

    def words(self) -> tuple[str, ...]:
        return self.vocabulary().words

    def alphabet(self) -> Alphabet:
        vocabulary = self.vocabulary()
        return Alphabet(len(vocabulary), vocabulary.items, vocabulary.eos, vocabulary.equals)

    @property
    def longest_text(self) -> int:
        return self.longest_expression

    def stackable(self) -> Any:
        return self.value_count

    def with_examples(self, factor: float) -> Self:
        if factor == 1:
            return self
        return replace(self, train_examples=max(1, round(self.training_examples * factor)))

    def make_dataset(self, mix: Mix, seed: int) -> Dataset:
        return make_dataset(self, mix, seed)

    def warnings(self) -> list[str]:
        said = []
        count = self.held_out_tuples
        if count < FEW_HELD_OUT:
            what = f"multisets of {self.max_arguments} {self.value_word}s"
            what = what if self.held_out == "unordered" else f"{self.value_word} tuples"
            scored = count - count // 2
            said.append(
                f"Few test cases: {scored} {what}, so accuracy moves in steps of {1 / scored:.2g} "
                "(raise task.held_out_fraction)."
            )
        if self.held_out == "ordered" and self.blind():
            said.append(
                f"Leak: held_out is 'ordered' and {', '.join(self.blind())} ignore the order of their arguments "
                "(task.held_out=unordered closes it)."
            )
        return said
