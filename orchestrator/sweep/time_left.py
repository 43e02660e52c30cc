"""Estimate of a sweep's time left. It runs the sweep's searcher to its end, and assumes that runs learn above their
mix's currently known transition and do not learn below it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from orchestrator.cost import played_to_the_end
from orchestrator.search.base import Request, Searcher
from orchestrator.search.results import points
from orchestrator.transition.transition import transition


def time_left(
    searcher: Searcher,
    training: Sequence[tuple[Request, float]],
    expected: Mapping[int, float],
    *,
    workers: int,
    slowdown: float = 1.0,
) -> float:
    """Return the seconds left of a sweep. The searcher does not change.

    Args:
        searcher: Searcher with the results so far.
        training: Runs in training, each with its share of remaining steps, in [0, 1].
        expected: Seconds of computation of a run by size, corrected with the runs that ended.
        workers: Number of runs or stacks that train at the same time.
        slowdown: Seconds that pass per second of computation.
    """
    costs = {request: seen.cost for request, seen in searcher.results.items() if seen is not None and seen.cost > 0}
    foreseen = sum(expected[request.size] for request in costs)
    pace = slowdown * (sum(costs.values()) / foreseen if foreseen else 1.0) / workers
    to_come = played_to_the_end(searcher.branch(), _transitions(searcher), expected)
    now = sum(share * expected[request.size] for request, share in training)
    return pace * (now + sum(runs * expected[size] for size, runs in to_come.items()))


def _transitions(searcher: Searcher) -> dict[str, float]:
    """Return each mix's transition, or a value beyond the end of the sizes; the middle size if nothing is known."""
    problem, transitions = searcher.problem, {}
    for mix in problem.mixes:
        known = transition(points(searcher.results, mix), problem.sizes).relative
        if known.low is not None:
            beyond = known.high or math.inf
        else:
            beyond = float(problem.sizes[len(problem.sizes) // 2]) if known.high is None else 0.0
        transitions[mix] = known.value or beyond
    return transitions
