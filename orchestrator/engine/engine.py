"""The contract of an engine, which trains the stacks that a campaign hands out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from orchestrator.engine.campaign import Campaign


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

        A run that fails is the campaign's business.

        Raises:
            MachineError: if the campaign stopped for one.
            SweepError: if the machinery itself fails.
        """

    def interrupted(self) -> None:
        """Called once the campaign is stopping for an interruption, from the signal's handler in the main thread: give
        up what no checkpoint could keep. By default each stack in training comes to its next evaluation."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        return
