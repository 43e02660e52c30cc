"""Which run says most about one mix's transition, and when that is known well enough."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import pairwise

from orchestrator.search.base import Problem, Request, Results
from orchestrator.search.belief import Fantasy, MixView, best_choice
from orchestrator.search.results import CostModel, free_runs, has_free, missing_runs
from orchestrator.transition.transition import SURE

PRECISION = 0.33
"""A transition is located once its 90 % interval is narrower than this, in ln size."""
COARSE = 1.5
"""An interval is not asked to be narrower than this times the gap between the candidate sizes around it."""
FEWEST = 6
"""Finished runs of a mix, at least, before its transition counts as located."""
CONFIRMATIONS = 2
"""Finished runs that are needed at the largest (smallest) size to call a transition above (below) it."""
LEAST_GAIN = 0.02
"""Information about the transition, in nats, below which another run is not worth asking for."""


def locate(
    problem: Problem, view: MixView, results: Results, taken: Collection[Request], costs: CostModel, most: int
) -> list[Request]:
    """Return the next runs of a mix, up to ``most`` at one size; none if its transition is located as well as it will
    be. ``taken`` are the pending runs."""
    sizes, belief = problem.sizes, view.belief
    for outside, end in ((belief.above, sizes[-1]), (belief.below, sizes[0])):
        if outside >= SURE:
            return missing_runs(problem, results, taken, view.mix, end, CONFIRMATIONS)[:most]
    if _is_narrow(problem, view):
        return []
    flying = [run.size for run in taken if run.mix == view.mix and run.size in sizes and run.is_evidence]
    fantasies = [Fantasy(size, flying.count(size)) for size in sorted(set(flying))]
    free = [size for size in sizes if has_free(problem, results, taken, view.mix, size)]
    gain = dict(zip(sizes, belief.gains(fantasies, 1), strict=True))
    best = best_choice(belief, fantasies, free, costs, most)
    if best is None or max(gain[size] for size in free) < LEAST_GAIN:
        return []
    return free_runs(problem, results, taken, view.mix, best.size)[: best.runs]


def _is_narrow(problem: Problem, view: MixView) -> bool:
    """True if the interval, bracket included, is as narrow as wanted."""
    under, over = view.bracket
    if under is None or over is None or len(view.points) < FEWEST:
        return False
    low, high = min(view.belief.low, math.log(under)), max(view.belief.high, math.log(over))
    gap = gap_around(problem.sizes, math.exp(view.belief.median)) or (1, 1)
    return high - low <= max(PRECISION, COARSE * math.log(gap[1] / gap[0]))


def gap_around(sizes: Sequence[int], size: float) -> tuple[int, int] | None:
    """Return the candidate sizes on either side of a ``size``, which may be the smaller one; None beyond their ends."""
    return next(((small, large) for small, large in pairwise(sizes) if small <= size < large), None)
