"""Runs as values: runs that ended, and runs in training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orchestrator.search.base import Request
from orchestrator.transition.types import Point
from trainables.base import Evaluation, Outcome, RunConfig, Status

IMPORTED = "(imported)"
"""End of :attr:`Run.trained_for` for a run that came with an archive."""


@dataclass(frozen=True)
class Run:
    """A run that ended.

    Attributes:
        request: What the sweep asked for. It says whether the run is evidence.
        config: What was trained.
        key: Hash of everything that changes the result.
        directory: Its files. A failed run has none on disk.
        trained_for: "" if the run was trained for this entry of the journal, otherwise the id of the sweep that it was
            trained for, which can be this sweep if two arms share the run.
        at: When it ended or was found (ISO 8601), or "".
    """

    request: Request
    config: RunConfig
    outcome: Outcome
    key: str = ""
    directory: Path = Path()
    trained_for: str = ""
    at: str = ""

    @property
    def is_imported(self) -> bool:
        """True if the run came with an archive, perhaps of another user."""
        return self.trained_for.endswith(IMPORTED)

    @property
    def counts_for_answer(self) -> bool:
        """True if the run counts for an answer: it was requested as evidence (:attr:`Request.is_full`). A failed
        run also counts, but has no :meth:`point`."""
        return self.request.is_full

    @property
    def is_finished(self) -> bool:
        """True if the model and its training are typical of the size: evidence that was trained to its end."""
        return self.counts_for_answer and self.outcome.status is Status.FINISHED

    def point(self, task: str) -> Point | None:
        """Return what the run shows about a task, for searchers and answers, or None if it failed. A diverged run did
        not learn: it is at its floor."""
        outcome = self.outcome
        if outcome.status is Status.FAILED:
            return None
        floor = outcome.floor[task]
        accuracy = floor if outcome.status is Status.DIVERGED else outcome.accuracy[task]
        seconds = outcome.measures.get("seconds", 0.0)
        return Point(self.config.size, self.config.seed, accuracy, floor, outcome.settled(task), seconds)


@dataclass(frozen=True)
class RunInTraining:
    """A run that has begun but not ended.

    Attributes:
        curve: Evaluations so far, the last of them last. The driver of a sweep has only the last.
        steps: Largest number of steps of the run, or 0 if it is unknown.
        left_s: Seconds left at most, or None if that is unknown.
    """

    request: Request
    config: RunConfig
    key: str = ""
    curve: tuple[Evaluation, ...] = ()
    steps: int = 0
    left_s: float | None = None

    @property
    def step(self) -> int:
        """Step of the last evaluation, or 0 before the first."""
        return self.curve[-1].step if self.curve else 0

    def accuracy(self, task: str) -> float | None:
        """Return the last accuracy on a task, or None before the first evaluation."""
        return self.curve[-1].accuracy.get(task) if self.curve else None
