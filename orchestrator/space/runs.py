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
        request: The sweep's request for the run.
        config: The configuration of the model and its training.
        key: Hash of everything that changes the result.
        directory: Directory of the run's files. A failed run has none on disk.
        trained_for: Id of the sweep for which the run was trained. It can be this sweep if two arms share the run.
            Empty if the run was trained for this entry of the journal.
        at: Time when the run ended or was found (ISO 8601), or an empty string.
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
        """True if the run counts for an answer, because it trains to the end of its arm (:attr:`Request.is_full`).

        A failed run also counts, but has no :meth:`point`.
        """
        return self.request.is_full

    @property
    def is_finished(self) -> bool:
        """True if the run counts for an answer and has finished, neither diverged nor failed. Probes and verdicts only
        use such runs, because their models are typical of the size."""
        return self.counts_for_answer and self.outcome.status is Status.FINISHED

    def point(self, task: str) -> Point | None:
        """Return the run's result on a task, for searchers and answers, or None if the run failed.

        A diverged run did not learn, so its accuracy is the floor.
        """
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
        curve: Evaluations so far, in order. The driver of a sweep has only the last one.
        steps: Maximum number of steps of the run, or 0 if unknown.
        left_s: Maximum number of seconds left, or None if unknown.
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
