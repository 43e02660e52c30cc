"""What travels between driver and workers: a stack's job one way, its reports the other. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from orchestrator.search.base import Request
from trainables.base import Evaluation, Outcome


@dataclass(frozen=True)
class StackJob:
    """Everything a worker needs. ``runs`` and ``checkpoints`` are addresses of storages."""

    space: dict[str, Any]
    requests: tuple[Request, ...]
    runs: str
    checkpoints: str
    sweep_id: str
    stack_id: str

    def to_config(self) -> dict[str, Any]:
        """The job as a trial's config, without the space that all trials share."""
        return {name: value for name, value in asdict(self).items() if name != "space"}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> StackJob:
        """The inverse of :meth:`to_config`, the space being put back among the rest."""
        requests = tuple(map(Request.from_json, config["requests"]))
        return cls(**{**config, "requests": requests})


@dataclass(frozen=True)
class RunReport:
    """What the driver hears about one run of a stack."""

    key: str
    evaluation: Evaluation | None
    outcome: Outcome | None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "key": self.key,
            "evaluation": None if self.evaluation is None else asdict(self.evaluation),
            "outcome": None if self.outcome is None else self.outcome.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunReport:
        """The inverse of :meth:`to_json`."""
        evaluation, outcome = data["evaluation"], data["outcome"]
        return cls(
            data["key"],
            None if evaluation is None else Evaluation(**evaluation),
            None if outcome is None else Outcome.from_json(outcome),
        )


@dataclass(frozen=True)
class StackReport:
    """What the driver hears from a worker at a time. ``halves`` is empty, or the stack was too large for the device's
    memory and these smaller ones are to go on in its place. ``trouble`` is ``""``, or what was wrong with the machine
    so that the worker gave the stack up: it can be tried again, unless it is ``lasting``. ``broken`` is ``""``, or what
    its family did that no family may, which would be the same again. ``said`` are sentences for the user."""

    runs: tuple[RunReport, ...] = ()
    halves: tuple[tuple[Request, ...], ...] = ()
    trouble: str = ""
    lasting: bool = False
    broken: str = ""
    said: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "runs": [run.to_json() for run in self.runs],
            "halves": [[asdict(request) for request in half] for half in self.halves],
            "trouble": self.trouble,
            "lasting": self.lasting,
            "broken": self.broken,
            "said": list(self.said),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StackReport:
        """The inverse of :meth:`to_json`."""
        return cls(
            tuple(RunReport.from_json(run) for run in data["runs"]),
            tuple(tuple(map(Request.from_json, half)) for half in data["halves"]),
            data["trouble"],
            data["lasting"],
            data["broken"],
            tuple(data["said"]),
        )
