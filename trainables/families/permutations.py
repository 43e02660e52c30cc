"""Transformers of any width on products in a permutation group and functions of them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from trainables.base import Words
from trainables.families.transformer import TransformerFamily, TransformerSettings
from trainables.tasks.permutations import TaskSettings


@dataclass(frozen=True)
class PermutationSettings(TransformerSettings):
    """All settings except mix, size and seed."""

    task: TaskSettings = field(default_factory=TaskSettings)


class Permutations(TransformerFamily):
    """Transformers that learn products in a permutation group and functions of them; the size is ``n_embed``."""

    name = "permutations"
    version = 1
    Settings = PermutationSettings
    items_in_order = False
    words = Words(size="model width", task="operation", item="element token", held="embeddings of the elements")
    settings: PermutationSettings

    def subject(self) -> str:
        return f"group {self.settings.task.group}"

    def groupings(self) -> dict[str, tuple[int, ...]]:
        """Return each element's value of the auxiliary operations that separate some elements but not all."""
        codes_of = {name: self.settings.task.codes(name) for name in ("sign", "order", "coset")}
        return {
            name: tuple(np.unique(codes, return_inverse=True)[1].tolist())
            for name, codes in codes_of.items()
            if codes is not None
        }

    def grouping_words(self) -> dict[str, str]:
        return {name: f"elements of different {name}" for name in self.groupings()}
