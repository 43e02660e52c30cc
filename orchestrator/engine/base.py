"""Messages between a campaign and its workers: a stack's job one way, reports the other. Ray pickles them as they are.

A worker writes nothing that another machine reads: what a run leaves travels in its report, and the driver writes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from orchestrator.errors import SweepError
from orchestrator.search.base import Request
from trainables.base import Evaluation, Outcome


class MachineError(SweepError):
    """The machine failed, not the sweep: it can be resumed."""


@dataclass(frozen=True)
class StackJob:
    """All that a worker needs to train a stack of a sweep.

    ``wanted`` are the places in ``requests`` of the runs to train: the others have ended, or are wanted no more.
    ``directory`` is the sweep's on the driver's machine. ``donors`` are the weights (safetensors) that its runs go on
    from, by the donors' keys.
    """

    requests: tuple[Request, ...]
    wanted: tuple[int, ...]
    sweep_id: str
    stack_id: str
    directory: str
    donors: dict[str, bytes] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The stack's name for people: ``add+prod_add size 16 x6 1f2e3d4c``."""
        mixes = "_".join(dict.fromkeys(request.mix for request in self.requests))
        return f"{mixes} size {self.requests[0].size} x{len(self.requests)} {self.stack_id.rpartition('-')[2]}"

    def __str__(self) -> str:
        """The name: Tune makes a trial's tag of this, and keeps it."""
        return self.name

    def __deepcopy__(self, seen: Mapping[int, Any]) -> Self:
        """This very job: Tune copies what it is given, and keeps the copies of every trial there was."""
        return self


@dataclass(frozen=True)
class RunReport:
    """One run of a stack. ``files`` are what a run that ended leaves in addition to its outcome, by their paths in its
    directory."""

    key: str
    evaluation: Evaluation | None
    outcome: Outcome | None
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class StackReport:
    """A worker's report between two evaluations.

    ``halves``: the stack was too large for the device's memory, and these smaller ones go on in its place.
    ``machine_error``: the machine failed, and the worker gave the stack up for now. ``broken``: the family broke its
    contract, and would again. ``said``: sentences for the user.
    """

    runs: tuple[RunReport, ...] = ()
    halves: Sequence[Sequence[Request]] = ()
    machine_error: str = ""
    broken: str = ""
    said: tuple[str, ...] = ()
