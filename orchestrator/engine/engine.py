"""Contract of an engine, which trains the stacks of a campaign."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager

from orchestrator.engine.campaign import Campaign


class Engine(AbstractContextManager["Engine"]):
    """Trains stacks. It is a context manager that acquires its resources on entry and releases them on exit."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """Number of stacks that can train at the same time, at least 1."""

    @abstractmethod
    def describe(self) -> str:
        """Return a description of the machines that train the stacks."""

    @abstractmethod
    def execute(self, campaign: Campaign) -> None:
        """Train until ``campaign.done``. The campaign handles failed runs.

        Call ``campaign.look`` often. End stacks when :meth:`Campaign.is_over` is true.

        Raises:
            SweepError: if the engine itself fails.
        """

    def death(self) -> str:
        """Return how the engine died, because :meth:`execute` may then wait for minutes, or "" while it lives. This
        method may be called in any thread."""
        return ""

    def __exit__(self, *raised: object) -> None:
        return
