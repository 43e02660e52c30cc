"""What the rest of a budget can still decide: the bound holds for every continuation, and ends searches early."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from orchestrator.forecast.simulation import simulate
from orchestrator.search.base import Request
from orchestrator.search.pairs import Pairs
from orchestrator.search.reachable_pairs import Shortfall
from orchestrator.transition.e_value import NEAREST, Growth, growth_of
from orchestrator.transition.evidence import Direction, Pair
from orchestrator.transition.types import Point
from tests.search.test_pairs import ALIKE, SIZES, TWO, comparison_of

ERROR = 0.05
PAIR = ("add+prod", "add")
AGREE, BOTH, AGAINST = (True, False), (True, True), (False, True)


def pairs_of(*outcomes: tuple[bool, bool], size: int = 12) -> list[Pair]:
    return [Pair(size, size, seed, *outcome) for seed, outcome in enumerate(outcomes)]


@pytest.mark.parametrize(
    ("outcomes", "fewest"), [((), 4), ((AGREE,) * 2, 2), ((AGREE,) * 5, 0), ((BOTH,) * 6, 4), ((AGREE, AGAINST) * 4, 4)]
)
def test_the_fewest_pairs_that_can_decide(outcomes: tuple[tuple[bool, bool], ...], fewest: int) -> None:
    assert growth_of(pairs_of(*outcomes)).fewest_more(ERROR) == fewest
    assert growth_of(pairs_of(*outcomes)).fewest_more(ERROR, looks=9) >= fewest


def test_no_continuation_decides_with_fewer_pairs() -> None:
    rng = np.random.default_rng(0)
    reached = 0
    for _ in range(200):
        growth = Growth()
        for seed in range(int(rng.integers(0, 12))):
            size = int(rng.choice(SIZES))
            growth.add(Pair(size, size, seed, bool(rng.random() < 0.5), bool(rng.random() < 0.5)))
        fewest = growth.fewest_more(ERROR)
        for outcome in (AGREE, AGAINST):
            later = growth.branch()
            for seed in range(max(fewest - 1, 0)):
                later.add(Pair(14, 14, 100 + seed, *outcome))
            if fewest:
                assert later.decision(ERROR) is None
            for seed in range(30):
                later.add(Pair(14, 14, 200 + seed, *outcome))
            reached += later.decision(ERROR) is not None
    assert reached >= 200, "most of them can still be decided by many pairs"


def test_a_pair_adds_most_if_it_is_as_predicted() -> None:
    growth = growth_of(pairs_of(*(AGREE,) * 60))
    assert growth.rows[Direction.MIX_AHEAD][-1][-1] <= 2 * math.log((1 - NEAREST) / 0.5) + 1e-12


def test_a_search_ends_once_it_can_not_decide() -> None:
    searcher = Pairs(TWO, aim="decide", max_runs=12)
    simulate(searcher, ALIKE)
    comparison, shortfall = comparison_of(searcher), searcher.shortfall(PAIR)
    assert comparison.decided is None
    assert shortfall is not None
    assert 0 < shortfall.room < shortfall.needed
    assert comparison.pairs == 12 - shortfall.room
    resumed = Pairs(TWO, aim="decide", max_runs=12)
    resumed.restore(searcher.blocks)
    for request, result in reversed(searcher.results.items()):
        resumed.tell(request, result)
    assert resumed.done
    assert resumed.shortfall(PAIR) == shortfall
    longer = Pairs(TWO, aim="decide", max_runs=24)
    longer.restore(searcher.blocks)
    for request, result in searcher.results.items():
        longer.tell(request, result)
    assert longer.shortfall(PAIR) is None
    assert longer.ask(2)


def test_what_bounds_a_comparison() -> None:
    assert Pairs(TWO, aim="decide", max_runs=3).shortfall(PAIR) == Shortfall(4, 3, from_start=True)
    assert Pairs(TWO, aim="decide", max_runs=4).shortfall(PAIR) is None
    few = replace(TWO, sizes=(12,), seeds=(0, 1, 2))
    assert Pairs(few, aim="decide").shortfall(PAIR) == Shortfall(4, 3, from_start=True)
    assert Pairs(replace(few, seeds=(0, 1, 2, 3)), aim="decide").shortfall(PAIR) is None
    costly = Pairs(TWO, aim="decide", max_cost=150.0)
    assert costly.shortfall(PAIR) is None, "the cost of a run is unknown"
    [first, second] = costly.ask(2)
    for run in (first, second):
        costly.tell(run, run.point(0.98, 0.15, 60.0))
    assert costly.shortfall(PAIR) == Shortfall(4, 2, from_start=True), "a run starts as long as any time is left"
    known = Pairs(TWO, aim="decide", max_runs=5)
    for seed in range(4):  # Runs of another sweep, whose pairs cost nothing.
        for mix in ("add+prod", "add"):
            run = Request(mix, 12, seed)
            known.tell(run, run.point(0.98, 0.15))
    assert known.shortfall(PAIR) is None


@pytest.mark.parametrize("limits", [{"max_runs": 3}, {"max_runs": 48, "max_cost": 50.0}])
def test_a_budget_that_never_could_decide_is_used(limits: dict[str, float]) -> None:
    searcher = Pairs(TWO, aim="decide", **limits)
    simulate(searcher, ALIKE)
    assert len(searcher.results) >= 4
    shortfall = searcher.shortfall(PAIR)
    assert shortfall is not None
    assert shortfall.from_start
    assert shortfall.room == 0


def test_a_search_that_locates_goes_on_to_locate() -> None:
    searcher = Pairs(TWO, aim="locate", max_runs=16)
    simulate(searcher, ALIKE)
    assert searcher.shortfall(PAIR) is not None
    paired = {Request(*run) for block in searcher.blocks for run in block.runs}
    assert paired <= searcher.results.keys(), "the estimate uses the open blocks"
    assert searcher.results.keys() - paired, "the rest of the budget locates"


def test_the_bound_takes_no_decision_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def decisions() -> list[tuple[Direction | None, int]]:
        found = []
        for key in range(30):
            ratio = 1 + key % 3 / 4

            def world(request: Request, key: int = key, ratio: float = ratio) -> Point:
                rng = np.random.default_rng([key, len(request.mix), request.size, request.seed])
                middle = 14 / (ratio if request.mix == "add+prod" else 1.0)
                learned = rng.random() < 0.95 / (1 + math.exp(-6 * math.log(request.size / middle)))
                return request.point(0.98 if learned else 0.2, 0.15, float(request.size))

            searcher = Pairs(replace(TWO, seeds=tuple(range(24))), aim="decide", max_runs=20)
            trace = simulate(searcher, world, 2)
            found.append((comparison_of(searcher).decided, len(trace.results)))
        return found

    bounded = decisions()
    monkeypatch.setattr(Pairs, "shortfall", lambda self, pair: None)
    whole = decisions()
    assert [one[0] for one in bounded] == [one[0] for one in whole]
    runs = [sum(one[1] for one in each) for each in (bounded, whole)]
    assert 0.8 < runs[0] / runs[1] < 0.97
