"""Messages between a campaign and its workers: a stack's job one way, reports the other. Ray pickles them as they are.

A worker writes nothing that another machine reads: a run's files travel in its report, and the driver writes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from orchestrator.search.base import Request
from trainables.base import Evaluation, Outcome


@dataclass(frozen=True)
class StackJob:
    """All that a worker needs to train a stack of a sweep.

    ``wanted`` are the indices in ``requests`` of the runs to train: the others have ended or are no longer wanted.
    ``directory`` is the sweep's on the driver's machine. ``donors`` are the weights (safetensors) that its runs
    continue from, by the donors' keys.
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
        """Return the name, since Tune makes a trial's tag of this and keeps it."""
        return self.name

    def __deepcopy__(self, memo: Mapping[int, Any]) -> Self:
        """Return this object, since Tune would keep a copy for every trial."""
        return self


@dataclass(frozen=True)
class RunReport:
    """One run of a stack. ``files`` of a run that ended are its weights, arrays and probe results, by their paths in
    its directory."""

    key: str
    evaluation: Evaluation | None
    outcome: Outcome | None
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class StackReport:
    """A worker's report between two evaluations.

    Attributes:
        runs: The runs that came to an evaluation or ended.
        halves: Two smaller stacks that continue in place of this one, which did not fit into memory.
        machine_error: A failure of the machine, for which the worker left the stack.
        broken: How the family broke its contract. It would do so again.
        messages: Sentences for the user.
    """

    runs: tuple[RunReport, ...] = ()
    halves: Sequence[Sequence[Request]] = ()
    machine_error: str = ""
    broken: str = ""
    messages: tuple[str, ...] = ()
