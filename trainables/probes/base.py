"""The contract of a probe, and the probes by name.

A probe outside this repository is any subclass of :class:`Probe`, named ``package.module:Class``.
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

from trainables.base import Family, RunConfig, SettingsError
from trainables.contract.file_hashes import hash_of_texts
from trainables.contract.names import find
from trainables.contract.sources import source_hash

RESULT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}")
"""Pattern of the names of probes and their numbers, which become files, columns and metrics."""

LARGEST_NUMBER = 1e100
"""Largest absolute value of a number of a probe. Sums and axes of larger numbers could overflow."""


@dataclass(frozen=True)
class Probed:
    """Results of a probe: finite ``numbers`` and ``arrays``, both by name. Omit an unknown number.

    Raises:
        ValueError: A number is not finite or above :data:`LARGEST_NUMBER`, an array contains Python objects, or a name
            does not match :data:`RESULT_NAME`.
    """

    numbers: Mapping[str, float] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in self.numbers.items():
            if not math.isfinite(value):
                raise ValueError(f"the number {name!r} is {value}; omit an unknown number")
            if abs(value) > LARGEST_NUMBER:
                raise ValueError(f"the number {name!r} is {value:g}; at most {LARGEST_NUMBER:g} is allowed")
        for name, array in self.arrays.items():
            if not isinstance(array, np.ndarray) or array.dtype.hasobject:
                kind = type(array).__name__
                raise ValueError(f"the array {name!r} is {kind}; it must be a numpy array of plain values")
        for name in (*self.numbers, *self.arrays):
            if not RESULT_NAME.fullmatch(name):
                raise ValueError(
                    f"the name {name!r} must be a letter or digit, then up to 63 letters, digits, '_', '-' or '.'"
                )


class Probe(ABC):
    """A probe of trained models. One instance, made without arguments, probes many runs in turn."""

    name: ClassVar[str]
    """Name of the probe and its results; it must match :data:`RESULT_NAME`."""
    version: ClassVar[int] = 1
    """Raise it when a change alters the results for the same model; older results are then recomputed. Results of other
    code are recomputed, too, if the probe is from outside this project."""
    needs_arrays: ClassVar[tuple[str, ...]] = ()
    """Names of the arrays of a run that the probe reads."""
    needs_model: ClassVar[bool] = False
    """True if the probe runs the model, which the family must be able to load."""
    needs_data: ClassVar[bool] = False
    """True if the probe reads the data of the run, which the family must expose."""

    named: str = ""
    """How a search space names it, ``module:Class``. The module may have made the class in another."""

    @property
    def source(self) -> str:
        """Hash of the code of a probe from outside this project, empty for a built-in one."""
        name = f"{type(self).__module__}:{type(self).__qualname__}"
        hashes = [source_hash(one) for one in dict.fromkeys(filter(None, (name, self.named)))]
        known = list(dict.fromkeys(filter(None, hashes)))
        return known[0] if len(known) == 1 else hash_of_texts(known)

    @abstractmethod
    def run(self, family: Family, run: RunConfig, model: Any, arrays: Mapping[str, NDArray[Any]], data: Any) -> Probed:
        """Probe one finished run.

        This is a pure function: the same arguments give the same result, and it writes no file. An exception becomes
        the probe's error and does not affect the run.

        Args:
            family: Family of the run.
            run: The run.
            model: Result of :meth:`Family.load`, None unless the probe needs it.
            arrays: Arrays that the family stores for the run.
            data: Result of :meth:`Family.data`, None unless the probe needs it.
        """


BUILT_IN = {
    "similarity": "trainables.probes.embeddings:Similarity",
    "separation": "trainables.probes.embeddings:Separation",
    "components": "trainables.probes.embeddings:Components",
    "mistakes": "trainables.probes.mistakes:Mistakes",
    "reliance": "trainables.probes.ablation:Reliance",
    "destruction": "trainables.probes.ablation:Destruction",
    "exchange": "trainables.probes.exchange:Exchange",
}
"""Short names of the probes in this repository."""


def load_probe(name: str) -> Probe:
    """Return the probe that a search space names: a built-in probe or ``package.module:Class``.

    Raises:
        SettingsError: The name does not stand for a complete :class:`Probe`. The error's key is ``probes``.
    """
    kind = find(name, BUILT_IN, Probe, kind="probe", key="probes")
    if not (isinstance(kind, type) and issubclass(kind, Probe)):
        raise SettingsError(f"{name!r} is not a subclass of trainables.probes.base.Probe", key="probes", given=name)
    if kind.__abstractmethods__ or not RESULT_NAME.fullmatch(getattr(kind, "name", "")):
        lacking = ", ".join(sorted(kind.__abstractmethods__)) or "a usable name"
        raise SettingsError(f"{name!r} is not a complete probe: it lacks {lacking}", key="probes", given=name)
    probe = kind()
    probe.named = BUILT_IN.get(name, name)
    return probe
