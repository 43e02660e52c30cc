"""Simulations of the rules of evidence: the order in which blocks count, and mixes that share a baseline.

Nothing differs in these sweeps, so every decision is wrong. Runs that learn end early.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from orchestrator.forecast.simulation import simulate
from orchestrator.search.base import Problem, Request
from orchestrator.search.pairs import Pairs
from orchestrator.search.results import learned_runs
from orchestrator.transition.comparison import compare
from orchestrator.transition.evidence import ERROR, Pair, counted_pairs
from orchestrator.transition.types import Point
from trainables.base import Parameters

EARLY = 0.05
"""Cost of a run that learned relative to one that did not."""


def decides(pairs: list[Pair]) -> bool:
    return compare(pairs, lambda size: Parameters(size, size)).decided is not None


def by_completion_and_request(chance: float, slots: int, rng: np.random.Generator, most: int) -> list[list[Pair]]:
    """Return the same pairs in order of completion and in order of request.

    A slot trains the two runs of a pair one after the other.
    """
    requested: list[Pair] = []
    running: list[tuple[float, int]] = []
    completed: list[int] = []
    now = 0.0
    while len(completed) < most:
        while len(running) < slots and len(requested) < most:
            outcomes = [bool(rng.random() < chance) for _ in range(2)]
            duration = sum((EARLY if learned else 1.0) * (1 + 0.05 * rng.random()) for learned in outcomes)
            heapq.heappush(running, (now + duration, len(requested)))
            requested.append(Pair(12, 12, len(requested), *outcomes))
        now, place = heapq.heappop(running)
        completed.append(place)
    return [[requested[place] for place in completed], requested]


@pytest.mark.slow
def test_only_the_order_of_request_keeps_the_error() -> None:
    rng, sweeps = np.random.default_rng(0), 500
    wrong = np.zeros(2)
    for _ in range(sweeps):
        wrong += [decides(pairs) for pairs in by_completion_and_request(0.1, 32, rng, most=40)]
    assert wrong[0] > 1.4 * ERROR * sweeps
    assert wrong[1] <= ERROR * sweeps


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

        def world(request: Request, key: int = key) -> Point:
            rng = np.random.default_rng([key, FIVE.index(request.mix), request.size, request.seed])
            learned = rng.random() < CURVES[shape](request.size)
            return request.point(0.98 if learned else 0.2, 0.15, request.size * (EARLY if learned else 1.0))

        searcher = Pairs(problem, aim="decide", max_runs=24)
        learned = learned_runs(simulate(searcher, world, slots).results, 0.8)
        for mix in FIVE[1:]:
            wrong += decides(counted_pairs([block for block in searcher.blocks if block.mix == mix], learned))
    assert wrong <= ERROR * sweeps * 4


@pytest.mark.slow
@pytest.mark.parametrize("slots", [16, pytest.param(64, marks=pytest.mark.night)])
def test_runs_stopped_by_one_decision_keep_the_error_of_the_others(slots: int) -> None:
    """One mix learns more often, and its decision stops runs, also of the baseline. The others equal the baseline."""
    sizes = (8, 10, 12, 14, 16, 20, 24)
    problem = Problem(FIVE, sizes, tuple(range(12)), tuple((mix, FIVE[0]) for mix in FIVE[1:]))
    sweeps, wrong, right, stopped = 60, 0, 0, 0
    for key in range(sweeps):

        def world(request: Request, key: int = key) -> Point:
            rng = np.random.default_rng([key, FIVE.index(request.mix), request.size, request.seed])
            learned = rng.random() < CURVES["rises"](request.size * (2 if request.mix == FIVE[1] else 1))
            return request.point(0.98 if learned else 0.2, 0.15, request.size * (EARLY if learned else 1.0))

        searcher = Pairs(problem, aim="decide", max_runs=40)
        learned = learned_runs(simulate(searcher, world, slots).results, 0.8)
        blocks = [[block for block in searcher.blocks if block.mix == mix] for mix in FIVE[1:]]
        decided = [decides(counted_pairs(own, learned)) for own in blocks]
        right, wrong = right + decided[0], wrong + sum(decided[1:])
        stopped += sum(run not in learned for pair in searcher.blocks for run in pair.runs)
    assert right >= 0.9 * sweeps
    assert stopped >= sweeps
    assert wrong <= ERROR * sweeps * 3


@pytest.mark.night
@pytest.mark.timeout(3600)
def test_divided_odds_bound_the_error_of_twelve_analyses_of_the_same_runs() -> None:
    wrong = best_of_twelve(200)
    assert wrong["all odds"] > ERROR * 200, "the simulated analyses are too alike to mislead anybody"
    assert wrong["divided"] < wrong["all odds"]
    assert wrong["divided"] <= ERROR * 200 * sum(1 / analysis for analysis in range(1, 13))


def best_of_twelve(sweeps: int) -> dict[str, int]:
    """Return in how many of some sweeps at least one of twelve analyses of the same runs decides, if each has all its
    odds, and if the odds of the k-th are divided by k. The analyses differ in their bar and their sizes."""
    middle = (8, 10, 12, 14, 16, 20, 24)
    analyses = [(bar, sizes) for sizes in (middle, middle[:4], middle[3:]) for bar in (0.5, 0.6, 0.7, 0.8)]
    wrong = {"all odds": 0, "divided": 0}
    for key in range(sweeps):

        def world(request: Request, key: int = key) -> Point:
            rng = np.random.default_rng([key, request.mix == "joint", request.size, request.seed])
            rise = 1 / (1 + math.exp(-4 * (math.log(request.size / 14) + 0.3 * rng.normal())))
            return request.point(0.15 + 0.85 * rise, 0.15, request.size)

        for name in wrong:
            for looks, (bar, sizes) in enumerate(analyses):
                problem = Problem(("alone", "joint"), sizes, tuple(range(16)), (("joint", "alone"),))
                problem = replace(problem, looks=(looks if name == "divided" else 0,))
                searcher = Pairs(problem, aim="decide", max_runs=32, learned=bar)
                learned = learned_runs(simulate(searcher, world, 2).results, bar)
                pairs = counted_pairs(searcher.blocks, learned)
                if compare(pairs, lambda size: Parameters(size, size), looks=problem.looks[0]).decided is not None:
                    wrong[name] += 1
                    break
    return wrong
