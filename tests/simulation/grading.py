"""How well a search did, against a truth it could not see."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.transition.logistic import fit
from orchestrator.transition.transition import transition
from orchestrator.transition.types import Point, Verdict
from tests.simulation.truths import Truth, TruthKind

RIGHT = {
    TruthKind.NEVER: (Verdict.ABOVE,),
    TruthKind.ABOVE: (Verdict.ABOVE,),
    TruthKind.BELOW: (Verdict.BELOW,),
    TruthKind.LEVELS_OFF: (Verdict.PLATEAU, Verdict.ABOVE),
}
"""What has to be declared of truths without a transition among the sizes. Bisection ends where the largest size is not
learned, and cannot see whether accuracy has levelled off there: "above" says no more than it saw."""
CENSORED = (Verdict.ABOVE, Verdict.BELOW, Verdict.PLATEAU)
NO_ESTIMATE = 1.0
"""The error of a truth that got no estimate: a factor of e."""
RESAMPLES = 1000


@dataclass(frozen=True)
class Grade:
    """What came of one mix.

    ``cost`` is in units of the reference grid's. ``error`` is |ln(estimate / truth)|, None without an estimate or a
    truth; ``held`` whether the 90 % interval holds the truth; ``width`` that interval's, in ln size.
    """

    cost: float
    runs: int
    verdict: Verdict
    error: float | None
    held: bool | None
    width: float | None


@dataclass(frozen=True)
class Spread:
    """A figure with its 90 % bootstrap interval over truths."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Summary:
    """The grades of many truths of one kind.

    Errors, ``coverage``, ``width`` and ``false_alarms`` (the share declared outside the sizes, or a plateau) are None
    for truths without a transition among the sizes; ``declared``, the share of these that were called what they are,
    for all others.
    """

    cost: float
    runs: float
    error_median: Spread | None
    error_p90: Spread | None
    coverage: float | None
    width: float | None
    declared: float | None
    false_alarms: float | None


def grade(runs: Sequence[Point], sizes: Sequence[int], truth: Truth, cost: float, *, by_fit: bool = False) -> Grade:
    """Grade the runs of one mix. ``by_fit`` estimates by least squares, as the paper does, not by the posterior."""
    found = transition(runs, sizes)
    size, estimate = truth.transition, found.relative
    if size is None:
        return Grade(cost, len(runs), found.verdict, None, None, None)
    value = estimate.value
    if by_fit:
        curve = fit(runs)
        value = None if curve is None else curve.transition
    known = estimate.low is not None or estimate.high is not None
    held = known and (estimate.low or 0.0) <= size <= (estimate.high or math.inf)
    width = math.log(estimate.high / estimate.low) if estimate.low and estimate.high else None
    error = None if value is None else abs(math.log(value / size))
    return Grade(cost, len(runs), found.verdict, error, held, width)


def summarise(kind: TruthKind, grades: Sequence[Grade]) -> Summary:
    """The figures of truths of one kind, at least one. A truth without an estimate errs by :data:`NO_ESTIMATE`."""
    cost, runs = (float(np.mean([getattr(each, name) for each in grades])) for name in ("cost", "runs"))
    if kind in RIGHT:
        declared = float(np.mean([each.verdict in RIGHT[kind] for each in grades]))
        return Summary(cost, runs, None, None, None, None, declared, None)
    errors = np.array([NO_ESTIMATE if each.error is None else each.error for each in grades])
    widths = [each.width for each in grades if each.width is not None]
    return Summary(
        cost,
        runs,
        error_median=_spread(errors, np.median),
        error_p90=_spread(errors, lambda sample: np.quantile(sample, 0.9)),
        coverage=float(np.mean([bool(each.held) for each in grades])),
        width=float(np.mean(widths)) if widths else None,
        declared=None,
        false_alarms=float(np.mean([each.verdict in CENSORED for each in grades])),
    )


def _spread(values: NDArray[np.float64], statistic: Callable[[Any], Any]) -> Spread:
    rng = np.random.default_rng(0)
    found = [float(statistic(rng.choice(values, len(values)))) for _ in range(RESAMPLES)]
    return Spread(float(statistic(values)), float(np.quantile(found, 0.05)), float(np.quantile(found, 0.95)))
