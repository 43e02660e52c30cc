"""Time left as a range: calibrated on sweeps of recorded runs, and sane where nothing is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from orchestrator.search.base import Observation, Problem, Request, Searcher
from orchestrator.search.registry import make_searcher
from orchestrator.simulation.remaining import Running, pace_of, remaining
from orchestrator.simulation.simulator import Cluster, World, simulate
from orchestrator.space.evidence import searcher_of
from tests.bench.drawn_sweeps import FORMER, RECIPES, asked, pool_of
from tests.bench.pool import recipes_of

QUARTERS = (0.25, 0.5, 0.75)
WORKERS = 2
SCATTER = 0.15
"""Standard deviation of ln time of the runs of one size, on a machine shared with other work."""


def recorded(key: int) -> tuple[Searcher, World]:
    """A searcher as the laptop profile sets it, and how the runs of a drawn sweep ended and how long they took."""
    path, recipe = [(FORMER, ""), *((RECIPES, each) for each in recipes_of(RECIPES))][key % 5]
    ends = pool_of(path, recipe).world(key)

    def world(request: Request) -> Observation:
        seen = ends(request)
        noise = np.random.default_rng([key, request.size, request.seed]).normal()
        return replace(seen, cost=seen.cost * float(np.exp(SCATTER * noise)))

    return searcher_of(asked(path, recipe, "bayes", ())), world


def quarters(key: int) -> Iterator[tuple[float, Searcher, list[Running], float]]:
    """At each quarter of a sweep: the searcher as it was, what was training, and how long it took from there."""
    cluster = Cluster(WORKERS, even=False)
    searcher, world = recorded(key)
    whole = simulate(searcher, world, cluster, np.random.default_rng(key))
    caught: list[tuple[float, Searcher]] = []
    again, world = recorded(key)

    def hear(now: float, request: Request, seen: Observation | None) -> None:
        if len(caught) < len(QUARTERS) and now >= QUARTERS[len(caught)] * whole.makespan:
            caught.append((now, again.branch()))

    simulate(again, world, cluster, np.random.default_rng(key), hear)
    for quarter, (now, known) in zip(QUARTERS, caught, strict=True):
        training = [
            Running(stack.requests, (stack.end - now) / (stack.end - stack.start))
            for stack in whole.stacks
            if stack.start < now < stack.end
        ]
        yield quarter, known, training, whole.makespan - now


@pytest.mark.timeout(900)
@pytest.mark.parametrize("sweeps", [pytest.param(5, marks=pytest.mark.slow), pytest.param(20, marks=pytest.mark.night)])
def test_the_range_holds_in_four_of_five_recorded_sweeps_at_every_quarter(sweeps: int) -> None:
    held = dict.fromkeys(QUARTERS, 0)
    widths = []
    for key in range(sweeps):
        for quarter, searcher, training, left_s in quarters(key):
            found = remaining(searcher, training, {}, workers=WORKERS, stack=1, rng=np.random.default_rng(key))
            assert found.low_s <= found.middle_s <= found.high_s
            held[quarter] += found.low_s <= left_s <= found.high_s
            widths.append(found.high_s / found.low_s)
    assert min(held.values()) >= 0.8 * sweeps, held
    # A range from nothing to for ever would hold as well.
    assert np.median(widths) < 4, widths


def grid() -> Searcher:
    return make_searcher("grid", Problem(("add",), (8, 16, 32), (0, 1)))


def test_what_is_certain_is_said_without_a_range_of_runs() -> None:
    """A grid's runs are known: of six that take a second a unit, two have ended and one is half done."""
    searcher = grid()
    for request in searcher.ask(3)[:2]:
        searcher.tell(request, Observation(0.2, 0.1, float(request.size)))
    (half,) = searcher.pending
    left = sum(request.size for request in grid().ask(6)) - sum(run.size for run in searcher.results) - half.size / 2
    expected = {size: float(size) for size in (8, 16, 32)}
    found = remaining(
        searcher, [Running((half,), 0.5)], expected, workers=1, stack=1, rng=np.random.default_rng(0), draws=30
    )
    assert found.middle_s == pytest.approx(left, rel=0.35)
    assert found.low_s < left < found.high_s


def test_nothing_left_takes_no_time_and_the_searcher_is_left_alone() -> None:
    searcher = grid()
    for request in searcher.ask(6):
        searcher.tell(request, Observation(0.2, 0.1, 5.0))
    assert remaining(searcher, [], {}, workers=2, stack=1, rng=np.random.default_rng(0)).high_s == 0
    waiting = grid()
    before = dict(waiting.results)
    remaining(waiting, [], {8: 1.0}, workers=2, stack=1, rng=np.random.default_rng(0))
    assert (dict(waiting.results), waiting.pending) == (before, ())


def test_a_pace_is_learned_from_runs_and_expected_before_there_are_any() -> None:
    expected = {8: 2.0, 32: 8.0}
    assert pace_of({}, expected).exponent == pytest.approx(1.0)
    seen = {Request("add", size, 0): Observation(0.2, 0.1, size**2 / 8) for size in (8, 16, 32, 64)}
    learned = pace_of(seen, {})
    assert learned.exponent == pytest.approx(2.0)
    assert np.exp(learned.level + learned.exponent * np.log(16)) == pytest.approx(32.0)
    longer = {Request("add", 16, 0, 2): Observation(0.2, 0.1, 8.0), Request("add", 16, 1): Observation(0.2, 0.1, 4.0)}
    assert pace_of(longer, {}).level + pace_of(longer, {}).exponent * np.log(16) == pytest.approx(np.log(4))
