"""Conformance suite of searchers, run over every registered one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from orchestrator.search.base import Problem, Request, Searcher
from orchestrator.search.registry import METHODS
from tests.conformance.searchers import PROBLEM, SIZES, World, coin, drive, failing, flat, mixed, step

Make = Callable[[Problem], Searcher]
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{method: (method, {}) for method in sorted(METHODS)},
    "pairs, three at a time": ("pairs", {"stack": 3}),
    "pairs, decide": ("pairs", {"aim": "decide"}),
}


@pytest.fixture(params=CASES)
def make(request: pytest.FixtureRequest) -> Make:
    """A function that builds the searcher under test for a problem."""
    method, settings = CASES[request.param]
    return lambda problem: METHODS[method](problem, **settings)


@pytest.mark.parametrize("workers", [1, 8])
@pytest.mark.parametrize("at", [10, 40, 128])
def test_brackets_a_step(make: Make, at: int, workers: int) -> None:
    searcher = make(PROBLEM)
    drive(searcher, step(at), workers, order=at)
    for progress in searcher.progress():
        assert progress.low is not None
        assert progress.high is not None
        assert progress.low < at <= progress.high


@pytest.mark.parametrize(("accuracy", "low", "high"), [(0.2, SIZES[-1], None), (0.98, None, SIZES[0])])
def test_nothing_or_everything_learned(make: Make, accuracy: float, low: int | None, high: int | None) -> None:
    """Diverged runs count as not learned: their accuracy is the floor."""
    searcher = make(PROBLEM)
    results = drive(searcher, flat(accuracy), 8, order=1)
    assert any(request.size == (low or high) for request in results)
    for progress in searcher.progress():
        assert (progress.done, progress.low, progress.high) == (True, low, high)


@pytest.mark.parametrize("every", [1, 2, 5])
def test_failed_runs_are_not_evidence(make: Make, every: int) -> None:
    searcher = make(PROBLEM)
    drive(searcher, failing(step(40), every), 4, order=3)
    for progress in searcher.progress():
        assert progress.done
        assert progress.low is None or progress.low < 40
        assert progress.high is None or progress.high >= 40
        assert every > 1 or (progress.low, progress.high) == (None, None)


def test_stops_a_mix_and_continues_the_others(make: Make) -> None:
    searcher, (stopped, other) = make(PROBLEM), PROBLEM.mixes
    drive(searcher, mixed(2), 4, order=1, stop=4)
    known = sum(run.mix == stopped for run in searcher.results)
    searcher.stop(stopped)
    drive(searcher, mixed(2), 4, order=1)
    assert searcher.done
    assert sum(run.mix == stopped for run in searcher.results) == known
    progress = {mix.mix: mix for mix in searcher.progress()}
    assert (progress[stopped].done, progress[stopped].runs_left) == (True, 0)
    assert progress[other].low is not None or progress[other].high is not None


def test_ignores_repeated_results(make: Make) -> None:
    searcher, twin = make(PROBLEM), make(PROBLEM)
    drive(searcher, mixed(3), 3, order=5, stop=9)
    twin.restore(searcher.blocks)
    for request, point in searcher.results.items():
        for repeated in (point, point, request.point(0.0, 0.2), None):
            twin.tell(request, repeated)
    assert twin.results == searcher.results
    assert twin.choose((), 8) == searcher.choose((), 8)


def test_decides_by_results_and_not_by_their_order(make: Make) -> None:
    first = make(PROBLEM)
    known = list(drive(first, mixed(4), 5, order=6, stop=14).items())
    expected = first.choose(first.pending, 6)
    rng = np.random.default_rng(7)
    for _ in range(3):
        other = make(PROBLEM)
        other.restore(first.blocks)
        for index in rng.permutation(len(known)):
            other.tell(*known[index])
        shuffled = [first.pending[index] for index in rng.permutation(len(first.pending))]
        assert other.choose(shuffled, 6) == expected
        assert other.progress() == first.progress()


def test_choosing_and_branches_leave_the_state_alone(make: Make) -> None:
    searcher = make(PROBLEM)
    drive(searcher, mixed(5), 2, order=8, stop=11)
    state = dict(searcher.results), searcher.blocks, searcher.pending
    chosen = searcher.choose((), 4)
    drive(searcher.branch(), mixed(5), 4)
    assert (searcher.results, searcher.blocks, searcher.pending) == state
    assert searcher.choose((), 4) == chosen


def test_is_deterministic(make: Make) -> None:
    first, second = (drive(make(PROBLEM), mixed(6), 8, order=9) for _ in range(2))
    assert list(first.items()) == list(second.items())


def test_resumes_with_the_runs_of_an_uninterrupted_search(make: Make) -> None:
    """Tested with one run at a time."""
    whole, broken, resumed = make(PROBLEM), make(PROBLEM), make(PROBLEM)
    drive(whole, mixed(7), 1)
    drive(broken, mixed(7), 1, stop=len(whole.results) // 2)
    resumed.restore(broken.blocks)
    for request, point in reversed(broken.results.items()):
        resumed.tell(request, point)
    assert drive(resumed, mixed(7), 1) == whole.results
    assert resumed.blocks == whole.blocks


@pytest.mark.parametrize("limit", [0, 1, 2, 5, 1000])
def test_fills_and_respects_the_limit(make: Make, limit: int) -> None:
    searcher = make(PROBLEM)
    requests = searcher.ask(limit)
    assert len(requests) >= min(limit, 2 * len(PROBLEM.mixes))
    assert len(requests) <= limit + (limit > 0 and bool(searcher.blocks))
    assert set(searcher.ask(1000)).isdisjoint(requests)


@pytest.mark.parametrize("workers", [1, 6])
@pytest.mark.parametrize("world", [coin(0), coin(1), failing(coin(2), 3), flat(0.7), mixed(9), failing(mixed(3), 2)])
def test_runs_left_is_an_upper_bound_until_the_end(make: Make, world: World, workers: int) -> None:
    searcher = make(PROBLEM)
    bounds: list[int] = []
    while not searcher.done:
        bounds.append(len(searcher.results) + sum(mix.runs_left for mix in searcher.progress()))
        drive(searcher, world, workers, order=workers, stop=len(searcher.results) + 5)
    assert len(searcher.results) <= min(bounds)
    assert searcher.ask(8) == []
    progress = searcher.progress()
    assert [mix.mix for mix in progress] == list(PROBLEM.mixes)
    assert all(mix.done and mix.runs_left == 0 for mix in progress)


@pytest.mark.parametrize(
    "problem",
    [
        Problem(("m",), (16,), (0,)),
        Problem(("m",), (16, 32), (0,)),
        Problem(("m",), (8, 9, 10), (5, 3)),
        Problem(("a", "b"), (16, 1000), (0, 1), (("b", "a"),)),
    ],
)
@pytest.mark.parametrize("accuracy", [0.2, 0.6, 0.95])
def test_ends_on_tiny_problems(make: Make, problem: Problem, accuracy: float) -> None:
    searcher = make(problem)
    drive(searcher, flat(accuracy), 3, order=12)
    assert all(progress.done for progress in searcher.progress())


def test_accepts_runs_outside_the_problem(make: Make) -> None:
    """The journal of an extended sweep may contain other sizes and seeds."""
    searcher = make(PROBLEM)
    searcher.tell(Request("add", 31, 0), Request("add", 31, 0).point(0.2, 0.2, 31.0))
    searcher.tell(Request("add", 40, 17), Request("add", 40, 17).point(0.97, 0.2, 40.0))
    searcher.tell(Request("other", 40, 0), Request("other", 40, 0).point(0.97, 0.2, 40.0))
    drive(searcher, step(40), 2, order=13)
    assert all(progress.done for progress in searcher.progress())
