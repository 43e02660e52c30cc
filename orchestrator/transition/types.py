"""The words of transition statistics: points in, fits and transitions out. Plain values, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

LEVEL = 0.8
"""A transition lies where accuracy reaches this share of its asymptote (arXiv 2505.18369, section 2)."""

PLATEAU = 0.9
"""A fitted asymptote below this is a plateau to report, not a transition."""


@dataclass(frozen=True, order=True)
class Point:
    """One run as the statistics see it: ``accuracy`` and ``floor`` (best constant answer) in [0, 1]."""

    size: int
    seed: int
    accuracy: float
    floor: float


class Verdict(StrEnum):
    """What the points say about a transition."""

    FOUND = "found"
    ABOVE = "above"
    """Censored: larger than the largest size tested."""
    BELOW = "below"
    """Censored: smaller than the smallest size tested."""
    PLATEAU = "plateau"
    """Accuracy levels off under :data:`PLATEAU`: the task is not learned at any size tested."""
    UNDECIDED = "undecided"
    """Too few points to say."""


@dataclass(frozen=True)
class Fit:
    """A logistic in ln size: ``floor + (asymptote - floor) / (1 + exp(-slope * (ln size - midpoint)))``."""

    midpoint: float
    slope: float
    floor: float
    asymptote: float


@dataclass(frozen=True)
class Estimate:
    """A size with its interval. ``low`` or ``high`` is None where that side is censored; ``value`` is None where
    the point itself lies outside the tested sizes."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Transition:
    """Where a task becomes learnable in a mix.

    ``relative`` is the size at :data:`LEVEL` of the mix's own asymptote, ``absolute`` the size at accuracy 0.8;
    both carry a ``confidence`` interval, never narrower than the largest unlearned and smallest learned size tested.
    """

    verdict: Verdict
    relative: Estimate
    absolute: Estimate
    fit: Fit | None
    points: tuple[Point, ...]
    confidence: float


@dataclass(frozen=True)
class Synergy:
    """transition(baseline) / transition(mix), in parameters: above 1, the mix needs a smaller model.

    ``value`` is None when one side is censored; then at most one of ``low`` and ``high`` is known. ``decided`` is
    False when the interval holds 1, when nothing is known, or when the relative and the absolute criterion disagree
    in sign.
    """

    value: float | None
    low: float | None
    high: float | None
    decided: bool
