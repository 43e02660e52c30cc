"""The words of transition statistics: points in, transitions out. Plain values, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

LEVEL = 0.8
"""A transition lies where accuracy reaches this share of its asymptote (arXiv 2505.18369, section 2)."""

CONFIDENCE = 0.9
"""Nominal coverage of every interval."""
QUANTILES = ((1 - CONFIDENCE) / 2, 0.5, (1 + CONFIDENCE) / 2)
"""The lower end of an interval, the median and the upper end."""

NEAR_LEVEL = 0.2
"""A best constant answer within this of :data:`LEVEL` of the asymptote leaves too little to tell learned from not."""


@dataclass(frozen=True, order=True)
class Point:
    """One run as the statistics see it: ``accuracy`` and ``floor`` (best constant answer) in [0, 1]."""

    size: int
    seed: int
    accuracy: float
    floor: float


class Verdict(StrEnum):
    """The verdict of the points on a transition."""

    FOUND = "found"
    ABOVE = "above"
    """Censored: larger than the largest candidate size, which was tested."""
    BELOW = "below"
    """Censored: smaller than the smallest candidate size, which was tested."""
    NEAR_FLOOR = "near floor"
    """The best constant answer scores within :data:`NEAR_LEVEL` of the level that counts as learned, or above it: where
    accuracy passes that level is noise. Estimates say nothing."""
    UNDECIDED = "undecided"
    """Too few points to say."""


@dataclass(frozen=True)
class Estimate:
    """A size with its interval. ``low`` or ``high`` is None where that side is censored; ``value`` is None where
    the point itself lies outside the candidate sizes, or where nothing brackets it."""

    value: float | None
    low: float | None
    high: float | None

    def is_placed(self, smallest: float, largest: float) -> bool:
        """True if there is a size to name: inside what was tested, bounded on one side at least."""
        bounded = self.low is not None or self.high is not None
        return bounded and self.value is not None and smallest <= self.value <= largest


@dataclass(frozen=True)
class SizeShare:
    """The runs ``tried`` at a size and those that ``learned``."""

    size: int
    learned: int
    tried: int


@dataclass(frozen=True)
class Density:
    """The posterior of a size, for figures and comparisons.

    ``weights[i]`` is the probability that the size lies in the bin around ``sizes[i]`` (bins equal in ln size);
    ``above`` is the probability that it lies beyond the last bin, or that the task is never learned. All sum to 1.
    """

    sizes: tuple[float, ...]
    weights: tuple[float, ...]
    above: float


@dataclass(frozen=True)
class Transition:
    """The size at which a task becomes learnable in a mix.

    ``relative`` is the size at :data:`LEVEL` of the mix's own asymptote, ``absolute`` the size at accuracy 0.8. Both
    are posterior medians with their intervals, never narrower than the largest unlearned and smallest learned size
    tested. ``p_above`` and ``p_below`` are the posterior probabilities that the relative transition is outside the
    tested sizes. ``density`` is its posterior (None without points, and for :attr:`Verdict.NEAR_FLOOR`). ``level`` is
    the accuracy at the relative transition.
    """

    verdict: Verdict
    relative: Estimate
    absolute: Estimate
    points: tuple[Point, ...]
    p_above: float = 0.0
    p_below: float = 0.0
    density: Density | None = None
    level: float | None = None

    @property
    def floor(self) -> float | None:
        """The best constant answer's accuracy, in the mean over the points; None without any."""
        return sum(point.floor for point in self.points) / len(self.points) if self.points else None


@dataclass(frozen=True)
class Synergy:
    """transition(baseline) / transition(mix), in parameters: above 1, the mix needs a smaller model.

    An estimate with its 90 % interval; whether the two differ is for :mod:`orchestrator.transition.evidence` to decide.
    ``value`` is None when one side is censored; then at most one of ``low`` and ``high`` is known.
    """

    value: float | None
    low: float | None
    high: float | None
