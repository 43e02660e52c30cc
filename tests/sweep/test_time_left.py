"""The remaining time, which depends on ended runs and is updated only by them."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.engine.run_table import RunState, TableRun
from orchestrator.forecast.cost_estimate import STARTUP_S
from orchestrator.search.base import Problem, Request, Searcher
from orchestrator.search.registry import METHODS
from orchestrator.sweep.monitor import Monitor
from orchestrator.sweep.time_left import time_left
from orchestrator.terminal.live_view import status_line
from tests.engine.test_campaign import GOOD, plan_of
from tests.engine.test_campaign import make as campaign_of
from trainables.base import Evaluation

EXPECTED = {size: float(size) for size in (8, 16, 32)}


def grid() -> Searcher:
    return METHODS["grid"](Problem(("add",), (8, 16, 32), (0, 1)))


def test_the_time_left_of_a_grid_follows_from_the_ended_runs() -> None:
    """Of six runs that are expected to take a second a unit, two have ended and one is half done."""
    searcher = grid()
    for request in searcher.ask(3)[:2]:
        searcher.tell(request, request.point(0.2, 0.1, 3.0))
    (half,) = searcher.pending
    left = sum(request.size for request in grid().ask(6)) - sum(run.size for run in searcher.results) - half.size / 2
    assert time_left(searcher, [(half, 0.5)], EXPECTED, EXPECTED) == pytest.approx(left)
    assert time_left(searcher, [(half, 0.5)], EXPECTED, EXPECTED, pace=3 / 2) == pytest.approx(1.5 * left)


def test_a_budget_is_used_up_by_what_the_search_counts() -> None:
    """This machine takes ten times as long as the typical core whose seconds the budget is in."""
    problem = Problem(("add",), (8, 16, 32), tuple(range(20)))
    budget = {"max_cost": 100.0}
    typical, here = EXPECTED, {size: 10 * seconds for size, seconds in EXPECTED.items()}
    quick = time_left(METHODS["pairs"](problem, **budget), [], typical, typical)
    slow = time_left(METHODS["pairs"](problem, **budget), [], here, typical)
    assert slow == pytest.approx(10 * quick)
    assert time_left(METHODS["pairs"](problem, **budget), [], here, here) < slow


def test_the_time_left_changes_only_when_a_run_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.sweep.time_left.STARTUP_S", 2.0)
    alone = {"max_stack": 1}
    path = tmp_path / "sweeps" / "logistic-1" / "journal.jsonl"
    campaign = campaign_of(path, slots=1, sizes=[8], seeds=3, mixes=["add"], resources=alone)
    stack = campaign.next_stack()
    assert stack is not None
    (job,) = stack.jobs
    monitor = Monitor(campaign, plan_of(campaign), lambda: "", {8: 0.1})
    first = monitor.snapshot().left_s
    assert first == pytest.approx(2.3, abs=0.1), "the workers have to start"
    time.sleep(first)
    monitor.refresh()
    assert "elapsed, longer than expected" in status_line(monitor.snapshot())
    campaign.ended(job.key, replace(GOOD, measures={"seconds": 3.0, "wall_seconds": 3.0}))
    monitor.refresh()
    assert "elapsed, about 6 s left (runs take 30 times as long as planned)" in status_line(monitor.snapshot())


def test_the_first_run_in_training_is_shown_at_once(tmp_path: Path) -> None:
    """Without Ray, the driver then trains it, and looks again after its first evaluation."""
    path = tmp_path / "sweeps" / "logistic-1" / "journal.jsonl"
    campaign = campaign_of(path, slots=1, sizes=[8], seeds=1, mixes=["add"])
    monitor = Monitor(campaign, plan_of(campaign), lambda: "", {8: 0.1})
    assert campaign.next_stack() is not None
    monitor.refresh_if_due()
    assert "add not yet, 0 done, 1 now" in status_line(monitor.snapshot())


def test_before_a_run_has_ended_the_time_left_follows_from_training_rates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stack of two runs is expected to take 20 s, but has 380 of its 400 steps left at one step per second."""
    monkeypatch.setattr("orchestrator.sweep.time_left.MAX_SHARE", 1e9)
    path = tmp_path / "sweeps" / "logistic-1" / "journal.jsonl"
    campaign = campaign_of(path, slots=1, sizes=[8], seeds=2, mixes=["add"], settings={"steps": 400})
    stack = campaign.next_stack()
    assert stack is not None
    assert len(stack.jobs) == 2
    monitor = Monitor(campaign, plan_of(campaign), lambda: "", {8: 10.0})
    assert monitor.snapshot().left_s == pytest.approx(20 + STARTUP_S, abs=1)
    now = time.monotonic()
    for step, at in ((10, now - 10), (20, now)):
        for run in campaign.training:
            run.evaluated(Evaluation(step, 1.0, {}), now=at)
    monitor.refresh()
    assert monitor.snapshot().left_s == pytest.approx(380, abs=5)


def test_the_rate_of_a_run_excludes_its_start(tmp_path: Path) -> None:
    """100 steps in 5 s between two evaluations, after 25 s for the first 100."""
    campaign = campaign_of(tmp_path / "sweeps" / "logistic-1" / "journal.jsonl")
    training = TableRun(plan_of(campaign).job(Request("add", 8, 0)), RunState.TRAINING)
    training.evaluated(Evaluation(100, 1.0, {}), now=25.0)
    assert training.left_s(1000, 25.0) is None
    training.evaluated(Evaluation(200, 1.0, {}), now=30.0)
    assert training.left_s(1000, 30.0) == pytest.approx(40.0)
    assert training.left_s(1000, 50.0) == pytest.approx(20.0)
    assert training.left_s(1000, 71.0) is None, "it takes longer than its rate said"


def test_a_run_is_ending_in_the_last_fifth_of_its_time(tmp_path: Path) -> None:
    """100 steps in 5 s, so the last fifth of 1,000 steps takes 10 s."""
    campaign = campaign_of(tmp_path / "sweeps" / "logistic-1" / "journal.jsonl")
    training = TableRun(plan_of(campaign).job(Request("add", 8, 0)), RunState.TRAINING)
    training.evaluated(Evaluation(700, 1.0, {}), now=25.0)
    assert not training.is_ending(1000, 25.0), "the rate is unknown"
    training.evaluated(Evaluation(800, 1.0, {}), now=30.0)
    assert [training.is_ending(1000, now) for now in (30.0, 30.1, 39.9, 40.1)] == [False, True, True, False]
