"""The contract of an engine: something that trains the stacks a campaign hands out, until the campaign is done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from orchestrator.engine.campaign import Campaign
from orchestrator.engine.worker import RunReport, StackJob
from orchestrator.records import Sweep
from orchestrator.search.base import Request


class Engine(ABC):
    """Used as a context manager: resources are taken on entry and given back on exit."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """Stacks that can train at the same time. At least 1."""

    @abstractmethod
    def describe(self) -> str:
        """What trains the stacks, for a person to read."""

    @abstractmethod
    def execute(self, campaign: Campaign) -> None:
        """Train until ``campaign.done``. Raises :class:`SweepError` when the machinery itself fails; a run that
        fails is the campaign's business."""

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def take_in(campaign: Campaign, report: RunReport) -> None:
    """Hand a worker's report to the campaign."""
    if report.evaluation is not None:
        campaign.evaluated(report.key, report.evaluation)
    if report.outcome is not None:
        campaign.ended(report.key, report.outcome)


def job_of(sweep: Sweep, home: str, stack_id: str, requests: tuple[Request, ...]) -> StackJob:
    """The job that trains a stack of this sweep."""
    return StackJob(sweep.spec.to_dict(), requests, home, sweep.id, stack_id)
