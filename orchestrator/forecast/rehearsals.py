"""Rehearses a sweep: its searcher runs to its end with invented outcomes, for several assumed transitions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from orchestrator.search.base import Problem, Request, Searcher
from orchestrator.search.registry import METHODS
from orchestrator.space.problem import problem_of
from orchestrator.space.spec import SweepSpec

LEARNED_ACCURACY = 0.98
"""Accuracy of runs in a rehearsal that are at or above the transition."""
UNLEARNED_ACCURACY = 0.2
"""Accuracy of runs in a rehearsal that are below the transition."""
MOST_REHEARSALS = 16
"""Maximum number of transitions to rehearse."""
MOST_MIXES = 12
"""Maximum number of mixes to rehearse. If there are more, each stands for several."""
SOONER = 0.6
"""Transition of a mix as a share of its baseline's transition, in half of the rehearsals. In the other half, both are
equal."""


def rehearse(spec: SweepSpec, seconds: Mapping[int, float]) -> list[Counter[int]]:
    """Return the numbers of runs that the searcher requests in several rehearsals, by size.

    In the first rehearsals, all mixes have the same transition. In the others, mixes that are compared with a baseline
    have a smaller transition than the baseline.

    Args:
        spec: The sweep.
        seconds: Seconds of a run by size, as the search counts them.
    """
    # All recipes are searched in the same way, so the first represents all.
    problem = _with_few_mixes(problem_of(spec, spec.baseline.recipe))
    mixes = problem.mixes
    transitions = [*spec.sizes, math.inf]
    if len(transitions) > MOST_REHEARSALS:
        indices = np.linspace(0, len(transitions) - 1, MOST_REHEARSALS).round().astype(int)
        transitions = [transitions[index] for index in indices]
    compared = {mix for mix, _ in problem.comparisons}
    worlds = [dict.fromkeys(mixes, transition) for transition in transitions]
    if compared:
        worlds += [{mix: at * (SOONER if mix in compared else 1) for mix, at in world.items()} for world in worlds]
    rehearsals = []
    for world in worlds:
        searcher = METHODS[spec.search.method](problem, **spec.search.settings)
        counts = played_to_the_end(searcher, world, seconds)
        rehearsals.append(Counter({size: round(runs * len(spec.mixes) / len(mixes)) for size, runs in counts.items()}))
    return rehearsals


def _with_few_mixes(problem: Problem) -> Problem:
    """Return a problem with its first mixes and their baselines, at most :data:`MOST_MIXES`."""
    baselines = dict.fromkeys(baseline for _, baseline in problem.comparisons)
    mixes = tuple(dict.fromkeys((*baselines, *problem.mixes)))[:MOST_MIXES]
    comparisons = [
        (comparison, problem.earlier_looks(*comparison))
        for comparison in problem.comparisons
        if set(comparison) <= set(mixes)
    ]
    return replace(
        problem,
        mixes=tuple(mix for mix in problem.mixes if mix in mixes),
        comparisons=tuple(comparison for comparison, _ in comparisons),
        looks=tuple(looks for _, looks in comparisons),
    )


def played_to_the_end(
    searcher: Searcher, transitions: Mapping[str, float], seconds: Mapping[int, float]
) -> Counter[int]:
    """Run a searcher to its end, and return the number of runs that it requests, by size.

    Args:
        searcher: The searcher. It is changed, so pass a copy.
        transitions: Size from which runs learn, by mix.
        seconds: Seconds of a run by size, as the search counts them.
    """

    def tell(request: Request) -> None:
        accuracy = LEARNED_ACCURACY if request.size >= transitions[request.mix] else UNLEARNED_ACCURACY
        searcher.tell(request, request.point(accuracy, UNLEARNED_ACCURACY, seconds[request.size]))

    for request in searcher.pending:  # They were requested before, so they are not counted.
        tell(request)
    runs: Counter[int] = Counter()
    while wanted := searcher.ask(4):
        for request in wanted:
            runs[request.size] += 1
            tell(request)
    return runs
