"""The transition of one mix: points in, a verdict with intervals out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from orchestrator.transition.curves import curves_for
from orchestrator.transition.posterior import Posterior, posterior_of
from orchestrator.transition.scatter import Crossing
from orchestrator.transition.types import (
    LEVEL,
    NEAR_LEVEL,
    QUANTILES,
    Estimate,
    Point,
    Transition,
    Verdict,
)

SURE = 0.95
"""Posterior probability at which a transition is declared outside the candidate sizes."""
LIKELY = 0.5
"""The same where no size tested contradicts it: none learned, or all did."""
UNKNOWN = Estimate(None, None, None)


def transition(points: Sequence[Point], sizes: Sequence[int]) -> Transition:
    """The transition that ``points`` (runs of one mix) show.

    ``sizes`` are the candidate sizes of the search, at least one: they set the range of the prior.
    """
    ordered = tuple(sorted(points))
    if not ordered:
        return Transition(Verdict.UNDECIDED, UNKNOWN, UNKNOWN, ())
    curves = curves_for([*sizes, *(point.size for point in ordered)], _floor(ordered))
    posterior = posterior_of(ordered, curves)
    level = LEVEL * posterior.mean_top()
    if _floor(ordered) > level - NEAR_LEVEL:
        return Transition(Verdict.NEAR_FLOOR, UNKNOWN, UNKNOWN, ordered, level=level)
    verdict, relative, absolute = _judge(posterior, ordered, sizes, level)
    return Transition(
        verdict,
        relative,
        absolute,
        ordered,
        posterior.probability_above(ordered[-1].size),
        posterior.probability_below(ordered[0].size),
        posterior.density(curves.relative),
        level,
    )


def _judge(
    posterior: Posterior,
    points: Sequence[Point],
    sizes: Sequence[int],
    level: float,
) -> tuple[Verdict, Estimate, Estimate]:
    """The verdict, and the transition by its own asymptote and by absolute accuracy."""
    smallest, largest = points[0].size, points[-1].size
    above, below = posterior.probability_above(largest), posterior.probability_below(smallest)
    learned = learned_sizes(points, level)
    relative, absolute = _estimates(points, posterior, level)
    if largest >= max(sizes) and not learned[largest] and above >= (SURE if any(learned.values()) else LIKELY):
        return Verdict.ABOVE, Estimate(None, min(float(largest), relative.low or math.inf), None), absolute
    if smallest <= min(sizes) and learned[smallest] and below >= (LIKELY if all(learned.values()) else SURE):
        return Verdict.BELOW, Estimate(None, None, max(float(smallest), relative.high or 0.0)), absolute
    # A median outside the sizes tried, or without any bound, is no finding.
    placed = relative.is_placed(smallest, largest)
    return Verdict.FOUND if placed else Verdict.UNDECIDED, relative, absolute


def _floor(points: Sequence[Point]) -> float:
    return float(np.mean([point.floor for point in points]))


def _estimates(points: Sequence[Point], posterior: Posterior, level: float) -> tuple[Estimate, Estimate]:
    """The transition by these runs, by their own asymptote and by absolute accuracy."""
    relative = _estimate(posterior, posterior.curves.relative, learned_sizes(points, level))
    return relative, _estimate(posterior, posterior.curves.absolute, learned_sizes(points, LEVEL))


def _estimate(posterior: Posterior, crossing: Crossing, learned: Mapping[int, bool]) -> Estimate:
    """Median and interval of a crossing, kept within what the runs can say.

    The interval holds the tested sizes that bracket the median: the largest one not ``learned`` below it, the smallest
    one learned above it. A side whose quantile leaves the candidate sizes is censored, and so is the median; it also
    needs a size that learned and one that did not.
    """
    low, middle, high = (math.exp(place) for place in posterior.quantiles(crossing, QUANTILES))
    smallest, largest = posterior.curves.smallest, posterior.curves.largest
    under = [size for size, good in learned.items() if not good and size <= middle]
    over = [size for size, good in learned.items() if good and size >= middle]
    both = len(set(learned.values())) == 2
    return Estimate(
        middle if both and smallest <= middle <= largest else None,
        min([low, *under[-1:]]) if low >= smallest and not all(learned.values()) else None,
        max([high, *over[:1]]) if high <= largest and any(learned.values()) else None,
    )


def learned_sizes(points: Sequence[Point], level: float) -> dict[int, bool]:
    """For each size tested, ascending, whether the mean accuracy over its runs reaches ``level``."""
    accuracies: dict[int, list[float]] = {}
    for point in sorted(points):
        accuracies.setdefault(point.size, []).append(point.accuracy)
    return {size: float(np.mean(found)) >= level for size, found in accuracies.items()}
