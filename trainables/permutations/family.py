"""Permutation products as a family: transformers of any width on mixes of operations on the elements of a group (arXiv
2505.18369 has them as its second testbed)."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainables.base import Words
from trainables.permutations.settings import TaskSettings
from trainables.transformer_family import OUTSIDE_CORE, TransformerFamily, TransformerSettings


@dataclass(frozen=True)
class PermutationSettings(TransformerSettings):
    """Everything but mix, size and seed."""

    task: TaskSettings = field(default_factory=TaskSettings)


class Permutations(TransformerFamily):
    """Transformers that learn products in a permutation group, and what is known of them; the size is ``n_embed``."""

    name = "permutations"
    version = 1
    Settings = PermutationSettings
    words = Words(task="operation", outside_core=OUTSIDE_CORE, item="element token", held="embeddings of the elements")
    settings: PermutationSettings

    def groupings(self) -> dict[str, tuple[int, ...]]:
        """Elements that are one token each by their sign, their order and the coset of ``task.subgroup`` they lie in,
        as far as these differ; none where elements are written as images."""
        task = self.settings.task
        return task.groupings() if task.elements == "token" else {}

    def grouping_words(self) -> dict[str, str]:
        return {name: f"elements of different {name}" for name in self.groupings()}

    def items_in_order(self) -> bool:
        """Powers of one rotation stand in their order, and so do the points it turns."""
        return self.settings.task.is_cyclic
