"""Ratio of two transitions with its interval: an estimate, not a decision."""

from __future__ import annotations

import math
from collections.abc import Callable

from orchestrator.transition.types import Estimate, Synergy, Transition


def synergy(baseline: Transition, mix: Transition, parameters: Callable[[float], float]) -> Synergy:
    """Return the estimated factor by which ``mix`` needs fewer parameters than ``baseline``.

    The method of variance estimates recovery (Zou and Donner 2008, Statistics in Medicine 27, 1693) combines the
    intervals of both transitions. If one side is censored, the bounds themselves are compared, which is conservative.

    Args:
        parameters: Parameter count of a size, which may be fractional. It must rise with size.
    """
    top, bottom = _log_counts(baseline.relative, parameters), _log_counts(mix.relative, parameters)
    value = None if top.value is None or bottom.value is None else math.exp(top.value - bottom.value)
    low, negative_high = _least(top, bottom), _least(bottom, top)
    return Synergy(
        value,
        None if low is None else math.exp(low),
        None if negative_high is None else math.exp(-negative_high),
    )


def _log_counts(estimate: Estimate, parameters: Callable[[float], float]) -> Estimate:
    sides = (estimate.value, estimate.low, estimate.high)
    return Estimate(*(None if size is None else math.log(parameters(size)) for size in sides))


def _least(top: Estimate, bottom: Estimate) -> float | None:
    """Return the lower bound of ``top - bottom``, or None if it is censored."""
    if top.low is None or bottom.high is None:
        return None
    if top.value is None or bottom.value is None:
        return top.low - bottom.high
    return top.value - bottom.value - math.hypot(top.value - top.low, bottom.high - bottom.value)
