"""What a stack of tuning's runs needs to be trained, and where its runs are kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orchestrator.store.files import Home, write_whole
from orchestrator.tuning.objective import TuningRun


@dataclass(frozen=True)
class TuningJob:
    """One stack, as plain values that travel between machines.

    ``runs`` are, each, a trial's number, what is tuned in it (a ``Tuned`` as plain values) and a seed; all are of one
    ``size`` and of one shape. ``name`` is the stack's.
    """

    space: dict[str, Any]
    mix: str
    size: int
    runs: tuple[tuple[int, dict[str, Any], int], ...]
    home: str
    study: str
    name: str

    def to_config(self) -> dict[str, Any]:
        """The job as a Tune trial's config."""
        return asdict(self)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> TuningJob:
        """The inverse of :meth:`to_config`."""
        return cls(**{**config, "runs": tuple((number, tuned, seed) for number, tuned, seed in config["runs"])})


def run_file(home: Home, study: str, key: str) -> Path:
    """Where a finished run of a study lies, by the run's key."""
    return home.study(study) / "runs" / f"{key}.json"


def write_run(path: Path, run: TuningRun) -> None:
    """Keep a finished run."""
    write_whole(path, json.dumps(asdict(run)))


def read_run(path: Path) -> TuningRun:
    """A finished run."""
    return TuningRun(**json.loads(path.read_text(encoding="utf-8")))
