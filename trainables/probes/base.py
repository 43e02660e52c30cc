"""The contract of a probe, and the probes by name.

A probe outside this repository is any class that subclasses :class:`Probe`, named ``package.module:Class``.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trainables.base import Family, RunConfig, SettingsError, find

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}")
"""Names of probes and of their numbers: they become files, columns and metrics."""


@dataclass(frozen=True)
class Probed:
    """The findings of a probe: ``numbers`` by name, finite (what is not known is left out), and ``arrays`` by name.

    Raises ``ValueError`` for a number that is not finite, an array of Python objects, or a name that no file or metric
    could have.
    """

    numbers: Mapping[str, float] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in self.numbers.items():
            if not math.isfinite(value):
                raise ValueError(f"the number {name!r} is {value}; leave out what is not known")
        for name, array in self.arrays.items():
            if not isinstance(array, np.ndarray) or array.dtype.hasobject:
                raise ValueError(f"the array {name!r} is {type(array).__name__}; give a numpy array of plain values")
        for name in (*self.numbers, *self.arrays):
            if not NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name: letters, digits, '_', '-' and '.', 64 at most")


class Probe(ABC):
    """A look inside a trained model. Made without arguments; asked about many runs, one after another."""

    name: ClassVar[str]
    """The name of its results: see :data:`NAME`."""
    version: ClassVar[int] = 1
    """Raise it when a change alters what the same model gives: older results are then made anew."""
    needs_arrays: ClassVar[tuple[str, ...]] = ()
    """Arrays that the run must have left, of those its family keeps."""
    needs_model: ClassVar[bool] = False
    """True if it asks the model itself: the family must be able to load it."""
    needs_data: ClassVar[bool] = False
    """True if it looks at what the run was trained and scored on: the family must hand it out."""

    @abstractmethod
    def run(self, family: Family, run: RunConfig, model: Any, arrays: Mapping[str, NDArray[Any]], data: Any) -> Probed:
        """Look at one run that finished. A pure function: the same arguments give the same result, and no file is
        written.

        ``model`` is what :meth:`Family.load` gives and ``data`` what :meth:`Family.data` gives, None unless the probe
        says that it needs them; ``arrays`` are those that the family keeps of a run. Whatever it raises is written down
        as the probe's error; the run is not touched by it.
        """


BUILT_IN = {
    "similarity": "trainables.probes.embeddings:Similarity",
    "separation": "trainables.probes.embeddings:Separation",
    "components": "trainables.probes.embeddings:Components",
    "manifold": "trainables.probes.embeddings:Manifold",
    "mistakes": "trainables.probes.mistakes:Mistakes",
    "reliance": "trainables.probes.ablation:Reliance",
    "destruction": "trainables.probes.ablation:Destruction",
    "exchange": "trainables.probes.exchange:Exchange",
}
"""Short names of the probes that come with the project."""


def load_probe(name: str) -> Probe:
    """The probe a search space names: a built-in one or ``package.module:Class``.

    Raises :class:`SettingsError` (key ``probes``) for anything that is not a complete :class:`Probe`.
    """
    found = find(name, BUILT_IN, kind="probe", key="probes")
    if not (isinstance(found, type) and issubclass(found, Probe)):
        raise SettingsError(f"{name!r} is not a subclass of trainables.probes.base.Probe", key="probes", given=name)
    if found.__abstractmethods__ or not NAME.fullmatch(getattr(found, "name", "")):
        lacking = ", ".join(sorted(found.__abstractmethods__)) or "a usable name"
        raise SettingsError(f"{name!r} is no complete probe: it lacks {lacking}", key="probes", given=name)
    return found()
