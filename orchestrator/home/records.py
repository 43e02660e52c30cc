"""A sweep and its finished runs as engine, tracking and report share them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from orchestrator.home.run_files import Storage
from orchestrator.space.spec import SweepSpec
from orchestrator.tuning.study import Tuning
from trainables.base import Outcome, RunConfig

ARRAYS = "arrays.npz"
"""Name of the file in a run's directory holding what is kept of the trained model."""
FIGURE = "transitions.png"
"""Name of the comparison figure in a sweep's directory."""
REPORT = "report.html"
"""Name of the page in a sweep's directory that tells it all."""


@dataclass(frozen=True)
class RunRecord:
    """One finished run of those that ``runs`` keeps. ``found_in`` is the id of the sweep it was trained for, ``""``
    where it was this one; ``at`` is when this sweep had it (ISO 8601, UTC), ``""`` where its journal does not say."""

    key: str
    config: RunConfig
    outcome: Outcome
    runs: Storage
    found_in: str = ""
    at: str = ""

    @cached_property
    def directory(self) -> Path:
        """What the run left, for reading: :data:`ARRAYS` where its family keeps some. Not there where it left
        nothing."""
        return self.runs.get(self.key)


@dataclass(frozen=True)
class Sweep:
    """One asking of one question. ``environment`` states versions, git state and hardware as plain JSON values;
    ``tunings`` what was tuned before, a mix each."""

    id: str
    spec: SweepSpec
    directory: Path
    created: str
    environment: dict[str, Any]
    tunings: tuple[Tuning, ...] = ()

    @property
    def fresh(self) -> bool:
        """True if every run is trained for it alone."""
        return bool(self.spec.salt)
