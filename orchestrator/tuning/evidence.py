"""Whether a trial is better than the settings as written by more than the luck of a few seeds."""

from __future__ import annotations

import math

SURE = 0.8
"""How probable it must be that more of all runs learn with a trial's settings than with the settings as written."""
ROUNDING = 1e-9
"""What the probability's sum may be out by: with few runs it may be :data:`SURE` exactly."""


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
    """True where a trial with ``learned`` runs of ``of`` is better than the settings as written, of which ``written``
    learned in as many runs, with a probability of at least :data:`SURE`.

    Fewer steps to learn never decide it: settings that learn sooner may be learned by fewer seeds at the sizes where
    the transition is.
    """
    return probability_of_more(learned, of, written, of) >= SURE - ROUNDING


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
