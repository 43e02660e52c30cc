"""What a family tells reports and probes: words, groupings of the items, models, data. Every member has a default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray

from trainables.contract.runs import RunConfig
from trainables.contract.tables import Integers
from trainables.contract.words import Words


class ReportTraits:
    """How reports describe a family's results, and what probes measure."""

    name: ClassVar[str]
    """Every family defines it."""
    compares_mixes: ClassVar[bool] = True
    """True if each mix is compared with the first mix. False if each mix is a separate question, such as a race."""
    items_in_order: ClassVar[bool] = True
    """True if the items (the rows of a model's arrays) have a meaningful order, as numbers do."""
    words: ClassVar[Words] = Words()
    """The family's nouns and verbs for reports."""
    probes: ClassVar[tuple[str, ...]] = ()
    """Default probes (trainables/probes/) of a search space that lists none."""

    def subject(self) -> str:
        """Return the subject of the tasks in a few words, such as ``modulus 6``, for the heading of an answer.

        Return an empty string to omit it.
        """
        return ""

    def groupings(self) -> dict[str, tuple[int, ...]]:
        """Return groupings of the items that matter to the tasks: a label per item (0, 1, 0, 1, ...), by name.

        A name such as ``mod2`` becomes part of the names of probes' numbers.
        """
        return {}

    def grouping_words(self) -> dict[str, str]:
        """Return the noun phrase for items of different groups, by grouping: ``even and odd numbers`` for ``mod2``.

        Reports write "are apart" after it. For a grouping without a phrase, they use its name.
        """
        return {}

    def tables(self, tasks: Sequence[str], seed: int) -> dict[str, Integers] | None:
        """Return the tasks as tables (contract/tables.py) for a data seed, or None if they are not functions of
        items."""
        return None

    def load(self, run: RunConfig, weights: Mapping[str, NDArray[Any]]) -> Any:
        """Return a run's trained model from its weights, on the CPU. The family chooses the type of the model.

        Raises ``ValueError`` for weights of another shape.
        """
        raise NotImplementedError(f"the family {self.name!r} does not load models: it has no method load(run, weights)")

    def data(self, run: RunConfig, cache: Path) -> Any:
        """Return a run's training and test data, from ``cache`` or made there. The family chooses their type."""
        raise NotImplementedError(f"the family {self.name!r} does not expose data: it has no method data(run, cache)")
