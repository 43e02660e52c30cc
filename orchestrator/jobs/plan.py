"""Jobs and plans: the runs to train, apart from the question that they answer and the machines that train them."""

from __future__ import annotations

import hashlib
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.jobs.resources import Resources
from trainables.base import Family, Outcome, RunConfig
from trainables.contract.user_modules import folders_of
from trainables.families import FamilySource
from trainables.probes.base import load_probe

ENDING = 0.2
"""A job is about to end if less than this share of its time is left."""
UNSAFE = re.compile(r"[^\w .,+=()-]")
"""Characters of a shape that some file systems do not allow in a directory's name."""
LONGEST_SHAPE = 150
"""Maximum number of bytes of a shape in a directory's name. File systems allow 255 for the whole name."""


Member = Mapping[str, Any]
"""JSON values from which a plan makes a job again in a later process."""


@dataclass(frozen=True)
class Job:
    """A run to train.

    Attributes:
        key: Hash of everything that changes the result. Jobs with the same key are the same run.
        run: Configuration of the run.
        shape: Text that is equal for jobs that can share a stack.
        donor: Key of the job whose weights this job starts from. Empty if it starts from new weights.
    """

    key: str
    run: RunConfig
    shape: str
    donor: str = ""


def job_of(family: Family, run: RunConfig) -> Job:
    """Return the job that trains a run."""
    donor = "" if run.start is None else family.key(run.start.donor)
    return Job(family.key(run), run, family.shape(run), donor)


class Plan(ABC):
    """Chooses the jobs to train next, given the outcomes so far.

    A campaign (engine/campaign.py) asks a plan for jobs, trains them on any engine, and passes it their outcomes. The
    campaign keeps finished runs and checkpoints on disk, retries, and skips jobs whose outcome is in the home. Only the
    plan knows the purpose of the jobs. A plan is used in one thread.
    """

    @abstractmethod
    def ask(self, room: int, ending: Collection[str] = ()) -> Sequence[Job]:
        """Return jobs to train, most urgent first, or none to wait for outcomes. A job is trained once, even if a plan
        requests it again.

        Args:
            room: Approximate number of jobs to return. It may be 0 or negative if enough jobs wait already.
            ending: Keys of the jobs that are about to end. A plan may wait for them before it chooses.
        """

    @abstractmethod
    def tell(self, key: str, outcome: Outcome, trained_for: str) -> None:
        """Record the outcome of a job. If a plan requests a job again after its end, it gets the outcome again.

        The run is on disk, unless it failed. A plan that must know about failures after a crash writes them to disk
        before it returns.

        Args:
            key: Key of the job.
            outcome: Outcome of the job, which may have failed.
            trained_for: Id of the sweep that trained the job, or an empty string if this campaign did.
        """

    def report_progress(self, key: str, step: int) -> None:  # noqa: B027 - most plans only need outcomes
        """Record that a job, or a job whose weights it needs, has trained this many steps. After a retry, the same
        steps may be reported again."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """True if the plan needs no further job, and has the outcome of every job that it still wants."""

    @abstractmethod
    def describe(self, job: Job) -> Member:
        """Return JSON values for the job's checkpoint. In a later process, :meth:`read` makes the job from them."""

    @abstractmethod
    def read(self, member: Member) -> Job:
        """Return the job of a checkpoint.

        Raises:
            ValueError, KeyError, TypeError: if the values are damaged or the job is unknown.
        """

    def donor(self, job: Job) -> Job:
        """Return the job whose weights a job starts from. Called if the home does not have these weights.

        Raises:
            KeyError: if the plan has no such job.
        """
        raise KeyError(job.donor)

    def wants(self, job: Job) -> bool:
        """Return False if the plan no longer wants a job that it requested."""
        return True

    def has_dropped_jobs(self) -> bool:
        """Return True if outcomes since the last call have made requested jobs unnecessary. Then :meth:`wants` is False
        for these jobs."""
        return False

    def likely_next(self, job: Job) -> Iterable[Job]:
        """Yield jobs that the plan may request after this one, likely ones first, so that an engine can prepare for
        them."""
        return ()


@dataclass(frozen=True)
class Stack:
    """Jobs with one shape that are trained as one batched model. An engine trains a stack in one worker."""

    jobs: tuple[Job, ...]

    @property
    def id(self) -> str:
        """Id of the stack, which is also the name of its checkpoint. The same jobs in the same order have the same
        id."""
        return stack_id(self.jobs[0].shape, [job.key for job in self.jobs])


def stack_id(shape: str, keys: Sequence[str]) -> str:
    """Return the id of the stack of these runs, which is also the name of its directories."""
    # A shape is text of the user's family, so it may contain any character, as in `width/depth`.
    slug = UNSAFE.sub("_", shape).lstrip(".").encode()[:LONGEST_SHAPE].decode(errors="ignore")
    digest = hashlib.sha256("|".join(keys).encode()).hexdigest()[:8]
    return f"{slug}-x{len(keys)}-{digest}"


def next_stack(wanted: Sequence[Job], free: int, max_stack: int) -> Stack:
    """Return the stack to start now. It has the most urgent job and others of its shape.

    Args:
        wanted: Jobs that wait for a slot, most urgent first. At least one.
        free: Number of idle slots.
        max_stack: Maximum number of jobs in the stack.
    """
    mates = [job for job in wanted if job.shape == wanted[0].shape]
    # If there are fewer shapes than idle slots, several small stacks finish sooner than one large stack.
    other_shapes = len({job.shape for job in wanted}) - 1
    spread = math.ceil(len(mates) / max(1, free - other_shapes))
    return Stack(tuple(mates[: min(max_stack, spread)]))


@dataclass(frozen=True)
class SweepSetup:
    """Values that all jobs of a sweep share. Every worker gets a copy, so they are small and can be pickled.

    Attributes:
        sweep_id: Id of the sweep.
        directory: The sweep's directory on the driver's machine.
        family: Name and settings of the family.
        version: Version of the family in the driver.
        source: Hash of the family's source in the driver, or an empty string if it is unknown.
        accepts_other_code: True if the sweep may use runs that changed code of the family trained, because the user
            states that it computes the same.
        probes: Names of the probes to run on each finished run.
        resources: Resources of a stack.
        code: Folders of the user's modules that the family and the probes need, for
            :func:`trainables.contract.finder.serve` in a worker.
        nearby: Hash of the programs in the project of a script when the sweep began. Empty if it is unknown.
        probe_sources: Hash of the code of each probe in the driver, empty for a built-in one.
    """

    sweep_id: str
    directory: str
    family: FamilySource
    version: int
    source: str
    accepts_other_code: bool
    probes: tuple[str, ...]
    resources: Resources
    nearby: str = ""
    code: Mapping[str, str] = field(init=False)
    probe_sources: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "probe_sources", {name: load_probe(name).source for name in self.probes})
        # Found now, because later the same names may stand for modules in other folders.
        object.__setattr__(self, "code", folders_of((self.family.name, *self.probes)))
