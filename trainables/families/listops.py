"""Transformers of any width on mixes of nested arithmetic (arXiv 2505.18369, section 3)."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainables.base import Words
from trainables.families.transformer import TransformerFamily, TransformerSettings
from trainables.tasks.listops import TaskSettings


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
