"""Races: the ratio by which the target arrives sooner than its rivals, paired by graph and seed.

A race has the measures ``spent_NAME`` and ``arrived_NAME`` of each method. If both methods arrived, the pair's
ratio is known; if only one did, it is bounded on one side. That is enough for the median over pairs. The median's
interval is the sign test's, between order statistics of the bounds (Conover 1999, section 3.2), valid for any
distribution of the ratios. Means would be wrong, because the budget cuts some numbers short.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import QUANTILES, Estimate

SPENT, SECONDS, ARRIVED, BROKEN = "spent_", "seconds_", "arrived_", "broken_"


class Bounds(NamedTuple):
    """A positive number between ``low`` and ``high``, which are equal if the number is known."""

    low: float
    high: float

    def over(self, other: Bounds) -> Bounds:
        """Return the ratio to another number greater than 0."""
        return Bounds(self.low / other.high, self.high / other.low)


class SpeedUp(NamedTuple):
    """How much more the best rival needs than the target, in the race's unit and in seconds: medians of ratios over
    ``pairs`` graphs."""

    mix: str
    size: int
    pairs: int
    spent: Estimate
    seconds: Estimate


def speed_ups(spec: SweepSpec, runs: Sequence[Run]) -> list[SpeedUp]:
    """Return every mix and size with a race, in the order of the space; ``[]`` for other families."""
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
    """Return the median of bounded numbers with an interval, None where bounds or too few numbers leave it open."""
    lows, highs = sorted(one.low for one in ratios), sorted(one.high for one in ratios)
    least, most = _middle(lows), _middle(highs)
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
    """Return the best rival's need over the target's in one race. A rival that broke down never arrives."""
    working = [rival for rival in rivals if not measures.get(f"{BROKEN}{rival}")]
    needs = [_bounds(measures, kind, rival) for rival in working or rivals]
    best = Bounds(min(need.low for need in needs), min(need.high for need in needs))
    return best.over(_bounds(measures, kind, target))


def _bounds(measures: Mapping[str, float], kind: str, method: str) -> Bounds:
    """Return bounds of a method's need: its spending, or any value above if it did not arrive."""
    spent = measures[f"{kind}{method}"]
    return Bounds(spent, spent if measures[f"{ARRIVED}{method}"] else math.inf)
