"""Jobs and plans: what is trained, apart from the question that it answers and the machines that train it."""

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

ENDING = 0.2
"""A job is about to end if it has less than this share of its time left."""
UNSAFE = re.compile(r"[^\w .,+=()-]")
"""Characters of a shape that may not be part of a directory's name everywhere."""
LONGEST_SHAPE = 150
"""Maximum bytes of a shape in a directory's name. File systems allow 255 for the whole name."""


Member = Mapping[str, Any]
"""JSON values by which a plan finds a job again."""


@dataclass(frozen=True)
class Job:
    """A run to train.

    Attributes:
        key: Hash of everything that changes the result. Jobs with the same key are the same run.
        run: What to train.
        shape: Jobs of one shape can share a stack.
        donor: Key of the job whose weights this job starts from, or "" if it starts from new weights.
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
    """What is trained next, given the outcomes so far.

    A campaign (engine/campaign.py) asks a plan for jobs, trains them on any engine, and tells it their outcomes. It
    keeps finished runs and checkpoints on disk, retries, and skips jobs whose outcome is in the home. A plan decides
    what the jobs are for. It is used in one thread.
    """

    @abstractmethod
    def ask(self, room: int, ending: Collection[str] = ()) -> Sequence[Job]:
        """Return jobs to train, most urgent first, about ``room`` of them.

        Return none to wait for outcomes. A job is trained once, even if a plan asks for it again. ``room`` may be 0 or
        negative if enough jobs wait already. ``ending`` are the keys of jobs that are about to end, so that a plan may
        wait for them before it chooses.
        """

    @abstractmethod
    def tell(self, key: str, outcome: Outcome, trained_for: str) -> None:
        """Take in the outcome of a job, which may have failed.

        The run is on disk, unless it failed: a plan that must know about failures after a crash writes them to disk
        before it returns. ``trained_for`` is "" if this campaign trained the job, otherwise the sweep that did. If a
        plan asks for a job again after its end, it gets the outcome again.
        """

    def reach(self, key: str, step: int) -> None:  # noqa: B027 - most plans only need outcomes
        """Take in that a job, or one whose weights it needs, has trained this many steps. It may report the same steps
        again after a retry."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """True if no job is needed any more and none that was asked for is missing."""

    @abstractmethod
    def describe(self, job: Job) -> Member:
        """Return JSON values for the job's checkpoint, from which :meth:`read` makes the job in a later process."""

    @abstractmethod
    def read(self, member: Member) -> Job:
        """Return the job of a checkpoint. Raises ``ValueError``, ``KeyError`` or ``TypeError`` if the values are
        damaged or the job is unknown."""

    def donor(self, job: Job) -> Job:
        """Return the job whose weights a job starts from, because the home lacks them. Raises ``KeyError`` without
        one."""
        raise KeyError(job.donor)

    def wants(self, job: Job) -> bool:
        """Return False if a job that was asked for is not wanted any more."""
        return True

    def takes_back(self) -> bool:
        """Return True if jobs that were asked for are not wanted any more since the last call, because of outcomes
        (see :meth:`wants`)."""
        return False

    def foresee(self, job: Job) -> Iterable[Job]:
        """Yield jobs that may be asked for after this one, likely ones first, to prepare for them."""
        return ()


@dataclass(frozen=True)
class Stack:
    """Jobs with one shape that are trained as one batched model: the unit of execution, a trial of Ray Tune."""

    jobs: tuple[Job, ...]

    @property
    def id(self) -> str:
        """Id of the stack, by which it finds its checkpoint. It is the same for the same jobs in the same order."""
        return stack_id(self.jobs[0].shape, [job.key for job in self.jobs])


def stack_id(shape: str, keys: Sequence[str]) -> str:
    """Return the id of the stack of these runs, which is also the name of its directories. A shape is a family's text,
    for example with the name of its sizes (``width/depth``)."""
    slug = UNSAFE.sub("_", shape).lstrip(".").encode()[:LONGEST_SHAPE].decode(errors="ignore")
    digest = hashlib.sha256("|".join(keys).encode()).hexdigest()[:8]
    return f"{slug}-x{len(keys)}-{digest}"


def next_stack(wanted: Sequence[Job], free: int, max_stack: int) -> Stack:
    """Return the stack to start now, with ``free`` idle slots and ``wanted`` (not empty) in order of urgency.

    It has the most urgent job and others of its shape. If there are fewer shapes than idle slots, these jobs are spread
    over several stacks.
    """
    mates = [job for job in wanted if job.shape == wanted[0].shape]
    other_shapes = len({job.shape for job in wanted}) - 1
    spread = math.ceil(len(mates) / max(1, free - other_shapes))
    return Stack(tuple(mates[: min(max_stack, spread)]))


@dataclass(frozen=True)
class Setup:
    """What all jobs of a sweep share. Workers get it, so it is small and can be pickled.

    Attributes:
        directory: The sweep's directory on the driver's machine.
        version: Version of the family in the driver.
        source: Hash of the family's source in the driver, or "" if it is unknown.
        accepts_other_code: True if runs of other code of the same family count, because they compute the same.
        code: Folders of the user's modules that the family and the probes need, for
            :func:`trainables.contract.finder.serve` in a worker.
    """

    sweep_id: str
    directory: str
    family: FamilySource
    version: int
    source: str
    accepts_other_code: bool
    probes: tuple[str, ...]
    resources: Resources
    code: Mapping[str, str] = field(init=False)

    def __post_init__(self) -> None:
        # Now, because the names may later stand for modules of other folders.
        object.__setattr__(self, "code", folders_of((self.family.name, *self.probes)))
