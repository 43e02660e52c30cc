"""Time left of a sweep, from a simple rule: its own searcher plays on to its end, every run learning above its mix's
transition, as far as that is known by now, and none below."""

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
    """Seconds left of a sweep with these runs in training, each with the share of its steps to come, in [0, 1].

    ``expected`` are seconds of computation of a run by size, corrected by those of the runs that ended. ``slowdown`` is
    the time that passes for a second of computation. The searcher is left as it is.
    """
    ended = [(request, seen.cost) for request, seen in searcher.results.items() if seen is not None and seen.cost > 0]
    foreseen = sum(_seconds(request, expected) for request, _ in ended)
    pace = slowdown * (sum(cost for _, cost in ended) / foreseen if foreseen else 1.0) / workers
    to_come = played_to_the_end(searcher.branch(), _transitions(searcher), expected)
    now = sum(share * _seconds(request, expected) for request, share in training)
    return pace * (now + sum(runs * expected[size] for size, runs in to_come.items()))


def _transitions(searcher: Searcher) -> dict[str, float]:
    """Each mix's transition, or the end of the sizes that it lies beyond; the middle size if nothing is known."""
    problem, found = searcher.problem, {}
    for mix in problem.mixes:
        known = transition(points(searcher.results, mix), problem.sizes).relative
        if known.low is not None:
            beyond = known.high or math.inf
        else:
            beyond = float(problem.sizes[len(problem.sizes) // 2]) if known.high is None else 0.0
        found[mix] = known.value or beyond
    return found


def _seconds(request: Request, expected: Mapping[int, float]) -> float:
    return expected[request.size]
