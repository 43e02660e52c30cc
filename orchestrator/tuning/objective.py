"""How good a run's settings were: how soon it learned, from its learning curve on the validation tuples alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trainables.base import Evaluation

LEARNED = 0.8
"""Validation accuracy of the target at which a run has learned."""


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


def mean_score(runs: Sequence[TuningRun], penalty: float) -> float:
    """What a trial's settings are worth: the mean score of its runs, in steps; less is better."""
    return sum(run.score(penalty) for run in runs) / len(runs)


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
