"""Transition of one mix: posterior over a grid of curves, verdict with intervals, and mean curve with its band.

Transition and mean curve are posterior *medians* with the same weights, so the curve passes 80% of its asymptote at the
transition. The ratio of two transitions is an estimate, not a decision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.transition.curves import BINS, KINDS, LUCK, Crossing, curves_for
from orchestrator.transition.types import (
    LEVEL,
    NEAR_LEVEL,
    QUANTILES,
    Density,
    Estimate,
    Floats,
    Point,
    Synergy,
    Transition,
    Verdict,
)

SURE = 0.95
"""Minimum posterior probability of a transition outside the candidate sizes to give that verdict."""
LIKELY = 0.5
"""Minimum posterior probability of a transition outside the sizes if no tested size contradicts that verdict."""
UNKNOWN = Estimate(None, None, None)
DENSITY_BINS = 96
ACCURACY_BINS = 400
"""Number of bins of accuracy in [0, 1] for quantiles. A bin of 0.0025 is far below the resolution of a figure."""


class Posterior:
    """Probability of each curve of the grid, given the runs of one mix: at least one point, in any order. The candidate
    ``sizes`` of the search set the range of the prior."""

    def __init__(self, points: Sequence[Point], sizes: Sequence[int]) -> None:
        floor = float(np.mean([point.floor for point in points]))
        self.curves = curves_for([*sizes, *(point.size for point in points)], floor)
        unnormalized = self.curves.log_prior + self.curves.log_likelihood_of(points)
        weights = np.exp((unnormalized - unnormalized.max()).astype(np.float32)).astype(np.float64)
        total = float(weights.sum())
        rising = weights[: self.curves.cells]
        rising /= total
        self.weights: Floats = rising.reshape(len(KINDS), -1).sum(axis=0)
        """Weights of the rising curves, summed over kinds: M x K x L x F x A, flat."""
        self.flat = float((weights[self.curves.cells :].reshape(len(LUCK), -1).sum(axis=1) / total).sum())

    def _cumulative(self, crossing: Crossing) -> Floats:
        return np.minimum(np.cumsum(crossing.masses(self.weights)), 1.0)

    def quantiles(self, crossing: Crossing, probabilities: Sequence[float]) -> list[float]:
        """Return quantiles of a crossing in ln size, infinite if they fall on flat curves."""
        cumulative, wanted = self._cumulative(crossing), np.array(probabilities)
        index = np.searchsorted(cumulative, np.minimum(wanted, cumulative[-1]))
        places = crossing.start + (index + 0.5) * crossing.width
        return [float(value) for value in np.where(wanted > cumulative[-1], np.inf, places)]

    def probability_below(self, size: float) -> float:
        """Return the probability that the relative transition is below a size. Flat curves never count."""
        crossing = self.curves.relative
        edges = crossing.start + crossing.width * np.arange(1, BINS + 1)
        return float(np.interp(math.log(size), edges, self._cumulative(crossing), left=0.0))

    def mean_top(self) -> float:
        """Return the mean asymptote of mean accuracy, including lapses, given that the task is learned."""
        weight_LFA = self.weights.reshape(self.curves.shape[1:]).sum(axis=(0, 1))
        weight_LFA = weight_LFA / max(float(weight_LFA.sum()), 1e-300)
        return float((weight_LFA * self.curves.tops).sum())

    def density(self, crossing: Crossing) -> Density:
        """Return the distribution of a crossing over :data:`DENSITY_BINS` bins of the range of midpoints."""
        edges = np.linspace(self.curves.midpoints[0], self.curves.midpoints[-1], DENSITY_BINS + 1)
        places = crossing.start + (np.arange(BINS) + 0.5) * crossing.width
        index = np.clip(np.searchsorted(edges, places, side="right") - 1, 0, DENSITY_BINS)
        mass = np.bincount(index, weights=crossing.masses(self.weights), minlength=DENSITY_BINS + 1)
        centers = np.exp((edges[1:] + edges[:-1]) / 2)
        return Density(tuple(centers.tolist()), tuple(mass[:-1].tolist()), float(mass[-1]) + self.flat)


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
    high = None if negative_high is None else math.exp(-negative_high)
    return Synergy(value, None if low is None else math.exp(low), high)


def _least(top: Estimate, bottom: Estimate) -> float | None:
    """Return the lower bound of ``top - bottom``, or None if it is censored."""
    if top.low is None or bottom.high is None:
        return None
    if top.value is None or bottom.value is None:
        return top.low - bottom.high
    return top.value - bottom.value - math.hypot(top.value - top.low, bottom.high - bottom.value)


@dataclass(frozen=True)
class PosteriorCurve:
    """Mean accuracy over seeds at each of ``sizes``, given that the task is learned at some size: the posterior median
    ``middle`` and the interval from ``low`` to ``high``."""

    sizes: tuple[float, ...]
    middle: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def posterior_curve(points: Sequence[Point], candidates: Sequence[int], at: Sequence[float]) -> PosteriorCurve:
    """Return the mean curve at the sizes ``at`` (ascending), given runs of a search over the sizes ``candidates``."""
    posterior = Posterior(points, candidates)
    curves = posterior.curves
    floor_C = np.broadcast_to(curves.floors[:, None], curves.tops.shape).ravel()  # C: lapse, floor and asymptote
    rows = []
    for size in at:
        share_S1 = curves.share(size).ravel()[:, None]  # S: midpoint and slope
        accuracy_SC: Floats = floor_C + share_S1 * (curves.tops.ravel() - floor_C)
        place = np.clip((accuracy_SC * ACCURACY_BINS).astype(np.intp), 0, ACCURACY_BINS - 1)
        mass = np.bincount(place.ravel(), weights=posterior.weights, minlength=ACCURACY_BINS).cumsum()
        bins = np.minimum(np.searchsorted(mass, np.asarray(QUANTILES) * mass[-1]), ACCURACY_BINS - 1)
        rows.append([float(bin_ + 0.5) / ACCURACY_BINS for bin_ in bins])
    low, middle, high = zip(*rows, strict=True)
    return PosteriorCurve(tuple(map(float, at)), middle, low, high)
