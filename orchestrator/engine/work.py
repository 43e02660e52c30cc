"""What an engine trains: the stacks of one campaign, or of several campaigns that share its slots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from orchestrator.engine.messages import StackJob, StackReport
from orchestrator.jobs.plan import Job, Stack


class Work(ABC):
    """Stacks for an engine, which reports by id how each ends. It belongs to one thread of the driver.

    It is a campaign (campaign.py), which decides what trains and stores the results, or a group of campaigns
    (group.py). An engine does not interpret the id of a stack.
    """

    @property
    @abstractmethod
    def done(self) -> bool:
        """True if no more stacks may start. If the work is stopping, some may still train."""

    @property
    @abstractmethod
    def stopping(self) -> bool:
        """True if every stack should end at its next report."""

    @property
    @abstractmethod
    def machine_error(self) -> str:
        """The machine error that stopped the work, or "" if it continues or was stopped for another reason."""

    @property
    @abstractmethod
    def stacks(self) -> list[str]:
        """Ids of the stacks with a worker."""

    @abstractmethod
    def next_stack(self) -> Stack | None:
        """Return the stack to start now. None means wait, because no slot is idle or nothing can start, or, if the work
        is :attr:`done`, stop."""

    @abstractmethod
    def job(self, stack: Stack) -> StackJob:
        """Return the job that trains a stack returned by :meth:`next_stack`."""

    @abstractmethod
    def foresee(self, stack: Stack) -> Iterable[Job]:
        """Yield jobs that may train after a stack, likely ones first, to compile their steps."""

    @abstractmethod
    def poll(self) -> None:
        """Handle stops and requests from outside, and update the live view. An exception of an observer is raised."""

    @abstractmethod
    def is_over(self, stack_id: str) -> bool:
        """Return True if a stack's worker should end: its campaign is stopping, or none of the stack's runs is
        wanted."""

    @abstractmethod
    def may_be_killed(self, stack_id: str) -> bool:
        """Return True if a stack's worker may be killed in place of being closed: its campaign is stopping, and the
        stack has not reported since it started, so that a checkpoint would save no progress."""

    @abstractmethod
    def take_in(self, stack_id: str, report: StackReport) -> None:
        """Process a report: record evaluations, store ended runs, and queue the runs of a stack that a worker left."""

    @abstractmethod
    def stack_ended(self, stack_id: str) -> None:
        """Process the end of a stack. All its runs have ended, unless the stack was stopped early."""

    @abstractmethod
    def stack_failed(self, stack_id: str, error: str, *, retries: int = 0) -> None:
        """Queue a failed stack to continue next, up to ``retries`` times. After that, train its unfinished runs one at
        a time; a run that fails alone has failed. If the sweep is stopping, the runs stay unfinished until it is
        resumed."""

    @abstractmethod
    def stack_left(self, stack_id: str, why: str) -> None:
        """Queue a stack whose worker wrote a checkpoint and left, to continue on another machine."""

    @abstractmethod
    def stack_met_machine_error(self, stack_id: str, error: str, *, can_retry: bool = True) -> None:
        """Retry a whole stack after a delay because its machine failed. Stop the sweep after the last retry, or at
        once if it cannot be retried."""

    @abstractmethod
    def engine_met_machine_error(self, error: str) -> None:
        """Retry all stacks after a machine error that ended them. Stop if no stack was in training."""

    @abstractmethod
    def stop(self, error: str) -> None:
        """Stop everything because of a machine error, such as the death of the engine."""
