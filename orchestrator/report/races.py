"""Races: the ratio by which the target arrives sooner than its rivals, paired by graph and seed.

A race has the measures ``spent_NAME`` and ``arrived_NAME`` of each method. If both methods arrived, the pair's
ratio is known. If only one did, the ratio is bounded on one side. That is enough for the median over pairs. The
interval of the median is between order statistics of the bounds, as in a sign test (Conover 1999, section 3.2). It is
valid for any distribution of the ratios. Means would be wrong, because the budget cuts some numbers short.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import QUANTILES, Estimate

SPENT = "spent_"
"""Start of the names of measures of a method's cost, in the unit of the race."""
SECONDS = "seconds_"
"""Start of the names of measures of a method's seconds."""
ARRIVED = "arrived_"
"""Start of the names of measures of whether a method arrived."""
BROKEN = "broken_"
"""Start of the names of measures of whether a method broke down."""


class Bounds(NamedTuple):
    """A positive number between ``low`` and ``high``, which are equal if the number is known."""

    low: float
    high: float

    def over(self, other: Bounds) -> Bounds:
        """Return the ratio to another number greater than 0."""
        return Bounds(self.low / other.high, self.high / other.low)


class SpeedUp(NamedTuple):
    """Ratio of the need of the best rival to the need of the target: the median over ``pairs`` graphs.

    ``spent`` is in the race's unit, and ``seconds`` in seconds.
    """

    mix: str
    size: int
    pairs: int
    spent: Estimate
    seconds: Estimate


def speed_ups(spec: SweepSpec, runs: Sequence[Run]) -> list[SpeedUp]:
    """Return every mix and size with a race, in the order of the space. Return an empty list for other families."""
    raced: dict[tuple[str, int], list[Mapping[str, float]]] = {}
    for run in runs:
        measures = run.outcome.measures
        is_race = all(f"{SPENT}{task}" in measures for task in run.config.mix.tasks)
        if is_race and run.is_finished:
            raced.setdefault((run.config.label, run.config.size), []).append(measures)
    result = []
    for mix, size in spec.cells:
        rivals = [task for task in mix.tasks if task != spec.target]
        if rivals and (races := raced.get((mix.name, size))):
            ratios = ([_ratio(measures, kind, spec.target, rivals) for measures in races] for kind in (SPENT, SECONDS))
            result.append(SpeedUp(mix.name, size, len(races), *map(median, ratios)))
    return result


def median(ratios: Sequence[Bounds]) -> Estimate:
    """Return the median of bounded numbers, with an interval. An end that is open, because of bounds or too few
    numbers, is None."""
    lows = sorted(ratio.low for ratio in ratios)
    highs = sorted(ratio.high for ratio in ratios)
    least = _middle(lows)
    most = _middle(highs)
    # The largest k such that the k-th smallest and k-th largest contain the median with this confidence.
    ways = accumulate(math.comb(len(ratios), k) for k in range(len(ratios) + 1))
    k = next(k for k, below in enumerate(ways) if below / 2 ** len(ratios) >= QUANTILES[0])
    low, high = (lows[k - 1], highs[-k]) if k > 0 else (0.0, math.inf)
    value = least if math.isclose(least, most) else None
    return Estimate(value, low if low > 0 else None, high if math.isfinite(high) else None)


def _middle(ordered: Sequence[float]) -> float:
    """Return the median, taking the geometric mean of the middle two so that inverse ratios agree."""
    first = ordered[(len(ordered) - 1) // 2]
    second = ordered[len(ordered) // 2]
    return first if first == second else math.sqrt(first * second)


def _ratio(measures: Mapping[str, float], kind: str, target: str, rivals: Sequence[str]) -> Bounds:
    """Return the ratio of the best rival's need to the target's need in one race. A rival that broke down never
    arrives."""
    working = [rival for rival in rivals if not measures.get(f"{BROKEN}{rival}")]
    needs = [_bounds(measures, kind, rival) for rival in working or rivals]
    best = Bounds(min(need.low for need in needs), min(need.high for need in needs))
    return best.over(_bounds(measures, kind, target))


def _bounds(measures: Mapping[str, float], kind: str, method: str) -> Bounds:
    """Return bounds of a method's need. If it arrived, it needs what it spent. Otherwise it needs at least that."""
    spent = measures[f"{kind}{method}"]
    return Bounds(spent, spent if measures[f"{ARRIVED}{method}"] else math.inf)
