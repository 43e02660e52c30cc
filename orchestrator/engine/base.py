"""The contract of an engine: it trains the stacks that a campaign hands out, until the campaign is done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Self

from orchestrator.engine.campaign import Campaign
from orchestrator.engine.messages import StackJob, StackReport
from orchestrator.errors import SweepError
from orchestrator.stacks import Stack
from orchestrator.terminal.snapshot import Snapshot


class MachineError(SweepError):
    """The machine failed, not the sweep: it can be resumed."""


class Engine(ABC):
    """Used as a context manager: resources are taken on entry and given back on exit."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """Stacks that can train at the same time. At least 1."""

    @abstractmethod
    def describe(self) -> str:
        """The machines that train the stacks, for a person to read."""

    @abstractmethod
    def execute(self, campaign: Campaign) -> None:
        """Train until ``campaign.done``, calling ``campaign.look`` often, and end stacks that it has ``given_up``.

        Raises :class:`MachineError` if the campaign stopped for one, :class:`SweepError` when the machinery itself
        fails. A run that fails is the campaign's business."""

    def interrupted(self) -> None:
        """Called once the campaign is stopping for an interruption, from the signal's handler in the main thread: give
        up what no checkpoint could keep. By default each stack in training comes to its next evaluation."""
        return

    def exporting(self, sweep_id: str, snapshot: Callable[[], Snapshot]) -> AbstractContextManager[object]:
        """A block during which the sweep's progress is exported to the machines' monitoring; by default it is not."""
        return nullcontext()

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def check_machine(campaign: Campaign) -> None:
    """Raise :class:`MachineError` if a campaign has stopped for one."""
    if campaign.machine_error:
        raise MachineError(campaign.machine_error)


def take_in(campaign: Campaign, stack_id: str, report: StackReport) -> None:
    """Hand a worker's report to the campaign."""
    for said in report.said:
        campaign.say(said)
    for run in report.runs:
        if run.evaluation is not None:
            campaign.evaluated(run.key, run.evaluation)
        if run.outcome is not None:
            campaign.ended(run.key, run.outcome, run.files)
    if report.halves:
        campaign.stack_halved(stack_id, report.halves)
    if report.broken:
        campaign.stack_broke_contract(stack_id, report.broken)
    if report.machine_error:
        campaign.stack_met_machine_error(stack_id, report.machine_error)


def job_of(campaign: Campaign, stack: Stack) -> StackJob:
    """The job that trains a stack, which the campaign has begun."""
    wanted = [place for place, ticket in enumerate(stack.tickets) if ticket.key in campaign.training]
    return StackJob(
        tuple(ticket.request for ticket in stack.tickets),
        tuple(wanted),
        campaign.sweep.id,
        stack.id,
        str(campaign.sweep.directory),
        campaign.donors([stack.tickets[place] for place in wanted]),
    )
