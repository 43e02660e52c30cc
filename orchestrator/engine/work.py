"""The work of an engine: the stacks of one campaign, or of several campaigns that share the engine's slots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from orchestrator.engine.messages import StackJob, StackReport
from orchestrator.jobs.plan import Job, Stack


class Work(ABC):
    """The stacks that an engine should train. The engine reports by stack id how each of them ended.

    The work is a campaign (campaign.py), which decides which runs are trained and stores their results, or a group of
    campaigns (group.py). It belongs to one thread of the driver. An engine does not interpret the id of a stack.
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
        """The machine error that stopped the work. Empty if the work continues or was stopped for another reason."""

    @property
    @abstractmethod
    def stacks(self) -> list[str]:
        """Ids of the stacks with a worker."""

    @abstractmethod
    def next_stack(self) -> Stack | None:
        """Return the stack to start now, or None if no stack can start.

        After None, the engine stops if the work is :attr:`done`. Otherwise no slot is idle, or no stack can start now,
        and the engine asks again later.
        """

    @abstractmethod
    def job(self, stack: Stack) -> StackJob:
        """Return the job that trains a stack returned by :meth:`next_stack`."""

    @abstractmethod
    def likely_next(self, stack: Stack) -> Iterable[Job]:
        """Yield jobs that may train after a stack, likely ones first, so that the engine can compile their steps."""

    @abstractmethod
    def poll(self) -> None:
        """Handle stops and requests from other processes, and update the live view. Exceptions of an observer are not
        caught."""

    @abstractmethod
    def should_end(self, stack_id: str) -> bool:
        """Return True if a stack's worker should end: its campaign is stopping, or none of the stack's runs is
        wanted."""

    @abstractmethod
    def may_be_killed(self, stack_id: str) -> bool:
        """Return True if a stack's worker may be killed instead of closed. This is the case if its campaign is stopping
        and the stack has not reported since it started, because a checkpoint would then save no progress."""

    @abstractmethod
    def handle_report(self, stack_id: str, report: StackReport) -> None:
        """Record evaluations, store ended runs, and queue the unfinished runs if the worker has left the stack."""

    @abstractmethod
    def stack_ended(self, stack_id: str) -> None:
        """Free the slot of a stack. All its runs have ended, unless the stack was stopped early."""

    @abstractmethod
    def stack_failed(self, stack_id: str, error: str, *, retries: int = 0) -> None:
        """Queue a failed stack to continue next, up to ``retries`` times. After that, train each of its unfinished runs
        alone. A run that fails alone has failed. If the sweep is stopping, the runs stay unfinished until it is
        resumed."""

    @abstractmethod
    def stack_moved(self, stack_id: str, reason: str) -> None:
        """Queue a stack whose worker saved a checkpoint and left, so that it continues on another machine."""

    @abstractmethod
    def stack_met_machine_error(self, stack_id: str, error: str, *, can_retry: bool = True) -> None:
        """Retry a whole stack after a delay because its machine failed. Stop the sweep after the last retry, or
        immediately if the stack cannot be retried."""

    @abstractmethod
    def engine_met_machine_error(self, error: str) -> None:
        """Retry all stacks after a machine error that ended them. Stop the sweep if no stack was in training."""

    @abstractmethod
    def stop(self, error: str) -> None:
        """Stop everything because of a machine error, such as the death of the engine."""
