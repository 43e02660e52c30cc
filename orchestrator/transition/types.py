"""Values of the transition statistics: runs as points, estimates and transitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEVEL = 0.8
"""Share of the asymptote that accuracy reaches at a transition (arXiv 2505.18369, section 2)."""

CONFIDENCE = 0.9
"""Nominal coverage of every interval. The search stops by the width of intervals, so another value changes which runs
it requests."""
QUANTILES = ((1 - CONFIDENCE) / 2, 0.5, (1 + CONFIDENCE) / 2)
"""Probabilities of an interval's lower end, the median and the upper end."""

NEAR_LEVEL = 0.2
"""Minimum distance of the best constant answer below :data:`LEVEL` of the asymptote. If it is closer, runs that learned
look like runs that did not."""


@dataclass(frozen=True, order=True)
class Point:
    """What one run shows about a task: its test accuracy and the accuracy of the best constant answer, in [0, 1].

    Searchers choose the next runs from points, and estimates are fitted to them.

    Attributes:
        settled: Whether the run learned, if it ended early because its outcome was settled. What its accuracy would
            have been at the end is then unknown. None if it was trained to its end.
        cost: Seconds on the run's device, 0 if unknown. Estimates do not depend on it.
    """

    size: int
    seed: int
    accuracy: float
    floor: float
    settled: bool | None = field(default=None, compare=False)
    cost: float = field(default=0.0, compare=False)

    @property
    def final(self) -> float:
        """Accuracy at the end of training. A settled run counts as perfect, or as no better than a constant answer."""
        if self.settled is None:
            return self.accuracy
        return 1.0 if self.settled else self.floor


class Verdict(StrEnum):
    """Verdict on a transition."""

    FOUND = "found"
    LEVELS_OFF = "levels off"
    """Found (or below the smallest size) on a curve that stays well below .9 at large sizes. It is the transition of
    the level that the curve reaches, :attr:`Transition.asymptote`."""
    ABOVE = "above"
    """Censored: larger than the largest candidate size, which was tested."""
    BELOW = "below"
    """Censored: smaller than the smallest candidate size, which was tested."""
    NEAR_FLOOR = "near floor"
    """The best constant answer scores above the level of the transition, or within :data:`NEAR_LEVEL` below it.
    Accuracy then passes the level by noise, so the estimates are empty."""
    UNDECIDED = "undecided"
    """Too few points."""


@dataclass(frozen=True)
class Estimate:
    """A size or ratio of parameters, with its interval.

    ``low`` or ``high`` is None if that side is censored. ``value`` is None if it is outside the candidate sizes or if
    no sizes bracket it.
    """

    value: float | None
    low: float | None
    high: float | None

    def is_placed(self, smallest: float, largest: float) -> bool:
        """Return True if the value is inside the tested sizes and has a bound on at least one side."""
        bounded = self.low is not None or self.high is not None
        return bounded and self.value is not None and smallest <= self.value <= largest


Synergy = Estimate
"""transition(baseline) / transition(mix), in parameters. Above 1, the mix needs a smaller model. If one side is
censored, at most one of ``low`` and ``high`` is known. :mod:`orchestrator.transition.evidence` decides whether the
mixes differ."""


@dataclass(frozen=True)
class SizeShare:
    """Number of runs ``tried`` at a size, and how many ``learned``."""

    size: int
    learned: int
    tried: int


@dataclass(frozen=True)
class Density:
    """Posterior of a transition, for figures and comparisons.

    ``weights[i]`` is the probability of the bin around ``sizes[i]`` (bins are equal in ln size). ``above`` is the
    probability that the transition is beyond the last bin or that the task is never learned. All sum to 1.
    """

    sizes: tuple[float, ...]
    weights: tuple[float, ...]
    above: float


@dataclass(frozen=True)
class Transition:
    """The size at which a mix starts to learn the target.

    Both sizes are posterior medians. Their intervals contain the largest tested size that did not learn and the
    smallest that did.

    Attributes:
        relative: Size at :data:`LEVEL` of the mix's own asymptote.
        absolute: Size at accuracy 0.8.
        p_above: Posterior probability that the relative transition is above the tested sizes.
        p_below: Posterior probability that the relative transition is below the tested sizes.
        density: Posterior of the relative transition. None without points and for :attr:`Verdict.NEAR_FLOOR`.
        level: Accuracy at the relative transition, None without points.
        p_levels_off: Probability that the curve levels off, 0 if the runs show no sign of it.
    """

    verdict: Verdict
    relative: Estimate
    absolute: Estimate
    points: tuple[Point, ...]
    p_above: float = 0.0
    p_below: float = 0.0
    density: Density | None = None
    level: float | None = None
    p_levels_off: float = 0.0

    @property
    def is_located(self) -> bool:
        """True if the verdict comes with a size."""
        return self.verdict in (Verdict.FOUND, Verdict.LEVELS_OFF) and self.relative.value is not None

    @property
    def asymptote(self) -> float | None:
        """Mean accuracy that large models reach, or None without points."""
        return None if self.level is None else self.level / LEVEL

    @property
    def floor(self) -> float | None:
        """Mean accuracy of the best constant answer over the points, or None without points."""
        return sum(point.floor for point in self.points) / len(self.points) if self.points else None
