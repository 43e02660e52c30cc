"""Contract of a tracker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from orchestrator.home.journal import State
from orchestrator.home.sweeps import RunRecord, Sweep
from orchestrator.report.answer import Answer


class Tracker(ABC):
    """Records sweeps. A single thread calls it. Every method raises ``StoreError`` if the store fails.

    Every method is idempotent: it looks a record up by its identity (the sweep's id, the run's key) before creating it.
    Replaying a log, any number of times, completes unfinished records or rebuilds a lost store.
    """

    @abstractmethod
    def begin(self, sweep: Sweep) -> None:
        """Record that a sweep is running, also after an interruption."""

    @abstractmethod
    def run_ended(self, sweep: Sweep, run: RunRecord) -> None:
        """Record a run that ended, with the files in its directory."""

    @abstractmethod
    def end(self, sweep: Sweep, answer: Answer, ending: State, files: Sequence[Path] = ()) -> None:
        """Record the answer of a sweep. A later call for the same sweep replaces it."""
