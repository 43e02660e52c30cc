"""The contract of a tracker: where the record of a sweep is kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from orchestrator.errors import SweepError
from orchestrator.report.answer import Answer
from orchestrator.store.records import RunRecord, Sweep
from orchestrator.tracking.system import SystemSample


class Ending(StrEnum):
    """How a sweep ended."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class OutageError(ConnectionError):
    """The store cannot be written now: no connection, overloaded, its disk full. The same call may succeed later."""


class RefusedError(OutageError, SweepError):
    """The store does not let in who asks, or not write there. The message goes on from the store's name, and says what
    to set or to ask for. A sweep goes on without, and its records wait: the same call succeeds once that is done."""


class DamagedStoreError(OutageError, SweepError):
    """The store's database is damaged: nothing can be written until it is made anew. A sweep goes on without."""


class Tracker(ABC):
    """Keeps the record of sweeps. Called from one thread at a time.

    Every method is idempotent: a record is looked up by its identity (the sweep's id, the run's key) before one is
    created, so a journal can be replayed into a tracker any number of times, and a record left half-written by a
    crash is completed. Whatever is recorded follows from the arguments alone, so a replay rebuilds a lost store.

    Every method raises :class:`OutageError` where the store cannot be written now (:class:`RefusedError` where it does
    not let this user); any other exception is a bug or a refusal that a repetition does not mend.
    """

    @abstractmethod
    def begin(self, sweep: Sweep) -> None:
        """Record that a sweep runs, or runs again after an interruption."""

    @abstractmethod
    def run_ended(self, sweep: Sweep, run: RunRecord) -> None:
        """Record a run, however it ended, with the files in its directory."""

    @abstractmethod
    def measured(self, sweep: Sweep, samples: Sequence[SystemSample]) -> None:
        """Record how busy the driver's machine was while the sweep ran."""

    @abstractmethod
    def so_far(self, sweep: Sweep, answer: Answer) -> None:
        """Record what the runs of a sweep under way say of its transitions, marked as provisional. A later call, or
        :meth:`end`, replaces it."""

    @abstractmethod
    def end(self, sweep: Sweep, answer: Answer, ending: Ending, files: Sequence[Path] = ()) -> None:
        """Record what a sweep came to. A later call for the same sweep replaces the answer of an earlier one."""

    @abstractmethod
    def describe(self) -> str:
        """Where the record lies, for a person to read; never holds a password."""
