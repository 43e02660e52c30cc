"""How a posterior narrowed, run by run, and where a transition would lie if another accuracy counted as learned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.transition.crossing import Crossing
from orchestrator.transition.curves import Curves, Evidence, curves_for
from orchestrator.transition.posterior import Posterior, posterior_of
from orchestrator.transition.types import Density, Estimate, Point


@dataclass(frozen=True)
class Narrowed:
    """The posterior after one more run. ``above_before`` is the probability, before it, that the transition lies above
    its size: near one half where a run tells most. The estimate is the posterior's alone; sides beyond the range of
    sizes considered are None."""

    point: Point
    above_before: float
    estimate: Estimate
    density: Density


@dataclass(frozen=True)
class Threshold:
    """What counts as learned: the share ``level`` of a mix's own asymptote, or with ``absolute`` that accuracy."""

    level: float
    absolute: bool


def steps_shown(runs: int, most: int) -> list[int]:
    """The places of the runs after which to look, evenly, at most about so many: the first, and always the last."""
    every = -(-runs // most) or 1
    return [place for place in range(runs) if place % every == 0 or place == runs - 1]


def narrowed(
    points: Sequence[Point], candidates: Sequence[int], confidence: float = 0.9, *, places: Sequence[int] | None = None
) -> tuple[Narrowed, ...]:
    """The posterior of a search over ``candidates`` after each of ``points``, in the order they came, or only after
    those at ``places``, ascending. Each look takes some 20 ms: of thousands of runs only a few are worth it."""
    if not points:
        return ()
    curves = _curves(points, candidates)
    evidence, found, told = Evidence.none(curves), [], 0
    posterior = Posterior(curves, evidence.total)
    for place in range(len(points)) if places is None else places:
        if place > told:
            evidence = evidence.plus(points[told:place])
            posterior = Posterior(curves, evidence.total)
        above = posterior.probability_above(points[place].size)
        evidence, told = evidence.plus([points[place]]), place + 1
        posterior = Posterior(curves, evidence.total)
        estimate = _estimate(posterior, curves.relative, confidence)
        found.append(Narrowed(points[place], above, estimate, posterior.density(curves.relative)))
    return tuple(found)


def under(
    points: Sequence[Point], candidates: Sequence[int], thresholds: Sequence[Threshold], confidence: float = 0.9
) -> tuple[Estimate, ...]:
    """The transition under each of the thresholds, by the same posterior. Without points nothing is known."""
    if not points:
        return (Estimate(None, None, None),) * len(thresholds)
    curves = _curves(points, candidates)
    posterior = posterior_of(points, curves)
    crossings = (
        Crossing(curves.crossing(each.level) if each.absolute else curves.crossing(None, share=each.level))
        for each in thresholds
    )
    return tuple(_estimate(posterior, crossing, confidence) for crossing in crossings)


def _curves(points: Sequence[Point], candidates: Sequence[int]) -> Curves:
    floor = float(np.mean([point.floor for point in points]))
    return curves_for([*candidates, *(point.size for point in points)], floor)


def _estimate(posterior: Posterior, crossing: Crossing, confidence: float) -> Estimate:
    """Median and interval, None where they lie outside the candidate sizes."""
    curves, tail = posterior.curves, (1 - confidence) / 2
    ends = math.log(curves.smallest), math.log(curves.largest)
    found = posterior.quantiles(crossing, (0.5, tail, 1 - tail))
    return Estimate(*(math.exp(place) if ends[0] <= place <= ends[1] else None for place in found))
