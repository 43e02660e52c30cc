"""Transitions of one mix, and the comparison of two: points in, verdicts with intervals out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.stats import hypergeom

from orchestrator.transition.curves import curves_for
from orchestrator.transition.fit import contested, falls, fit, plateau
from orchestrator.transition.kinds import Crossing
from orchestrator.transition.posterior import Posterior, posterior_of
from orchestrator.transition.shares import half_crossing, is_bimodal, size_shares
from orchestrator.transition.types import (
    LEVEL,
    NEAR_LEVEL,
    Between,
    Density,
    Doubt,
    Estimate,
    Fit,
    Point,
    SizeShare,
    Synergy,
    Transition,
    Verdict,
)

SURE = 0.95
"""Posterior probability at which a transition is declared outside the candidate sizes."""
LIKELY = 0.5
"""The same where no size tested contradicts it: none learned, or all did."""
FEWEST, CHANCE = 4, 0.05
"""Runs between two transitions that each side needs, and the largest p of their difference, for a comparison to be
decided: chosen on sweeps of seeds 1000-1079, with other seeds reported."""
UNKNOWN = Estimate(None, None, None)


def transition(points: Sequence[Point], sizes: Sequence[int], confidence: float = 0.90) -> Transition:
    """The transition that ``points`` (runs of one mix) show.

    ``sizes`` are the candidate sizes of the search: they set the range of the prior. ``confidence`` is the
    probability an interval holds, in (0, 1). Raises ``ValueError`` for an impossible confidence or no sizes.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    if not sizes:
        raise ValueError("no candidate sizes")
    ordered = tuple(sorted(points))
    if not ordered:
        return Transition(Verdict.UNDECIDED, UNKNOWN, UNKNOWN, None, (), confidence)
    curves = curves_for([*sizes, *(point.size for point in ordered)], _floor(ordered))
    posterior = posterior_of(ordered, curves)
    fitted = fit(ordered)
    level = LEVEL * posterior.mean_top()
    if _floor(ordered) > level - NEAR_LEVEL:
        return Transition(Verdict.NEAR_FLOOR, UNKNOWN, UNKNOWN, fitted, ordered, confidence, level=level)
    verdict, relative, absolute = _judge(posterior, fitted, ordered, sizes, level, confidence)
    shares = size_shares(ordered, level, confidence)
    return Transition(
        verdict,
        relative,
        absolute,
        fitted,
        ordered,
        confidence,
        posterior.probability_above(ordered[-1].size),
        posterior.probability_below(ordered[0].size),
        posterior.density(curves.relative),
        shares,
        level,
        UNKNOWN if verdict in (Verdict.PLATEAU, Verdict.FALLS) else _half(posterior, shares, confidence),
        is_bimodal(ordered, level, posterior.mean_top(), posterior.mean_floor()),
    )


def _judge(
    posterior: Posterior,
    fitted: Fit | None,
    points: Sequence[Point],
    sizes: Sequence[int],
    level: float,
    confidence: float,
) -> tuple[Verdict, Estimate, Estimate]:
    """The verdict, and the transition by its own asymptote and by absolute accuracy."""
    smallest, largest = points[0].size, points[-1].size
    above, below = posterior.probability_above(largest), posterior.probability_below(smallest)
    learned = learned_sizes(points, level)
    relative = _estimate(posterior, posterior.curves.relative, learned, confidence)
    absolute = _estimate(posterior, posterior.curves.absolute, learned_sizes(points, LEVEL), confidence)
    if falls(points, level):
        return Verdict.FALLS, relative, absolute
    level_off = plateau(fitted, points, sizes)
    if level_off is not None:
        # The posterior knows no low asymptotes: what is left is whether any size tested was learned at all.
        alone = UNKNOWN if contested(points, level_off) else Estimate(None, float(largest), None)
        return Verdict.PLATEAU, alone, alone
    if largest >= max(sizes) and above >= (SURE if any(learned.values()) else LIKELY):
        return Verdict.ABOVE, Estimate(None, min(float(largest), relative.low or math.inf), None), absolute
    if smallest <= min(sizes) and below >= (LIKELY if all(learned.values()) else SURE):
        return Verdict.BELOW, Estimate(None, None, max(float(smallest), relative.high or 0.0)), absolute
    return Verdict.UNDECIDED if relative.value is None else Verdict.FOUND, relative, absolute


def _floor(points: Sequence[Point]) -> float:
    return float(np.mean([point.floor for point in points]))


def _half(posterior: Posterior, shares: Sequence[SizeShare], confidence: float) -> Estimate:
    """The size at which half of all seeds learn, by the sizes that at least half of the seeds tried learned."""
    most = {share.size: 2 * share.learned >= share.tried for share in shares}
    return _estimate(posterior, half_crossing(posterior.curves), most, confidence)


def _estimate(posterior: Posterior, crossing: Crossing, learned: Mapping[int, bool], confidence: float) -> Estimate:
    """Median and interval of a crossing, kept within what the runs can say.

    The interval holds the tested sizes that bracket the median: the largest one not ``learned`` below it, the smallest
    one learned above it. A side whose quantile leaves the candidate sizes is censored, and so is the median; it also
    needs a size that learned and one that did not.
    """
    tail = (1 - confidence) / 2
    low, middle, high = (math.exp(place) for place in posterior.quantiles(crossing, (tail, 0.5, 1 - tail)))
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


def synergy(baseline: Transition, mix: Transition, parameters: Callable[[float], float]) -> Synergy:
    """The factor by which ``mix`` needs fewer parameters than ``baseline``.

    ``parameters`` maps a size, fractional or not, to a parameter count in closed form; it must rise with size. The
    interval combines those of both transitions by the method of variance estimates recovery (Zou and Donner 2008,
    Statistics in Medicine 27, 1693); where one side is censored the bounds themselves are compared, which is
    conservative.

    Intervals assume curves that rise to an asymptote; pools of real runs do not. So nothing is decided with a curve
    that levels off or falls again, nor without runs at the sizes in between that say the same by themselves:
    :data:`FEWEST` or more a side, and Fisher's exact p (one-sided) at most :data:`CHANCE`. Two mixes drawn from one
    pool were then told apart in at most 10 % of sweeps, whatever the pool (tests/bench/results/searchers.md).
    """
    value, low, high = _ratio(baseline.relative, mix.relative, parameters)
    sign, doubt, between = _sign(low, high), Doubt.NONE, None
    verdicts = baseline.verdict, mix.verdict
    if Verdict.PLATEAU in verdicts:
        doubt = Doubt.LEVELS_OFF
    elif Verdict.FALLS in verdicts:
        doubt = Doubt.FALLS
    elif sign == 0:
        doubt = Doubt.INTERVAL
    elif _direction(baseline.absolute, mix.absolute, parameters) == -sign:
        doubt = Doubt.CRITERION
    else:
        between = _between(baseline, mix, sign)
        if between is None or min(between.mix_tried, between.baseline_tried) < FEWEST:
            doubt = Doubt.FEW
        elif between.p > CHANCE:
            doubt = Doubt.CHANCE
    return Synergy(value, low, high, not doubt, _benefit(baseline.density, mix.density), doubt, between)


def _between(baseline: Transition, mix: Transition, sign: int) -> Between | None:
    """The runs between both transitions; ``sign`` is 1 if the mix's is the smaller. None without such runs."""
    small, large = (mix, baseline) if sign > 0 else (baseline, mix)
    from_, to = small.relative.value or 0.0, large.relative.value or math.inf
    counts, sizes = [], []
    for found in (mix, baseline):
        shares = [share for share in found.shares if from_ <= share.size <= to]
        sizes += [share.size for share in shares]
        counts.append((sum(share.learned for share in shares), sum(share.tried for share in shares)))
    if not sizes:
        return None
    (mix_learned, mix_tried), (baseline_learned, baseline_tried) = counts
    learned, tried = counts[0] if sign > 0 else counts[1]
    p = float(hypergeom.sf(learned - 1, mix_tried + baseline_tried, mix_learned + baseline_learned, tried))
    return Between(min(sizes), max(sizes), mix_learned, mix_tried, baseline_learned, baseline_tried, p)


def _ratio(
    baseline: Estimate, mix: Estimate, parameters: Callable[[float], float]
) -> tuple[float | None, float | None, float | None]:
    """Baseline over mix in parameters: the ratio and its bounds, each None where it is not known."""
    top, bottom = _log_counts(baseline, parameters), _log_counts(mix, parameters)
    value = None if top.value is None or bottom.value is None else math.exp(top.value - bottom.value)
    low, negative_high = _least(top, bottom), _least(bottom, top)
    return (
        value,
        None if low is None else math.exp(low),
        None if negative_high is None else math.exp(-negative_high),
    )


def _log_counts(estimate: Estimate, parameters: Callable[[float], float]) -> Estimate:
    sides = (estimate.value, estimate.low, estimate.high)
    return Estimate(*(None if size is None else math.log(parameters(size)) for size in sides))


def _least(top: Estimate, bottom: Estimate) -> float | None:
    """The lower bound of ``top - bottom``, None where either side of it is censored."""
    if top.low is None or bottom.high is None:
        return None
    if top.value is None or bottom.value is None:
        return top.low - bottom.high
    return top.value - bottom.value - math.hypot(top.value - top.low, bottom.high - bottom.value)


def _sign(low: float | None, high: float | None) -> int:
    """1 where a ratio is above 1, -1 where it is below, 0 where its interval does not say."""
    if low is not None and low > 1:
        return 1
    return -1 if high is not None and high < 1 else 0


def _direction(baseline: Estimate, mix: Estimate, parameters: Callable[[float], float]) -> int:
    value, low, high = _ratio(baseline, mix, parameters)
    if value is None:
        return _sign(low, high)
    return (value > 1) - (value < 1)


def _benefit(baseline: Density | None, mix: Density | None) -> float | None:
    """Probability that the baseline's transition is the larger one; None where too much of it is out of range."""
    if baseline is None or mix is None or baseline.above * mix.above > 1 - SURE:
        return None
    sizes, weights = np.asarray(mix.sizes), np.asarray(mix.weights)
    smaller = np.array([weights[sizes < size].sum() + weights[sizes == size].sum() / 2 for size in baseline.sizes])
    found = float((np.asarray(baseline.weights) * smaller).sum() + baseline.above * (1 - mix.above))
    return found + baseline.above * mix.above / 2
