"""How good a trial's settings were: how many of its runs learned, then how soon, on the validation tuples alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.search.base import Observation
from trainables.base import Evaluation, Outcome, Status

LEARNED = 0.8
"""Validation accuracy of the target at which a run has learned."""


@dataclass(frozen=True)
class Learning(Observation):
    """What tuning sees of a run that ended; its ``accuracy`` is the last on the validation tuples. The test tuples are
    not looked at."""

    learned_at: float | None = None
    diverged: bool = False


def observe_learning(outcome: Outcome, target: str) -> Learning | None:
    """How the target was learned, from a run's curve alone; None for a failed run, which is no evidence."""
    if outcome.status is Status.FAILED:
        return None
    accuracy = outcome.curve[-1].accuracy[target] if outcome.curve else 0.0
    seconds = outcome.measures.get("seconds", 0.0)
    return Learning(
        accuracy, 0.0, seconds, learned_at(outcome.curve, target), diverged=outcome.status is Status.DIVERGED
    )


@dataclass(frozen=True)
class TuningRun:
    """What one run of a trial came to.

    ``learned_at`` is the step at which the target reached :data:`LEARNED`, None where it never did; ``accuracy`` the
    target's last on the validation tuples, in [0, 1]; ``steps`` the run's budget, ``seconds`` what it took.
    """

    size: int
    seed: int
    learned_at: float | None
    accuracy: float
    steps: int
    diverged: bool = False
    seconds: float = 0.0

    def score(self, penalty: float) -> float:
        """Steps to learn; for a run that never learned its steps times up to ``penalty``, less the closer it came."""
        if self.learned_at is not None:
            return self.learned_at
        near = 0.0 if self.diverged else min(self.accuracy / LEARNED, 1.0)
        return self.steps * (1 + (penalty - 1) * (1 - near))


def learned_of(runs: Sequence[TuningRun]) -> int:
    """How many of the runs learned."""
    return sum(run.learned_at is not None for run in runs)


def objective(runs: Sequence[TuningRun], penalty: float) -> float:
    """What a trial's settings are worth; less is better. Runs learned come first, speed decides between equal counts.

    ``(n - k + u) / n`` for n runs (at least 1) of which k learned. ``u``, in (0, 1], is the mean of the runs'
    ``score / (steps * penalty)``: their steps to learn as a share of the dearest failure. So the objective lies in
    (0, 1 + 1 / n], and of two trials with equally many runs the one with more runs learned is always the better:
    a run more is worth 1 / n, speed less than that. Only trials trained at the same sizes and seeds compare.
    """
    count = len(runs)
    speed = sum(run.score(penalty) / (run.steps * penalty) for run in runs) / count
    return (count - learned_of(runs) + speed) / count


def learned_at(curve: Sequence[Evaluation], task: str) -> float | None:
    """The step at which a learning curve first reaches :data:`LEARNED`, interpolated between its points.

    None where it never does. Before its first point a curve is taken to rise from 0 at step 0.
    """
    step, accuracy = 0.0, 0.0
    for point in curve:
        reached = point.accuracy[task]
        if reached >= LEARNED:
            share = (LEARNED - accuracy) / (reached - accuracy)
            return step + share * (point.step - step)
        step, accuracy = float(point.step), reached
    return None
