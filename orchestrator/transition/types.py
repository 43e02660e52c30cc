"""The words of transition statistics: points in, fits and transitions out. Plain values, no I/O."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

LEVEL = 0.8
"""A transition lies where accuracy reaches this share of its asymptote (arXiv 2505.18369, section 2)."""

CONFIDENCE = 0.9
"""Nominal coverage of every interval."""
QUANTILES = ((1 - CONFIDENCE) / 2, 0.5, (1 + CONFIDENCE) / 2)
"""The lower end of an interval, the median and the upper end."""

PLATEAU = 0.9
"""A fitted asymptote below this is a plateau to report, not a transition."""

NEAR_LEVEL = 0.2
"""A best constant answer within this of :data:`LEVEL` of the asymptote leaves too little to tell learned from not."""

SCATTER = 0.02
"""Spread of accuracies from seed to seed among runs that learned: a run counts as under :data:`PLATEAU` when it is
under it by more than this."""


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
    PLATEAU = "plateau"
    """Accuracy levels off under :data:`PLATEAU` up to the largest candidate size. Estimates say "larger than the
    largest", as for :attr:`ABOVE`, unless some smaller size may be learned by most seeds: then they say nothing."""
    FALLS = "falls again"
    """Sizes that learn are followed by larger ones that fail, beyond chance: see
    :func:`orchestrator.transition.plateau.falls`. An estimate is that of the first rise, and is compared with
    nothing."""
    NEAR_FLOOR = "near floor"
    """The best constant answer scores within :data:`NEAR_LEVEL` of the level that counts as learned, or above it: where
    accuracy passes that level is noise. Estimates say nothing."""
    UNDECIDED = "undecided"
    """Too few points to say."""


@dataclass(frozen=True)
class Fit:
    """A logistic in ln size: ``floor + (asymptote - floor) / (1 + exp(-slope * (ln size - midpoint)))``."""

    midpoint: float
    slope: float
    floor: float
    asymptote: float

    def accuracy(self, size: float) -> float:
        """The fitted accuracy at a size, in [floor, asymptote]."""
        exponent = self.slope * (math.log(size) - self.midpoint)
        # One branch a sign, so that neither overflows.
        share = 1 / (1 + math.exp(-exponent)) if exponent >= 0 else math.exp(exponent) / (1 + math.exp(exponent))
        return self.floor + (self.asymptote - self.floor) * share


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

    ``relative`` is the size at :data:`LEVEL` of the mix's own asymptote, ``absolute`` the size at accuracy 0.8; both
    are posterior medians with their intervals, never narrower than the largest unlearned and smallest
    learned size tested. ``fit`` is the paper's least-squares curve beside it (None where the points show no rise).
    ``p_above`` and ``p_below`` are the posterior probabilities that the relative transition lies outside the tested
    sizes; ``density`` is its posterior (None without points, and for :attr:`Verdict.NEAR_FLOOR`).

    ``shares`` says, size by size, how many seeds learned, which is accuracy ``level`` or more; ``half`` is the size at
    which half of all seeds learn, an estimate as ``relative`` is. ``bimodal`` says that runs learn or do not, with few
    in between: then ``half`` and ``relative`` differ for that reason alone.
    """

    verdict: Verdict
    relative: Estimate
    absolute: Estimate
    fit: Fit | None
    points: tuple[Point, ...]
    p_above: float = 0.0
    p_below: float = 0.0
    density: Density | None = None
    shares: tuple[SizeShare, ...] = ()
    level: float | None = None
    half: Estimate = Estimate(None, None, None)
    bimodal: bool = False

    @property
    def floor(self) -> float | None:
        """The best constant answer's accuracy, in the mean over the points; None without any."""
        return sum(point.floor for point in self.points) / len(self.points) if self.points else None


class Doubt(StrEnum):
    """The reason why two mixes are not told apart."""

    NONE = ""
    INTERVAL = "the interval holds 1"
    CRITERION = "at absolute accuracy 0.8 it looks otherwise"
    LEVELS_OFF = "a curve levels off below 0.9"
    FALLS = "a curve falls again"
    FEW = "fewer than four runs a side between the two transitions"
    CHANCE = "the runs between the two transitions differ no more than by chance"


@dataclass(frozen=True)
class Between:
    """Runs at the sizes from the smaller transition to the larger one, ``smallest`` to ``largest``: how many of the
    mix and of the baseline learned. ``p`` is the probability of as large a difference if both learned alike."""

    smallest: int
    largest: int
    mix_learned: int
    mix_tried: int
    baseline_learned: int
    baseline_tried: int
    p: float


@dataclass(frozen=True)
class Synergy:
    """transition(baseline) / transition(mix), in parameters: above 1, the mix needs a smaller model.

    ``value`` is None when one side is censored; then at most one of ``low`` and ``high`` is known. ``decided`` is
    False for any ``doubt``. ``between`` counts the runs that decide (None if there are none, or if the interval holds
    1).
    """

    value: float | None
    low: float | None
    high: float | None
    decided: bool = False
    doubt: Doubt = Doubt.NONE
    between: Between | None = None
