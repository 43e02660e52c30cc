"""Searchers on large sweeps: what has ended is not looked through again, and many slots are kept busy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from orchestrator.search.base import Observation, Problem, Request
from orchestrator.search.bayes import Bayes
from orchestrator.search.bisection import Grid
from orchestrator.simulation.simulator import Cluster, simulate, truths_world
from orchestrator.simulation.truths import Truth, TruthKind

SIZES = (8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96)


@pytest.mark.parametrize("stack", [1, 3])
def test_a_grid_told_in_any_order_asks_as_one_that_looks_at_all_of_it(stack: int) -> None:
    problem = Problem(("add", "add+prod"), (8, 16, 32), tuple(range(7)))
    grid, rng = Grid(problem, stack=stack), np.random.default_rng(0)
    every = [Request(mix, size, seed) for mix in problem.mixes for size in problem.sizes for seed in problem.seeds]
    for place in rng.permutation(len(every)):
        known = dict(grid.results)
        assert grid.choose(grid.results, (), 5) == Grid(problem, stack=stack).choose(known, (), 5)
        grid.tell(every[place], Observation(0.5, 0.1))
    assert grid.done


@pytest.mark.slow
def test_eight_mixes_keep_sixty_four_slots_busy() -> None:
    truths = {
        f"m{place}": Truth(TruthKind.MATCHED, math.log(14 * 1.13**place), 8.0, 0.1, 0.99, 0.02, False, place)
        for place in range(8)
    }
    searcher = Bayes(Problem(tuple(truths), SIZES, tuple(range(16))), stack=1)
    cluster = Cluster(workers=64, jitter=0.1)
    trace = simulate(searcher, truths_world(truths, 2.0), cluster, np.random.default_rng(0))
    print(f"busy {trace.busy:.0%} of the time, {trace.runs} runs")
    assert trace.busy >= 0.9
