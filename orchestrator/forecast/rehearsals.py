"""Rehearsals of a sweep: its own searcher runs to its end with invented outcomes, for several assumed transitions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np

from orchestrator.search.base import Request, Searcher
from orchestrator.search.registry import METHODS
from orchestrator.space.problem import problem_of
from orchestrator.space.spec import SweepSpec

LEARNED_ACCURACY = 0.98
"""Accuracy of runs in a rehearsal that are at or above the transition."""
UNLEARNED_ACCURACY = 0.2
"""Accuracy of runs in a rehearsal that are below the transition."""
MOST_REHEARSALS = 16
"""Maximum number of transitions to rehearse."""
SOONER = 0.6
"""In half of the rehearsals (simulated searches), a mix's transition is this share of its baseline's."""


def rehearse(spec: SweepSpec, seconds: Mapping[int, float]) -> list[Counter[int]]:
    """Return the number of runs that the searcher requests by size, for each of several assumed transitions: equal ones
    of all mixes, and then smaller ones of the mixes that are compared with a baseline."""
    # All recipes are searched in the same way, so the first represents all.
    problem = problem_of(spec, spec.baseline.recipe)
    mixes = problem.mixes
    transitions = [*spec.sizes, math.inf]
    if len(transitions) > MOST_REHEARSALS:
        places = np.linspace(0, len(transitions) - 1, MOST_REHEARSALS).round().astype(int)
        transitions = [transitions[place] for place in places]
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


def played_to_the_end(
    searcher: Searcher, transitions: Mapping[str, float], seconds: Mapping[int, float]
) -> Counter[int]:
    """Return the number of further runs that a searcher requests by size, if runs learn from ``transitions`` on."""

    def tell(request: Request) -> None:
        accuracy = LEARNED_ACCURACY if request.size >= transitions[request.mix] else UNLEARNED_ACCURACY
        searcher.tell(request, request.point(accuracy, UNLEARNED_ACCURACY, seconds[request.size]))

    for request in searcher.pending:
        tell(request)
    runs: Counter[int] = Counter()
    while wanted := searcher.ask(4):
        for request in wanted:
            runs[request.size] += 1
            tell(request)
    return runs
