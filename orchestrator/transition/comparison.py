"""The comparison of two mixes: two transitions in, a ratio with its interval and the reason for any doubt out."""

from __future__ import annotations

import math
from collections.abc import Callable

from orchestrator.transition.types import Between, Doubt, Estimate, Synergy, Transition, Verdict

FEWEST, CHANCE = 4, 0.05
"""Runs between two transitions that each side needs, and the largest p of their difference, for a comparison to be
decided: chosen on sweeps of seeds 1000-1079, with other seeds reported."""


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
    return Synergy(value, low, high, not doubt, doubt, between)


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
    from scipy.stats import hypergeom  # Takes .8 s to import.

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
