"""What tuning one mix came to: plain values, for the record and the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from orchestrator.space.tuning import Tuned
from orchestrator.tuning.objective import TuningRun


@dataclass(frozen=True)
class TuningTrial:
    """One set of values that was tried, with its runs so far. ``score`` is their objective, None before the first."""

    values: dict[str, float]
    runs: tuple[TuningRun, ...] = ()
    score: float | None = None


@dataclass(frozen=True)
class Tuning:
    """The trials of one mix in the order they were begun, the first at the settings as written, and what was chosen at
    ``sizes``: no settings at all in ``best`` where none was better than those."""

    mix: str
    key: str
    sizes: tuple[int, ...]
    trials: tuple[TuningTrial, ...]
    best: Tuned

    @property
    def seconds(self) -> float:
        """Training time of all trials."""
        return sum(run.seconds for trial in self.trials for run in trial.runs)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values; :meth:`from_json` is its inverse."""
        plain: dict[str, Any] = TypeAdapter(Tuning).dump_python(self, mode="json")
        return plain

    @classmethod
    def from_json(cls, data: Any) -> Tuning:
        """Read what :meth:`to_json` wrote. Raises ``ValueError`` for anything else."""
        return TypeAdapter(Tuning).validate_python(data)
