"""Races: the ratio by which the target arrives sooner than its rivals, paired by graph and seed.

A run that holds a race has the measures ``spent_NAME`` and ``arrived_NAME`` of each method. The ratio of a pair is
known if both arrived, and bounded on one side if one had not when the race ended. The median over pairs needs no more.
Its interval is the sign test's, between order statistics of the bounds (Conover 1999, section 3.2), and holds its
confidence whatever the ratios' distribution. No mean is taken of numbers that a budget has cut short.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.home.sweeps import RunRecord
from orchestrator.space.evidence import stands_for_its_size
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import QUANTILES, Estimate

SPENT, SECONDS, ARRIVED, BROKEN = "spent_", "seconds_", "arrived_", "broken_"


@dataclass(frozen=True)
class Bounds:
    """A positive number between ``low`` and ``high``; they are equal if it is known."""

    low: float
    high: float

    def over(self, other: Bounds) -> Bounds:
        """The ratio to another number that is greater than 0."""
        if math.isinf(self.high) and math.isinf(other.high):
            return Bounds(0.0, math.inf)
        return Bounds(self.low / other.high, self.high / other.low)


@dataclass(frozen=True)
class SpeedUp:
    """The ratio of the best rival's need to the target's in a mix, in units of the race and in seconds: the median over
    ``pairs`` graphs of one size."""

    mix: str
    size: int
    pairs: int
    spent: Estimate
    seconds: Estimate


def speed_ups(spec: SweepSpec, runs: Sequence[RunRecord]) -> list[SpeedUp]:
    """Every mix and size that was raced, in the order of the space. ``[]`` for other families."""
    raced = [
        run
        for run in runs
        if stands_for_its_size(run.config, run.outcome)
        and all(f"{SPENT}{task}" in run.outcome.measures for task in run.config.mix.tasks)
    ]
    found = []
    for mix in spec.mixes:
        rivals = [task for task in mix.tasks if task != spec.target]
        for size in spec.sizes:
            cell = (mix.name, size)
            here = [run.outcome.measures for run in raced if (run.config.label, run.config.size) == cell]
            if here and rivals:
                spent, seconds = (
                    median([_ratio(measures, kind, spec.target, rivals) for measures in here])
                    for kind in (SPENT, SECONDS)
                )
                found.append(SpeedUp(mix.name, size, len(here), spent, seconds))
    return found


def median(ratios: Sequence[Bounds]) -> Estimate:
    """The median of bounded numbers, with an interval.

    ``value`` is None if the bounds leave it open, ``low`` or ``high`` if they or too few numbers leave that side open.
    """
    lows, highs = sorted(one.low for one in ratios), sorted(one.high for one in ratios)
    least, most = _middle(lows), _middle(highs)
    from scipy.stats import binom

    # The largest k for which the k-th smallest and the k-th largest hold the median that often.
    k = int(binom.ppf(QUANTILES[0], len(ratios), 0.5))
    k = k if binom.cdf(k - 1, len(ratios), 0.5) <= QUANTILES[0] else k - 1
    low, high = (lows[k - 1], highs[-k]) if k > 0 else (0.0, math.inf)
    return Estimate(
        least if math.isclose(least, most) else None, low if low > 0 else None, high if math.isfinite(high) else None
    )


def _middle(ordered: Sequence[float]) -> float:
    """The median; of an even number the geometric mean of the middle two, so that a ratio and its inverse agree."""
    first, second = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return first if first == second else math.sqrt(first * second)


def _ratio(measures: Mapping[str, float], kind: str, target: str, rivals: Sequence[str]) -> Bounds:
    """The best rival's over the target's, in one race. A rival that broke down would never have arrived."""
    whole = [rival for rival in rivals if not measures.get(f"{BROKEN}{rival}")]
    theirs = [_bounds(measures, kind, rival) for rival in whole or rivals]
    best = Bounds(min(one.low for one in theirs), min(one.high for one in theirs))
    return best.over(_bounds(measures, kind, target))


def _bounds(measures: Mapping[str, float], kind: str, method: str) -> Bounds:
    """A method's need: its spending, or more than that if it had not arrived."""
    spent = measures[f"{kind}{method}"]
    return Bounds(spent, spent if measures[f"{ARRIVED}{method}"] else math.inf)
