"""Transition of one mix: a verdict with intervals from runs. Ratio of two transitions: an estimate, not a decision."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from orchestrator.transition.curves import Crossing
from orchestrator.transition.posterior import Posterior
from orchestrator.transition.types import LEVEL, NEAR_LEVEL, QUANTILES, Estimate, Point, Synergy, Transition, Verdict

SURE = 0.95
"""Minimum posterior probability of a transition outside the candidate sizes to give that verdict."""
LIKELY = 0.5
"""Minimum posterior probability of a transition outside the sizes if no tested size contradicts that verdict."""
UNKNOWN = Estimate(None, None, None)


def transition(points: Sequence[Point], sizes: Sequence[int]) -> Transition:
    """Return the transition of the mix whose runs are ``points``. The candidate ``sizes`` of the search, at least one,
    set the range of the prior."""
    ordered = tuple(sorted(points))
    if not ordered:
        return Transition(Verdict.UNDECIDED, UNKNOWN, UNKNOWN, ())
    posterior = Posterior(ordered, sizes)
    level = LEVEL * posterior.mean_top()
    if np.mean([point.floor for point in ordered]) > level - NEAR_LEVEL:
        return Transition(Verdict.NEAR_FLOOR, UNKNOWN, UNKNOWN, ordered, level=level)
    curves, learned = posterior.curves, learned_sizes(ordered, level)
    below = posterior.probability_below(ordered[0].size)
    above = 1 - posterior.probability_below(ordered[-1].size)
    verdict, relative = _judge(_estimate(posterior, curves.relative, learned), learned, sizes, below, above)
    return Transition(
        verdict,
        relative,
        _estimate(posterior, curves.absolute, learned_sizes(ordered, LEVEL)),
        ordered,
        above,
        below,
        posterior.density(curves.relative),
        level,
    )


def _judge(
    estimate: Estimate, learned: Mapping[int, bool], sizes: Sequence[int], below: float, above: float
) -> tuple[Verdict, Estimate]:
    """Return the verdict, and the estimate censored accordingly. ``learned`` is by tested size, ascending; ``below``
    and ``above`` are the probabilities that the transition is below and above the tested sizes."""
    smallest, largest = min(learned), max(learned)
    if largest >= max(sizes) and not learned[largest] and above >= (SURE if any(learned.values()) else LIKELY):
        return Verdict.ABOVE, Estimate(None, min(float(largest), estimate.low or math.inf), None)
    if smallest <= min(sizes) and learned[smallest] and below >= (LIKELY if all(learned.values()) else SURE):
        return Verdict.BELOW, Estimate(None, None, max(float(smallest), estimate.high or 0.0))
    # A median outside the tested sizes, or without any bound, is not a result.
    return Verdict.FOUND if estimate.is_placed(smallest, largest) else Verdict.UNDECIDED, estimate


def _estimate(posterior: Posterior, crossing: Crossing, learned: Mapping[int, bool]) -> Estimate:
    """Return the median and interval of a crossing, limited to what the runs support.

    The interval includes the tested sizes that bracket the median: the largest size below it that did not learn and the
    smallest above it that did. A side or median outside the candidate sizes is censored. A median also needs at least
    one size that learned and one that did not.
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
    """Return whether the mean accuracy at each tested size reaches ``level``, given points in order of size."""
    accuracies: dict[int, list[float]] = {}
    for point in points:
        accuracies.setdefault(point.size, []).append(point.accuracy)
    return {size: float(np.mean(values)) >= level for size, values in accuracies.items()}


def synergy(baseline: Transition, mix: Transition, parameters: Callable[[float], float]) -> Synergy:
    """Return the estimated factor by which ``mix`` needs fewer parameters than ``baseline``.

    The method of variance estimates recovery (Zou and Donner 2008, Statistics in Medicine 27, 1693) combines the
    intervals of both transitions. If one side is censored, the bounds themselves are compared, which is conservative.
    ``parameters`` is the parameter count of a size, which may be fractional; it must rise with size.
    """
    top, bottom = (
        Estimate(*(None if size is None else math.log(parameters(size)) for size in (side.value, side.low, side.high)))
        for side in (baseline.relative, mix.relative)
    )
    value = None if top.value is None or bottom.value is None else math.exp(top.value - bottom.value)
    low, negative_high = _least(top, bottom), _least(bottom, top)
    return Synergy(
        value,
        None if low is None else math.exp(low),
        None if negative_high is None else math.exp(-negative_high),
    )


def _least(top: Estimate, bottom: Estimate) -> float | None:
    """Return the lower bound of ``top - bottom``, or None if it is censored."""
    if top.low is None or bottom.high is None:
        return None
    if top.value is None or bottom.value is None:
        return top.low - bottom.high
    return top.value - bottom.value - math.hypot(top.value - top.low, bottom.high - bottom.value)
