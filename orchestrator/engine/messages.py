"""Messages between a campaign and its workers: jobs and reports. They can be pickled.

Workers send a run's files in their reports. Only the driver writes them to the home.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.jobs.plan import Member, SweepSetup
from orchestrator.jobs.resources import Resources
from trainables.base import Evaluation, Outcome, RunConfig


class DeviceLostError(Exception):
    """A process can no longer use its GPU, which is not the runs' fault. The message is a sentence for the user."""


class FarewellError(Exception):
    """A worker has saved a checkpoint and left its stack, which continues elsewhere. The message is the reason."""


@dataclass(frozen=True)
class StackJob:
    """The runs of a stack, and everything else that a worker needs.

    Attributes:
        setup: Values that all jobs of the sweep share.
        stack_id: Id of the stack, and the name of its checkpoint.
        runs: Configurations of the runs.
        keys: Keys of the runs that the driver computed. If a worker computes different keys, its code differs from the
            driver's.
        members: JSON values for the checkpoint, from which the plan makes the job of each run again.
        wanted: Indices in ``runs`` of the runs to train. The others have ended or are no longer wanted.
        resources: Resources of the stack. Its share of a GPU is larger than the sweep's if a run did not fit into that.
        donors: Weights (safetensors) from which the runs start, by the donor's key.
    """

    setup: SweepSetup
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
    """Report on one run.

    Attributes:
        key: Key of the run.
        evaluation: A new evaluation, or None.
        outcome: Outcome, or None until the run ends.
        files: Weights, arrays and probe results of a run that ended, by relative path.
    """

    key: str
    evaluation: Evaluation | None
    outcome: Outcome | None
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class StackReport:
    """A worker's report on a stack. If ``halves``, ``needs_gpus``, ``machine_error`` or ``broken`` is set, the worker
    has left the stack.

    Attributes:
        runs: Reports on the runs that were evaluated or ended.
        steps: Steps that every unfinished run has trained, or 0 if unknown.
        halves: Keys of the runs of two smaller stacks that replace this stack, because it did not fit into memory.
        needs_gpus: Minimum share of a GPU for the stack's only run, because it did not fit into a smaller share.
        machine_error: The machine error that ended the stack.
        broken: Reason to stop the sweep, because a retry would fail in the same way: the family broke its contract, or
            the worker has other code than the driver.
        messages: Messages for the user.
    """

    runs: tuple[RunReport, ...] = ()
    steps: int = 0
    halves: Sequence[Sequence[str]] = ()
    needs_gpus: float = 0.0
    machine_error: str = ""
    broken: str = ""
    messages: tuple[str, ...] = ()
