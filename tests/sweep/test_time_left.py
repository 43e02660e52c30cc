"""Time left as a range: calibrated on sweeps of recorded runs, and moved on by runs that end alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orchestrator.cost import run_seconds
from orchestrator.engine.state import Training
from orchestrator.search.base import Observation, Problem, Request, Searcher
from orchestrator.search.registry import make_searcher
from orchestrator.simulation import Cluster, World, simulate
from orchestrator.space.evidence import searcher_of
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.monitor import Monitor
from orchestrator.sweep.time_left import time_left
from orchestrator.terminal.live_view import status_line
from tests.bench.drawn_sweeps import FORMER, RECIPES, asked, pool_of
from tests.bench.pool import recipes_of
from tests.engine.test_campaign import GOOD
from tests.engine.test_campaign import make as campaign_of
from trainables.base import Evaluation

QUARTERS = (0.25, 0.5, 0.75)
WORKERS = 2
SCATTER = 0.15
"""Standard deviation of ln time of the runs of one size, on a machine shared with other work."""
Caught = tuple[float, Searcher, list[tuple[Request, float]], float]
"""The share of a sweep's time, its searcher then, the runs in training with their shares to come, and the time left."""


def recorded(key: int) -> tuple[SweepSpec, World]:
    """The laptop profile's sweep, and how the runs of a drawn one ended and how long they took."""
    path, recipe = [(FORMER, ""), *((RECIPES, each) for each in recipes_of(RECIPES))][key % 5]
    ends = pool_of(path, recipe).world(key)

    def world(request: Request) -> Observation:
        seen = ends(request)
        noise = np.random.default_rng([key, request.size, request.seed]).normal()
        return replace(seen, cost=seen.cost * float(np.exp(SCATTER * noise)))

    return asked(path, recipe, "bayes", ()), world


def quarters(spec: SweepSpec, world: World, key: int) -> Iterator[Caught]:
    """A drawn sweep at each of its quarters."""
    cluster = Cluster(WORKERS, even=False)
    whole = simulate(searcher_of(spec), world, cluster, np.random.default_rng(key))
    caught: list[tuple[float, Searcher]] = []
    again = searcher_of(spec)

    def hear(now: float, request: Request, seen: Observation | None) -> None:
        if len(caught) < len(QUARTERS) and now >= QUARTERS[len(caught)] * whole.makespan:
            caught.append((now, again.branch()))

    simulate(again, world, cluster, np.random.default_rng(key), hear)
    for quarter, (now, known) in zip(QUARTERS, caught, strict=True):
        training = [
            (stack.requests[0], (stack.end - now) / (stack.end - stack.start))
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
        spec, world = recorded(key)
        expected = run_seconds(spec)
        for quarter, searcher, training, left_s in quarters(spec, world, key):
            found = time_left(searcher, training, expected, workers=WORKERS)
            assert found.low_s <= found.middle_s <= found.high_s
            held[quarter] += found.low_s <= left_s <= found.high_s
            widths.append(found.high_s / found.low_s if found.low_s else np.inf)
    assert min(held.values()) >= 0.8 * sweeps, held
    # A range from nothing to for ever would hold as well.
    assert np.median(widths) < 4, widths


EXPECTED = {size: float(size) for size in (8, 16, 32)}


def grid() -> Searcher:
    return make_searcher("grid", Problem(("add",), (8, 16, 32), (0, 1)))


@pytest.mark.parametrize("slower", [1, 3])
def test_a_grid_s_runs_are_known_and_take_as_long_as_those_that_ended(slower: int) -> None:
    """Of six that are expected to take a second a unit, two have ended and one is half done."""
    searcher = grid()
    for request in searcher.ask(3)[:2]:
        searcher.tell(request, Observation(0.2, 0.1, float(slower * request.size)))
    (half,) = searcher.pending
    left = sum(request.size for request in grid().ask(6)) - sum(run.size for run in searcher.results) - half.size / 2
    found = time_left(searcher, [(half, 0.5)], EXPECTED, workers=1)
    assert found.middle_s == pytest.approx(slower * left)
    assert found.low_s < found.middle_s < found.high_s
    assert time_left(searcher, [(half, 0.5)], EXPECTED, workers=2, slowdown=4).middle_s == 2 * found.middle_s


def test_nothing_left_takes_no_time_and_the_searcher_is_left_alone() -> None:
    searcher = grid()
    for request in searcher.ask(6):
        searcher.tell(request, Observation(0.2, 0.1, 5.0))
    assert time_left(searcher, [], EXPECTED, workers=2).high_s == 0
    waiting = grid()
    before = dict(waiting.results)
    time_left(waiting, [], EXPECTED, workers=2)
    assert (dict(waiting.results), waiting.pending) == (before, ())


def test_the_range_moves_on_only_when_a_run_has_ended(tmp_path: Path) -> None:
    alone = {"max_stack": 1}
    path = tmp_path / "sweeps" / "logistic-1" / "journal.jsonl"
    campaign = campaign_of(path, slots=1, sizes=[8], seeds=3, mixes=["add"], resources=alone)
    stack = campaign.next_stack()
    assert stack is not None
    (ticket,) = stack.tickets
    monitor = Monitor(campaign, lambda: "", {8: 0.1})
    first = monitor.snapshot().left
    assert first is not None
    assert first.middle_s == pytest.approx(0.3, abs=0.1)
    time.sleep(first.high_s)
    monitor.refresh()
    assert "gone, longer than expected" in status_line(monitor.snapshot())
    campaign.ended(ticket.key, replace(GOOD, measures={"seconds": 3.0, "wall_seconds": 3.0}))
    monitor.refresh()
    assert "gone, about 6 s (4 to 9) left" in status_line(monitor.snapshot())


def test_a_run_s_own_rate_counts_without_the_time_it_took_to_start(tmp_path: Path) -> None:
    """100 steps in 5 s between two evaluations, after 25 s for the first 100."""
    campaign = campaign_of(tmp_path / "sweeps" / "logistic-1" / "journal.jsonl")
    training = Training(campaign.ticket(Request("add", 8, 0)), "stack")
    training.evaluated(Evaluation(100, 1.0, {}), now=25.0)
    assert training.left_s(1000, 25.0) is None
    training.evaluated(Evaluation(200, 1.0, {}), now=30.0)
    assert training.left_s(1000, 30.0) == pytest.approx(40.0)
    assert training.left_s(1000, 50.0) == pytest.approx(20.0)
    assert training.left_s(1000, 71.0) is None, "it takes longer than its rate said"
