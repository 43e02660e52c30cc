"""ListOps as a family: transformers of any width on mixes of nested arithmetic (arXiv 2505.18369, section 3)."""

from __future__ import annotations

from dataclasses import dataclass, field

from trainables.base import Words
from trainables.listops.settings import TaskSettings
from trainables.transformer_family import OUTSIDE_CORE, TransformerFamily, TransformerSettings


@dataclass(frozen=True)
class ListOpsSettings(TransformerSettings):
    """Everything but mix, size and seed."""

    task: TaskSettings = field(default_factory=TaskSettings)


class ListOps(TransformerFamily):
    """Transformers that learn nested arithmetic modulo n; the size is ``n_embed``."""

    name = "listops"
    version = 1
    Settings = ListOpsSettings
    words = Words(
        task="operation", outside_core=OUTSIDE_CORE, item="number token", cyclic=True, held="embeddings of the numbers"
    )
    settings: ListOpsSettings

    def groupings(self) -> dict[str, tuple[int, ...]]:
        return self.settings.task.groupings()

    def grouping_words(self) -> dict[str, str]:
        moduli = {name: name.removeprefix("mod") for name in self.groupings()}
        of_remainders = {name: f"numbers of different remainders modulo {modulus}" for name, modulus in moduli.items()}
        return of_remainders | ({"mod2": "even and odd numbers"} if "mod2" in moduli else {})
