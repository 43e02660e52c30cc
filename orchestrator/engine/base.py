"""Messages between a campaign and its workers: jobs and reports, which Ray pickles unchanged.

Workers send a run's files in their reports, and only the driver writes them to the home.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from orchestrator.search.base import Request
from trainables.base import Evaluation, Outcome


class DeviceLostError(Exception):
    """A process cannot use its GPU any more. The message is a sentence for the user; it says nothing about the runs."""


@dataclass(frozen=True)
class StackJob:
    """Everything that a worker needs to train a stack of a sweep.

    Attributes:
        wanted: Indices in ``requests`` of the runs to train. The others have ended or are no longer wanted.
        directory: The sweep's directory on the driver's machine.
        donors: Weights (safetensors) from which the runs continue, by the donor's key.
        keys: Keys of the runs in the driver, or empty if they are not compared with the worker's.
        version: Version of the family in the driver.
    """

    requests: tuple[Request, ...]
    wanted: tuple[int, ...]
    sweep_id: str
    stack_id: str
    directory: str
    donors: dict[str, bytes] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    version: int = 0
    source: str = ""
    """Hash of the family's source in the driver, or "" if it is unknown."""

    def __str__(self) -> str:
        """Return a name such as ``add+prod_add size 16 x6 1f2e3d4c``, which Tune keeps in the trial's tag."""
        mixes = "_".join(dict.fromkeys(request.mix for request in self.requests))
        return f"{mixes} size {self.requests[0].size} x{len(self.requests)} {self.stack_id.rpartition('-')[2]}"

    def __deepcopy__(self, memo: Mapping[int, Any]) -> Self:
        """Return the job itself, because Tune would keep a copy for every trial."""
        return self


@dataclass(frozen=True)
class RunReport:
    """Report on one run. When the run ends, ``files`` has its weights, arrays and probe results by relative path."""

    key: str
    evaluation: Evaluation | None
    outcome: Outcome | None
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class StackReport:
    """A worker's report on the ``runs`` that were evaluated or ended, with ``messages`` for the user.

    Attributes:
        halves: Two smaller stacks that replace this stack, which did not fit into memory.
        machine_error: The machine error that made the worker leave the stack.
        broken: Why the sweep must stop: the family broke its contract, or the worker has other code than the driver.
            A retry would fail in the same way.
    """

    runs: tuple[RunReport, ...] = ()
    halves: Sequence[Sequence[Request]] = ()
    machine_error: str = ""
    broken: str = ""
    messages: tuple[str, ...] = ()
