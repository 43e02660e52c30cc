"""Simulation of mixes that share a baseline. Nothing differs, so every decision is wrong. Runs that learn end early."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from orchestrator.search.base import Observation, Problem, Request
from orchestrator.search.pairs import Pairs
from orchestrator.search.results import learned_runs
from orchestrator.simulation import simulate
from orchestrator.transition.evidence import ERROR, Pair, compare, counted
from trainables.base import Parameters

EARLY = 0.05
"""Cost of a run that learned relative to one that did not."""


def decides(pairs: list[Pair]) -> bool:
    return compare(pairs, lambda size: Parameters(size, size)).decided is not None


FIVE = tuple(f"m{place}" for place in range(5))
CURVES: dict[str, Callable[[int], float]] = {
    "rises": lambda size: 0.95 / (1 + math.exp(-6 * (math.log(size) - math.log(14)))),
    "luck": lambda size: 0.15,
}


@pytest.mark.slow
@pytest.mark.parametrize("slots", [8, pytest.param(32, marks=pytest.mark.night)])
@pytest.mark.parametrize("shape", CURVES)
def test_a_shared_baseline_keeps_the_error(shape: str, slots: int) -> None:
    sizes = (8, 10, 12, 14, 16, 20, 24)
    problem = Problem(FIVE, sizes, tuple(range(6)), tuple((mix, FIVE[0]) for mix in FIVE[1:]))
    sweeps, wrong = 40, 0
    for key in range(sweeps):

        def world(request: Request, key: int = key) -> Observation:
            rng = np.random.default_rng([key, FIVE.index(request.mix), request.size, request.seed])
            learned = rng.random() < CURVES[shape](request.size)
            return Observation(0.98 if learned else 0.2, 0.15, request.size * (EARLY if learned else 1.0))

        searcher = Pairs(problem, aim="decide", max_runs=24)
        learned = learned_runs(simulate(searcher, world, slots).results, 0.8)
        for mix in FIVE[1:]:
            wrong += decides(counted([block for block in searcher.blocks if block.mix == mix], learned))
    assert wrong <= ERROR * sweeps * 4
