"""Expected decisions after more runs, from simulated continuations of a search."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

import numpy as np

from orchestrator.report.words.next_step import MORE
from orchestrator.search.base import Observation, Request
from orchestrator.search.pairs import Pairs
from orchestrator.search.results import cost_model, learned_runs
from orchestrator.search.transition_design import TransitionDesign
from orchestrator.simulation import World, simulate
from orchestrator.transition.evidence import compare, counted
from trainables.contract.runs import Parameters

CONTINUATIONS = 20
"""Number of simulated continuations, which estimate the share that decides to within about 0.1."""


def outlook(searcher: Pairs) -> dict[tuple[str, str], float]:
    """Return the probability that each comparison is decided after a search has used up its limits.

    Each continuation draws a learning curve for every mix, given the mix's runs, and lets ``searcher``, which has the
    extended limits, finish on these curves. Return the share of continuations that decide each comparison, by mix and
    baseline, in [0, 1]. The seed is fixed, so equal runs give equal results.
    """
    problem, settings = searcher.problem, searcher.settings
    rng = np.random.default_rng(0)
    learned = learned_runs(searcher.results, settings.learned)
    costs = cost_model(searcher.results)
    cost = {size: costs.cost(size) for size in problem.sizes}
    chance_DS = {
        mix: TransitionDesign.of(problem, mix, learned).surrogate.draw(problem.sizes, rng.random(CONTINUATIONS))
        for mix in problem.mixes
    }
    decided = dict.fromkeys(problem.comparisons, 0)

    def parameters(size: float) -> Parameters:
        return Parameters(size**2, size**2)  # Only factors depend on parameters, and no factor is needed here.

    for draw in range(CONTINUATIONS):
        chance = {mix: dict(zip(problem.sizes, chances[draw], strict=True)) for mix, chances in chance_DS.items()}
        branch = searcher.branch()
        trace = simulate(branch, _world(chance, cost, draw))
        outcomes = learned_runs(trace.results, settings.learned)
        for pair in problem.comparisons:
            own = [block for block in branch.blocks if (block.mix, block.baseline) == pair]
            comparison = compare(counted(own, outcomes), parameters, settings.error)
            decided[pair] += comparison.decided is not None
    return {pair: count / CONTINUATIONS for pair, count in decided.items()}


def continued(searcher: Pairs) -> Pairs:
    """Return a search that continues another with twice its seeds and limits, until every comparison is decided."""
    problem, settings = searcher.problem, searcher.settings
    first = problem.seeds[0]
    more = replace(problem, seeds=tuple(range(first, first + MORE * len(problem.seeds))))
    cost = None if settings.max_cost is None else MORE * settings.max_cost
    raised = replace(settings, aim="decide", max_runs=MORE * settings.max_runs, max_cost=cost)
    result = Pairs(more, **asdict(raised))
    result.restore(searcher.blocks)
    for request, observation in searcher.results.items():
        result.tell(request, observation)
    return result


def _world(chance: Mapping[str, Mapping[int, float]], cost: Mapping[int, float], draw: int) -> World:
    place = {mix: index for index, mix in enumerate(chance)}

    def run(request: Request) -> Observation:
        uniform = np.random.default_rng([draw, place[request.mix], request.size, request.seed]).random()
        return Observation(float(uniform < chance[request.mix][request.size]), 0.0, cost[request.size])

    return run
