"""The runs that locate one mix's transition."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from orchestrator.search.base import Problem, Request
from orchestrator.search.next_run import PRECISION, TransitionDesign
from orchestrator.search.pairs import Pairs
from orchestrator.search.results import cost_model, points
from orchestrator.transition.estimate import transition
from orchestrator.transition.types import Point, Verdict
from tests.conformance.searchers import drive, flat, mixed, step

FINE = tuple(int(size) for size in np.unique(np.geomspace(8, 256, 46).round().astype(int)))
ONE = Problem(("add",), FINE, tuple(range(6)))


def design_after(*runs: tuple[int, bool]) -> TransitionDesign:
    """Return the design after runs at these sizes, of which some learned."""
    shown = [(Point(size, seed, 0.97 if learned else 0.2, 0.2), learned) for seed, (size, learned) in enumerate(runs)]
    return TransitionDesign(ONE, "add", tuple(shown))


@pytest.mark.parametrize("at", [12, 40, 120])
def test_locates_a_step_with_few_runs_and_different_seeds(at: int) -> None:
    results = drive(Pairs(ONE), step(at))
    estimate = transition(points(results, "add"), FINE).relative
    assert estimate.value is not None
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low < at <= estimate.high
    assert abs(math.log(estimate.value / at)) < 0.2
    assert math.log(estimate.high / estimate.low) <= 0.5
    assert len(results) <= 20
    # Runs that share a seed share their data: a lucky data set would look like a learning curve.
    spent = Counter(request.seed for request in results)
    assert max(spent.values()) - min(spent[seed] for seed in ONE.seeds) <= 2


@pytest.mark.parametrize(("accuracy", "end", "verdict"), [(0.2, -1, Verdict.ABOVE), (0.97, 0, Verdict.BELOW)])
def test_a_transition_outside_the_sizes_takes_two_runs_there(accuracy: float, end: int, verdict: Verdict) -> None:
    results = drive(Pairs(ONE), flat(accuracy))
    assert sum(request.size == FINE[end] for request in results) >= 2
    assert len(results) <= 8
    assert transition(points(results, "add"), FINE).verdict is verdict


def test_pending_runs_are_spread_over_sizes() -> None:
    assert len({request.size for request in Pairs(ONE).ask(6)}) >= 3


def test_stacks_contain_seeds_of_one_size() -> None:
    searcher, largest = Pairs(ONE, stack=4), 0
    while not searcher.done:
        requests = searcher.ask(4)
        assert len({request.size for request in requests}) <= 1 or len(requests) <= 4
        largest = max(largest, max(Counter(request.size for request in requests).values()))
        for request in requests:
            searcher.tell(request, mixed(4)(request))
    assert 1 < largest <= 4


def test_prefers_smaller_sizes_if_cost_rises_with_size() -> None:
    def next_size(exponent: float) -> int:
        searcher = Pairs(ONE)
        for size, accuracy in ((256, 0.97), (8, 0.2)):
            searcher.tell(
                Request("add", size, 0), Request("add", size, 0).point(accuracy, 0.2, float(size) ** exponent)
            )
        return searcher.ask(1)[0].size

    assert next_size(2.5) < next_size(0.0)


def test_information_is_positive_and_falls_at_sizes_with_pending_runs() -> None:
    design = design_after((8, False), (128, True))
    gains = design.information({})
    assert (gains >= -1e-12).all()
    best = int(np.argmax(gains))
    assert design.information({FINE[best]: 2})[best] < gains[best]


def test_information_vanishes_at_sizes_whose_outcome_is_known() -> None:
    gains = design_after(*[(FINE[20], False)] * 6, *[(FINE[24], True)] * 6).information({})
    assert gains[0] < 0.1 * gains.max()
    assert FINE[15] <= FINE[int(np.argmax(gains))] <= FINE[30]


SLOW_RISE = {12: (0.23,), 18: (0.82,), 20: (0.53,), 22: (0.53,), 24: (0.95,) * 11, 32: (1.0, 1.0)}
"""Scores by size, as of ADD with PROD on nested sums modulo 10. Only those from 24 on count as learned."""
STEP = {12: (0.15,), 18: (0.15,), 20: (0.15,), 22: (0.15, 0.15), 24: (0.95,) * 11, 32: (1.0, 1.0)}


@pytest.mark.parametrize(("scores", "is_located"), [(SLOW_RISE, False), (STEP, True)], ids=["slow rise", "step"])
def test_a_transition_is_located_only_if_the_answer_places_it_narrowly(
    scores: dict[int, tuple[float, ...]], is_located: bool
) -> None:
    sizes = (12, 14, 16, 18, 20, 22, 24, 28, 32, 36, 40)
    searcher = Pairs(Problem(("add",), sizes, tuple(range(48))))
    for size, accuracies in scores.items():
        for seed, accuracy in enumerate(accuracies):
            run = Request("add", size, seed)
            searcher.tell(run, run.point(accuracy, 0.1, float(size)))
    assert searcher.ledger.transition("add").interval[2] - searcher.ledger.transition("add").interval[0] < PRECISION
    assert searcher.done is is_located
    assert all(16 <= run.size <= 22 for run in searcher.ask(2))


def test_costs_follow_a_power_law() -> None:
    model = cost_model(
        {Request("add", size, 0): Request("add", size, 0).point(0.5, 0.2, 3.0 * size**1.3) for size in (8, 32, 64)}
    )
    assert model.exponent == pytest.approx(1.3)
    assert model.cost(100) == pytest.approx(3.0 * 100**1.3)
    unknown = cost_model({Request("add", 8, 0): Request("add", 8, 0).point(0.5, 0.2), Request("add", 16, 0): None})
    assert unknown.cost(8) == unknown.cost(256)
