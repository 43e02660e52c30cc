"""Transition of one mix: posterior over a grid of curves, verdict with intervals, and mean curve with its band.

Transition and mean curve are posterior *medians* with the same weights. The curve therefore passes 80% of its asymptote
at the transition. The ratio of two transitions is an estimate, not a decision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.transition.curves import Curves, curves_for, levelling_off
from orchestrator.transition.grids import BINS, Crossing
from orchestrator.transition.prior import KINDS, LEVELS_OFF, LUCK
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

SURE_OUTSIDE = 0.95
"""Minimum posterior probability of a transition outside the candidate sizes to give that verdict."""
LIKELY_OUTSIDE = 0.5
"""Minimum posterior probability of a transition outside the sizes if no tested size contradicts that verdict."""
LARGE = 0.5
"""Large models have at least this share of the largest tested size."""
RISEN = 0.15
"""Minimum distance of the mean accuracy of large models above the floor, for a curve that levels off."""
REACHED = 0.9
"""If the runs above a transition score at least this on average, nothing suggests a plateau."""
UNLIKELY = 0.2
"""Posterior probability below which the estimates ignore a plateau."""
SURE_OF_PLATEAU = 0.8
"""Posterior probability of a plateau for the verdict, or to count against large models that all learned."""
UNKNOWN_ESTIMATE = Estimate(None, None, None)
"""The estimate of a transition about which nothing is known."""
WITHIN = np.linspace(-0.4, 0.4, 5)
"""Positions within a step of the grid, relative to the step, over which the weight of a value is spread."""
DENSITY_BINS = 96
"""Number of bins of a transition's density, which figures show."""
ACCURACY_BINS = 400
"""Number of bins of accuracy in [0, 1] for quantiles. A bin of 0.0025 is far below the resolution of a figure."""


@dataclass(frozen=True)
class CrossingPosterior:
    """Posterior probabilities ``masses`` of a crossing in each bin of ``bins``. With the probability of flat curves,
    they sum to 1."""

    bins: Crossing
    masses: Floats

    @property
    def _cumulative(self) -> Floats:
        return np.minimum(np.cumsum(self.masses), 1.0)

    def quantiles(self, probabilities: Sequence[float]) -> list[float]:
        """Return quantiles in ln size, infinite if they fall on flat curves."""
        cumulative = self._cumulative
        wanted = np.array(probabilities)
        index = np.searchsorted(cumulative, np.minimum(wanted, cumulative[-1]))
        centers = self.bins.start + (index + 0.5) * self.bins.width
        return [float(value) for value in np.where(wanted > cumulative[-1], np.inf, centers)]

    def probability_below(self, size: float) -> float:
        """Return the probability of a crossing below a size. Flat curves never count."""
        edges = self.bins.start + self.bins.width * np.arange(1, BINS + 1)
        return float(np.interp(math.log(size), edges, self._cumulative, left=0.0))


class Posterior:
    """Probability of each curve of the grids, given the runs of one mix: at least one point, in any order. The
    candidate ``sizes`` of the search set the range of the prior.

    Curves that level off have no weight unless the runs show a sign of it (:meth:`_may_level_off`). Otherwise they
    would affect the estimates of curves that reach .9.
    """

    def __init__(self, points: Sequence[Point], sizes: Sequence[int]) -> None:
        floor = float(np.mean([point.floor for point in points]))
        self.curves = curves_for([*sizes, *(point.size for point in points)], floor)
        log_total, self.weights, self.flat = _weights(self.curves, points)
        self.rising_top = _mean_top([(self.curves, self.weights)])
        """Mean asymptote of the curves that do not level off, given that the task is learned."""
        self.p_levels_off = 0.0
        self._levelling: tuple[Curves, Floats] | None = None
        # This judges by the rising curves alone, because no others have weight so far.
        if (needed := self._may_level_off(points)) is None:
            return
        levelling = levelling_off(self.curves)
        log_levelling, weights, _ = _weights(levelling, points)
        log_odds = math.log(LEVELS_OFF / (1 - LEVELS_OFF)) + log_levelling - log_total
        from scipy.special import expit

        probability = float(expit(log_odds))
        if probability >= needed:
            self.p_levels_off = probability
            self.weights = self.weights * (1 - probability)
            self.flat *= 1 - probability
            self._levelling = levelling, weights * probability

    def _may_level_off(self, points: Sequence[Point]) -> float | None:
        """Return the probability from which curves that level off count, or None if nothing suggests one.

        Large models must have risen above the floor. A plateau is possible if the runs above the transition's interval
        score below :data:`REACHED` on average. Otherwise it must be likely, and a run must have learned below the
        interval, because the interval may then be too high.

        If no size is above the interval, the runs above its median or at the largest size are judged instead. These are
        few, so a single run that learned below them is enough.
        """
        floor = self.curves.floor
        largest = max(point.size for point in points)
        if np.mean([point.final for point in points if point.size >= LARGE * largest]) < floor + RISEN:
            return None
        low, middle, high = (math.exp(place) for place in self.relative.quantiles(QUANTILES))
        # The first of these sizes that some run reaches. A run always reaches the largest tested size.
        start = next(size for size in (high, middle, largest) if size <= largest)
        if np.mean([point.final for point in points if point.size >= start]) < REACHED:
            return UNLIKELY
        early = [point.size for point in points if point.final >= (REACHED + floor) / 2 and point.size < start]
        if start != high and early:
            return UNLIKELY
        return SURE_OF_PLATEAU if early and min(early) < low else None

    @property
    def parts(self) -> list[tuple[Curves, Floats]]:
        """Grids with the weights of their rising curves, summed over kinds: M x K x L x F x A, flat."""
        return [(self.curves, self.weights), *([] if self._levelling is None else [self._levelling])]

    @property
    def relative(self) -> CrossingPosterior:
        """Where curves reach :data:`LEVEL` of their own asymptote."""
        masses = [curves.relative.masses(weights) for curves, weights in self.parts]
        return CrossingPosterior(self.curves.relative, np.sum(masses, axis=0))

    @property
    def absolute(self) -> CrossingPosterior:
        """Where curves reach an accuracy of :data:`LEVEL`."""
        masses = [curves.absolute.masses(weights) for curves, weights in self.parts]
        return CrossingPosterior(self.curves.absolute, np.sum(masses, axis=0))

    @property
    def mean_top(self) -> float:
        """Mean asymptote of all curves, given that the task is learned."""
        return _mean_top(self.parts)

    def density(self) -> Density:
        """Return the distribution of the transition over :data:`DENSITY_BINS` bins of the range of midpoints."""
        placed = self.relative
        edges = np.linspace(self.curves.midpoints[0], self.curves.midpoints[-1], DENSITY_BINS + 1)
        places = placed.bins.start + (np.arange(BINS) + 0.5) * placed.bins.width
        index = np.clip(np.searchsorted(edges, places, side="right") - 1, 0, DENSITY_BINS)
        mass = np.bincount(index, weights=placed.masses, minlength=DENSITY_BINS + 1)
        centers = np.exp((edges[1:] + edges[:-1]) / 2)
        return Density(tuple(centers.tolist()), tuple(mass[:-1].tolist()), float(mass[-1]) + self.flat)


def _weights(curves: Curves, points: Sequence[Point]) -> tuple[float, Floats, float]:
    """Return the posterior weights over a grid.

    Returns:
        The log likelihood of the points averaged over the grid, the weights of its rising curves summed over kinds, and
        the weight of its flat curves.
    """
    unnormalized = curves.log_prior + curves.log_likelihood_of(points)
    best = unnormalized.max()  # Weights are relative to the best cell, because likelihoods of many runs underflow.
    weights = np.exp((unnormalized - best).astype(np.float32)).astype(np.float64)
    total = float(weights.sum())
    rising = weights[: curves.cells]
    rising /= total
    flat = float((weights[curves.cells :].reshape(len(LUCK), -1).sum(axis=1) / total).sum())
    return float(best) + math.log(total), rising.reshape(len(KINDS), -1).sum(axis=0), flat


def _mean_top(parts: Sequence[tuple[Curves, Floats]]) -> float:
    """Return the mean asymptote of mean accuracy, including lapses, over grids with these weights."""
    weights = [weights.reshape(curves.shape[1:]).sum(axis=(0, 1)) for curves, weights in parts]
    total = max(sum(float(weight_LFA.sum()) for weight_LFA in weights), 1e-300)
    pairs = zip(parts, weights, strict=True)
    return sum(float((weight_LFA / total * curves.tops).sum()) for (curves, _), weight_LFA in pairs)


def transition(points: Sequence[Point], sizes: Sequence[int]) -> Transition:
    """Return the transition of one mix.

    Args:
        points: The mix's runs.
        sizes: Candidate sizes of the search, at least one. They set the range of the prior.
    """
    ordered = tuple(sorted(points))
    if not ordered:
        return Transition(Verdict.UNDECIDED, UNKNOWN_ESTIMATE, UNKNOWN_ESTIMATE, ())
    posterior = Posterior(ordered, sizes)
    level = LEVEL * posterior.mean_top
    if np.mean([point.floor for point in ordered]) > LEVEL * posterior.rising_top - NEAR_LEVEL:
        return Transition(Verdict.NEAR_FLOOR, UNKNOWN_ESTIMATE, UNKNOWN_ESTIMATE, ordered, level=level)
    curves = posterior.curves
    placed = posterior.relative
    learned = learned_sizes(ordered, level)
    below = placed.probability_below(ordered[0].size)
    above = 1 - placed.probability_below(ordered[-1].size)
    verdict, relative = _judge(_estimate(curves, placed, learned), learned, sizes, below, above)
    if verdict in (Verdict.FOUND, Verdict.BELOW) and posterior.p_levels_off >= SURE_OF_PLATEAU:
        verdict = Verdict.LEVELS_OFF
    return Transition(
        verdict,
        relative,
        _estimate(curves, posterior.absolute, learned_sizes(ordered, LEVEL)),
        ordered,
        above,
        below,
        posterior.density(),
        level,
        posterior.p_levels_off,
    )


def _judge(
    estimate: Estimate, learned: Mapping[int, bool], sizes: Sequence[int], below: float, above: float
) -> tuple[Verdict, Estimate]:
    """Return the verdict, and the estimate censored accordingly.

    Args:
        learned: Whether each tested size learned, ascending.
        below: Probability that the transition is below the tested sizes.
        above: Probability that the transition is above the tested sizes.
    """
    smallest = min(learned)
    largest = max(learned)
    # If some sizes learned, a transition above all sizes contradicts them and must be nearly certain, and vice versa.
    needed_above = SURE_OUTSIDE if any(learned.values()) else LIKELY_OUTSIDE
    needed_below = LIKELY_OUTSIDE if all(learned.values()) else SURE_OUTSIDE
    if largest >= max(sizes) and not learned[largest] and above >= needed_above:
        return Verdict.ABOVE, Estimate(None, min(float(largest), estimate.low or math.inf), None)
    if smallest <= min(sizes) and learned[smallest] and below >= needed_below:
        return Verdict.BELOW, Estimate(None, None, max(float(smallest), estimate.high or 0.0))
    # A median outside the tested sizes, or without any bound, is not a result.
    return Verdict.FOUND if estimate.is_placed(smallest, largest) else Verdict.UNDECIDED, estimate


def _estimate(curves: Curves, placed: CrossingPosterior, learned: Mapping[int, bool]) -> Estimate:
    """Return the median and interval of a crossing, limited to what the runs support.

    The interval includes the tested sizes that bracket the median: the largest size below it that did not learn and the
    smallest size above it that did. A side or median outside the candidate sizes is censored. A median also needs at
    least one size that learned and one size that did not.
    """
    low, middle, high = (math.exp(place) for place in placed.quantiles(QUANTILES))
    smallest = curves.smallest
    largest = curves.largest
    under = [size for size, good in learned.items() if not good and size <= middle]
    over = [size for size, good in learned.items() if good and size >= middle]
    both = len(set(learned.values())) == 2  # Otherwise no tested sizes bracket the median.
    return Estimate(
        middle if both and smallest <= middle <= largest else None,
        min([low, *under[-1:]]) if low >= smallest and not all(learned.values()) else None,
        max([high, *over[:1]]) if high <= largest and any(learned.values()) else None,
    )


def learned_sizes(points: Sequence[Point], level: float) -> dict[int, bool]:
    """Return whether the mean accuracy at each tested size reaches ``level``, given points in order of size."""
    accuracies: dict[int, list[float]] = {}
    for point in points:
        accuracies.setdefault(point.size, []).append(point.final)
    return {size: float(np.mean(values)) >= level for size, values in accuracies.items()}


def synergy(baseline: Transition, mix: Transition, parameters: Callable[[float], float]) -> Synergy:
    """Return the estimated factor by which ``mix`` needs fewer parameters than ``baseline``.

    The method of variance estimates recovery (Zou and Donner 2008, Statistics in Medicine 27, 1693) combines the
    intervals of both transitions. If one side is censored, the bounds themselves are compared, which is conservative.
    ``parameters`` returns the parameter count of a size, which may be fractional. The count must rise with the size.
    """
    top, bottom = (
        Estimate(*(None if size is None else math.log(parameters(size)) for size in (side.value, side.low, side.high)))
        for side in (baseline.relative, mix.relative)
    )
    value = None if top.value is None or bottom.value is None else math.exp(top.value - bottom.value)
    low = _least(top, bottom)
    negative_high = _least(bottom, top)
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
    rows = []
    for size in at:
        mass = np.sum([_accuracies(*part, size) for part in posterior.parts], axis=0).cumsum()
        bins = np.minimum(np.searchsorted(mass, np.asarray(QUANTILES) * mass[-1]), ACCURACY_BINS - 1)
        rows.append([float(bin_ + 0.5) / ACCURACY_BINS for bin_ in bins])
    low, middle, high = zip(*rows, strict=True)
    return PosteriorCurve(tuple(map(float, at)), middle, low, high)


@dataclass(frozen=True)
class CurveParameters:
    """Parameters of the curve of mean accuracy, given that the task is learned at some size.

    They are posterior medians with intervals. ``midpoint`` is a size. ``slope`` is the slope of the logit, per unit of
    ln size.
    """

    midpoint: Estimate
    slope: Estimate
    floor: Estimate
    asymptote: Estimate


def curve_parameters(points: Sequence[Point], candidates: Sequence[int]) -> CurveParameters:
    """Return the parameters of the curve through runs of a search over the sizes ``candidates``."""
    by_cell = [(curves, weights.reshape(curves.shape[1:])) for curves, weights in Posterior(points, candidates).parts]
    midpoint, slope, floor, asymptote = [], [], [], []
    for curves, weight_MKLFA in by_cell:
        grid = curves.grid
        slopes = np.log(grid.slopes)
        midpoint.append((curves.midpoints, np.gradient(curves.midpoints), weight_MKLFA.sum(axis=(1, 2, 3, 4))))
        slope.append((slopes, np.gradient(slopes), weight_MKLFA.sum(axis=(0, 2, 3, 4))))
        floor.append((curves.floors, np.gradient(curves.floors), weight_MKLFA.sum(axis=(0, 1, 2, 4))))
        step_LFA = np.broadcast_to(np.gradient(grid.asymptotes), curves.tops.shape)
        asymptote.append((curves.tops.ravel(), step_LFA.ravel(), weight_MKLFA.sum(axis=(0, 1)).ravel()))
    shares = [_spread(values) for values in (floor, asymptote)]
    return CurveParameters(
        *(Estimate(*(math.exp(end) for end in _spread(values))) for values in (midpoint, slope)),
        *(Estimate(*(min(max(end, 0.0), 1.0) for end in ends)) for ends in shares),
    )


def _spread(parts: Sequence[tuple[Floats, Floats, Floats]]) -> tuple[float, float, float]:
    """Return median, low end and high end of a parameter.

    The weight of a value is spread evenly over its part of the axis. Otherwise intervals would be too narrow where the
    grid is coarse.

    Args:
        parts: For each grid, the values of the parameter, the distances between values there, and their weights.
    """
    values, steps, weights = (np.concatenate(arrays)[:, None] for arrays in zip(*parts, strict=True))
    spread = (values + steps * WITHIN).ravel()
    distinct, place = np.unique(spread, return_inverse=True)
    mass = np.bincount(place, weights=np.broadcast_to(weights, (len(weights), len(WITHIN))).ravel())
    middles = np.cumsum(mass) - mass / 2
    likely = mass > 0
    low, value, high = np.interp(np.array(QUANTILES) * mass.sum(), middles[likely], distinct[likely])
    return float(value), float(low), float(high)


def _accuracies(curves: Curves, weights: Floats, size: float) -> Floats:
    """Return the weight of each bin of mean accuracy at a size."""
    floor_C = np.broadcast_to(curves.floors[:, None], curves.tops.shape).ravel()  # C: lapse, floor and asymptote
    share_S1 = curves.share(size).ravel()[:, None]  # S: midpoint and slope
    accuracy_SC: Floats = floor_C + share_S1 * (curves.tops.ravel() - floor_C)
    place = np.clip((accuracy_SC * ACCURACY_BINS).astype(np.intp), 0, ACCURACY_BINS - 1)
    return np.bincount(place.ravel(), weights=weights, minlength=ACCURACY_BINS).astype(np.float64)
