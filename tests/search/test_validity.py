"""Rules under which evidence counts, by simulation: the order in which blocks count, and mixes that share a baseline.

Everywhere nothing differs, so every decision is wrong. Runs that learn end early.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

import numpy as np
import pytest

from orchestrator.search.base import Observation, Problem, Request
from orchestrator.search.duel import Count
from orchestrator.search.pairs import Pairs
from orchestrator.search.results import learned_runs
from orchestrator.simulation import simulate
from orchestrator.transition.evidence import ERROR, Pair, compare, counted

EARLY = 0.05
"""The cost of a run that learned, relative to one that did not."""


def decides(pairs: list[Pair]) -> bool:
    return compare(pairs, lambda size: Count(size)).decided is not None


def completed_and_asked(chance: float, slots: int, rng: np.random.Generator, most: int = 40) -> list[list[Pair]]:
    """The same pairs in the order in which they came back, and in the order in which they were asked for. The two runs
    of a pair are trained one after the other on one of the slots."""
    asked: list[Pair] = []
    running: list[tuple[float, int]] = []
    back: list[int] = []
    now = 0.0
    while len(back) < most:
        while len(running) < slots and len(asked) < most:
            y, z = (bool(rng.random() < chance) for _ in range(2))
            takes = sum((EARLY if each else 1.0) * (1 + 0.05 * rng.random()) for each in (y, z))
            heapq.heappush(running, (now + takes, len(asked)))
            asked.append(Pair(12, 12, len(asked), y, z))
        now, place = heapq.heappop(running)
        back.append(place)
    return [[asked[place] for place in back], asked]


@pytest.mark.slow
def test_pairs_counted_as_they_come_back_are_wrong_more_often_than_said_and_as_asked_they_are_not() -> None:
    rng, sweeps = np.random.default_rng(0), 500
    wrong = np.zeros(2)
    for _ in range(sweeps):
        wrong += [decides(pairs) for pairs in completed_and_asked(0.1, 32, rng)]
    print(f"completed {wrong[0] / sweeps:.3f}, asked {wrong[1] / sweeps:.3f}")
    assert wrong[0] > 1.4 * ERROR * sweeps
    assert wrong[1] <= ERROR * sweeps


FIVE = tuple(f"m{place}" for place in range(5))
SIZES = (8, 10, 12, 14, 16, 20, 24)
CURVES: dict[str, Callable[[int], float]] = {
    "rises": lambda size: 0.95 / (1 + math.exp(-6 * (math.log(size) - math.log(14)))),
    "luck": lambda size: 0.15,
}


@pytest.mark.slow
@pytest.mark.parametrize("slots", [8, 32])
@pytest.mark.parametrize("shape", CURVES)
def test_mixes_that_share_a_baseline_are_rarely_told_apart_where_nothing_differs(shape: str, slots: int) -> None:
    problem = Problem(FIVE, SIZES, tuple(range(6)), tuple((mix, FIVE[0]) for mix in FIVE[1:]))
    sweeps, wrong = 40, 0
    for key in range(sweeps):

        def world(request: Request, key: int = key) -> Observation:
            rng = np.random.default_rng([key, FIVE.index(request.mix), request.size, request.seed])
            learned = rng.random() < CURVES[shape](request.size)
            return Observation(0.98 if learned else 0.2, 0.15, request.size * (EARLY if learned else 1.0))

        searcher = Pairs(problem, aim="decide", max_runs=24)
        results = simulate(searcher, world, slots).results
        learned = learned_runs(results, 0.8)
        for mix in FIVE[1:]:
            wrong += decides(counted([block for block in searcher.blocks if block.mix == mix], learned))
    print(f"{shape}, {slots} slots: {wrong / sweeps / 4:.3f} wrong")
    assert wrong <= ERROR * sweeps * 4
