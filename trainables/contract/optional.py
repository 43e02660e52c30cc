"""Members of a family that have defaults; override those you need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray

from trainables.contract.arms import Mix
from trainables.contract.runs import RunConfig, Words
from trainables.contract.tables import Integers


class OptionalMembers:
    """Members that a family may define."""

    settings: Any
    name: ClassVar[str]

    # How runs train.
    stacks: ClassVar[bool] = True
    """False if every run trains alone: ``learner`` then gets one run at a time."""
    tunable: ClassVar[tuple[str, ...]] = ()
    """Settings that may be tuned for each mix, by dotted name: numbers that affect how well a run trains, not what it
    learns or may spend."""
    parts: ClassVar[tuple[str, ...]] = ()
    """Parts of a model that a phase may freeze or take over from the previous phase. If empty, arms have one phase."""
    resizable: ClassVar[tuple[str, ...]] = ()
    """Parts that a phase may take over from a model of another size."""

    # For reports.
    compares_mixes: ClassVar[bool] = True
    """True if each mix is compared with the first; False if each mix is a separate question, such as a race."""
    words: ClassVar[Words] = Words()
    """The family's nouns and verbs for reports."""
    probes: ClassVar[tuple[str, ...]] = ()
    """Default probes (trainables/probes/) of a search space that lists none."""

    def check(self, mix: Mix, size: int) -> None:
        """Raise :class:`SettingsError` unless these settings can train a run of this mix and size."""

    def best_constant(self, task: str) -> float | None:
        """Return the approximate score of the best constant answer on a task, or None if it is unknown without data."""
        return None

    def warnings(self, sizes: Sequence[int]) -> list[str]:
        """Return caveats about results with these settings and sizes, which `plan` and `explain` print."""
        return []

    def training_step(self, device: str) -> str:
        """Return the name of the code that trains on this device, or ``""`` if there is no choice."""
        return ""

    def compiles(self, device: str) -> bool:
        """Return True if ``learner`` compiles on this device: slow, once per shape, and cached for other processes."""
        return False

    def memory(self, size: int) -> float:
        """Return one run's peak memory in a stack, in bytes rounded up, or 0 if unknown."""
        return 0.0

    def adjusted(self, values: Mapping[str, float]) -> Any:
        """Return the settings with other values, by dotted name; whole numbers are rounded.

        Raises:
            SettingsError: A value cannot be used.
            AttributeError: A name is unknown.
        """
        settings = self.settings
        for path, value in values.items():
            settings = _replaced(settings, path.split("."), value)
        return settings

    def subject(self) -> str:
        """Return what is learned in a few words, such as ``modulus 6``, for the heading of an answer, or ``""``."""
        return ""

    def items_in_order(self) -> bool:
        """Return True if the items (the rows of a model's arrays) have a meaningful order, as numbers do."""
        return True

    def groupings(self) -> dict[str, tuple[int, ...]]:
        """Return groupings of the items (the rows of a model's arrays) that matter to the tasks.

        A grouping has a name (``mod2``), which probes use in the names of numbers, and a label per item (0, 1, 0, 1,
        ...).
        """
        return {}

    def grouping_words(self) -> dict[str, str]:
        """Return words for items of different groups, by grouping: ``even and odd numbers`` for ``mod2``.

        Reports write "are apart" after them. They call a grouping without words by its name.
        """
        return {}

    def tables(self, tasks: Sequence[str], seed: int) -> dict[str, Integers] | None:
        """Return the tasks as tables (contract/tables.py) for a data seed; None if they are not functions of items."""
        return None

    def load(self, run: RunConfig, weights: Mapping[str, NDArray[Any]]) -> Any:
        """Return a run's trained model from its weights, on the CPU, of a type that the family chooses.

        Raises:
            ValueError: The weights have another shape.
            NotImplementedError: The family does not load models.
        """
        raise NotImplementedError(f"the family {self.name!r} does not load models: it has no method load(run, weights)")

    def data(self, run: RunConfig, cache: Path) -> Any:
        """Return the training and test data of a run, from ``cache`` or made there, of a type that the family chooses.

        Raises:
            NotImplementedError: The family does not expose its data.
        """
        raise NotImplementedError(f"the family {self.name!r} does not expose data: it has no method data(run, cache)")


def _replaced(settings: Any, path: Sequence[str], value: float) -> Any:
    old = getattr(settings, path[0])
    if len(path) > 1:
        return replace(settings, **{path[0]: _replaced(old, path[1:], value)})
    return replace(settings, **{path[0]: round(value) if isinstance(old, int) else float(value)})
