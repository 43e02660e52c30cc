"""Scores of trials: runs that learned first, then steps to learn, on validation tuples alone; and the evidence that one
trial is better than the settings as written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.search.base import Observation
from trainables.base import Evaluation, Outcome, Status

LEARNED = 0.8
"""Validation accuracy of the target at which a run has learned."""
SURE = 0.8
"""Least probability that more of all runs learn with a trial's settings than with the settings as written."""
ROUNDING = 1e-9
"""Rounding error of that probability: with few runs it may be :data:`SURE` exactly."""


@dataclass(frozen=True)
class Learning(Observation):
    """Outcome of a run as tuning sees it; ``accuracy`` is the last one on the validation tuples alone."""

    learned_at: float | None = None
    diverged: bool = False


def observe_learning(outcome: Outcome, target: str) -> Learning | None:
    """Learning of the target, read from a run's curve; None for a failed run, which is no evidence."""
    if outcome.status is Status.FAILED:
        return None
    accuracy = outcome.curve[-1].accuracy[target] if outcome.curve else 0.0
    seconds = outcome.measures.get("seconds", 0.0)
    return Learning(
        accuracy, 0.0, seconds, learned_at(outcome.curve, target), diverged=outcome.status is Status.DIVERGED
    )


@dataclass(frozen=True)
class TuningRun:
    """Outcome of one run of a trial.

    ``learned_at`` is the step at which the target reached :data:`LEARNED`, None where it never did; ``accuracy`` the
    target's last on the validation tuples, in [0, 1]; ``steps`` the run's budget.
    """

    size: int
    seed: int
    learned_at: float | None
    accuracy: float
    steps: int
    diverged: bool = False

    def score(self, penalty: float) -> float:
        """Steps to learn; for a run that never learned its steps times up to ``penalty``, less the closer it came."""
        if self.learned_at is not None:
            return self.learned_at
        near = 0.0 if self.diverged else min(self.accuracy / LEARNED, 1.0)
        return self.steps * (1 + (penalty - 1) * (1 - near))


def learned_of(runs: Sequence[TuningRun]) -> int:
    """Number of runs that learned."""
    return sum(run.learned_at is not None for run in runs)


def objective(runs: Sequence[TuningRun], penalty: float) -> float:
    """Objective of a trial; less is better. Runs that learned come first, speed decides between equal counts.

    ``(n - k + u) / n`` for n runs (at least 1) of which k learned. ``u``, in (0, 1], is the mean of the runs'
    ``score / (steps * penalty)``: their steps to learn as a share of the dearest failure. So the objective lies in
    (0, 1 + 1 / n], and of two trials with equally many runs the one with more runs learned is always the better:
    a run more is worth 1 / n, speed less than that. Only trials trained at the same sizes and seeds compare.
    """
    count = len(runs)
    speed = sum(run.score(penalty) / (run.steps * penalty) for run in runs) / count
    return (count - learned_of(runs) + speed) / count


def learned_at(curve: Sequence[Evaluation], task: str) -> float | None:
    """First step at which a learning curve reaches :data:`LEARNED`, interpolated between its points, or None.

    Before its first point a curve rises from 0 at step 0.
    """
    step, accuracy = 0.0, 0.0
    for point in curve:
        reached = point.accuracy[task]
        if reached >= LEARNED:
            share = (LEARNED - accuracy) / (reached - accuracy)
            return step + share * (point.step - step)
        step, accuracy = float(point.step), reached
    return None


def probability_of_more(learned: int, of: int, other_learned: int, other_of: int) -> float:
    """The probability, in (0, 1), that the first share is the larger one, given ``learned`` runs of ``of`` and
    ``other_learned`` of ``other_of``.

    Both shares have a uniform prior, so that they are Beta(1 + learned, 1 + failed) a posteriori. For whole numbers
    P(X > Y) is a finite sum, over i below X's first parameter, of
    B(a_Y + i, b_X + b_Y) / ((b_X + i) B(1 + i, b_X) B(a_Y, b_Y)).
    """
    a, b = 1 + learned, 1 + of - learned
    other_a, other_b = 1 + other_learned, 1 + other_of - other_learned
    return sum(
        math.exp(_log_beta(other_a + i, b + other_b) - _log_beta(1 + i, b) - _log_beta(other_a, other_b)) / (b + i)
        for i in range(a)
    )


def beats(learned: int, written: int, of: int) -> bool:
    """True if a trial with ``learned`` runs of ``of`` beats the settings as written, with ``written`` of as many.

    "Beats" means more runs learned with a probability of at least :data:`SURE`.

    Fewer steps to learn never decide it: settings that learn sooner may be learned by fewer seeds at the sizes where
    the transition is.
    """
    return probability_of_more(learned, of, written, of) >= SURE - ROUNDING


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
