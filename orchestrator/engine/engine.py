"""The contract of an engine, which trains the stacks of a campaign."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from orchestrator.engine.campaign import Campaign


class Engine(ABC):
    """A context manager: it acquires its resources on entry and releases them on exit."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """Stacks that can train at the same time. At least 1."""

    @abstractmethod
    def describe(self) -> str:
        """Return a description of the machines that train the stacks."""

    @abstractmethod
    def execute(self, campaign: Campaign) -> None:
        """Train until ``campaign.done``. Call ``campaign.look`` often, and end stacks that are over
        (:meth:`~orchestrator.engine.campaign.Campaign.is_over`). The campaign handles runs that fail.

        Raises:
            SweepError: if the engine itself fails.
        """

    def interrupted(self) -> None:
        """Drop work that no checkpoint could save. By default every stack trains to its next evaluation.

        Called from the signal handler in the main thread, once the campaign is stopping.
        """
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        return
