"""Messages between a campaign and its workers: jobs and reports, which Ray pickles unchanged.

Workers send a run's files in their reports, and only the driver writes them to the home.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.jobs.plan import Member, Setup
from orchestrator.jobs.resources import Resources
from trainables.base import Evaluation, Outcome, RunConfig


class DeviceLostError(Exception):
    """A process cannot use its GPU any more. The message is a sentence for the user; it says nothing about the runs."""


class FarewellError(Exception):
    """A worker has written a checkpoint and left its stack, which continues elsewhere. The message says why."""


@dataclass(frozen=True)
class StackJob:
    """The runs of a stack, and everything else that a worker needs.

    Attributes:
        setup: What the jobs of its sweep share.
        stack_id: Name of its checkpoint.
        keys: Keys of the runs in the driver. A worker whose code gives them other keys has other code.
        members: What the checkpoint says about each run, as JSON values.
        wanted: Indices in ``runs`` of the runs to train. The others have ended or are no longer wanted.
        resources: Resources of the stack: those of the sweep, or a larger share of a GPU if a run did not fit into it.
        donors: Weights (safetensors) from which the runs continue, by the donor's key.
    """

    setup: Setup
    stack_id: str
    runs: tuple[RunConfig, ...]
    keys: tuple[str, ...]
    members: tuple[Member, ...]
    wanted: tuple[int, ...]
    resources: Resources
    donors: dict[str, bytes] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return a name such as ``add+prod_add size 16 x6 1f2e3d4c``, which Tune keeps in the trial's tag."""
        labels = "_".join(dict.fromkeys(run.label for run in self.runs))
        return f"{labels} size {self.runs[0].size} x{len(self.runs)} {self.stack_id.rpartition('-')[2]}"


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
        steps: Steps that every unfinished run has trained, or 0 if unknown.
        halves: Keys of two smaller stacks that replace this stack, which did not fit into memory.
        needs_gpus: Share of a GPU that the stack's only run needs at least, because it did not fit into a smaller one.
        machine_error: The machine error that made the worker leave the stack.
        broken: Why the sweep must stop: the family broke its contract, or the worker has other code than the driver.
            A retry would fail in the same way.
    """

    runs: tuple[RunReport, ...] = ()
    steps: int = 0
    halves: Sequence[Sequence[str]] = ()
    needs_gpus: float = 0.0
    machine_error: str = ""
    broken: str = ""
    messages: tuple[str, ...] = ()
