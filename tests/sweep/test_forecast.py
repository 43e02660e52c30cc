"""Forecasts beside a sweep: made anew when something has ended, and when the time that was foreseen has run out."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.engine.campaign import Observer
from orchestrator.home.journal import Ended
from orchestrator.search.base import Observation, Problem
from orchestrator.search.registry import make_searcher
from orchestrator.simulation.remaining import Running
from orchestrator.sweep import forecast
from orchestrator.sweep.forecast import Forecast, Forecaster, Promise
from orchestrator.sweep.monitor import Monitor
from orchestrator.terminal.live_view import status_line
from tests.engine.test_campaign import GOOD
from tests.engine.test_campaign import make as campaign_of
from trainables.base import Evaluation


def made(forecaster: Forecaster, before: Forecast | None) -> Forecast:
    until = time.monotonic() + 60
    while (found := forecaster.latest) is before:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert found is not None
    return found


def test_a_forecast_is_made_anew_once_it_has_run_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecast, "FIRST_AFTER_S", 0.0)
    monkeypatch.setattr(forecast, "REST", 0.0)
    searcher = make_searcher("grid", Problem(("add",), (8, 16), (0,)))
    first, second = searcher.ask(2)
    searcher.tell(first, Observation(0.2, 0.1, 0.02))
    forecaster = Forecaster({8: 0.02, 16: 0.02})
    running = [Running((second,), 1.0)]
    forecaster.consider(searcher, running, 1, 1)
    known = made(forecaster, None)
    assert 0 < known.found.middle_s < 1
    until = time.monotonic() + 10
    while known.now().middle_s:
        assert time.monotonic() < until
        time.sleep(0.01)
    # Nothing has ended since, and nothing is known of what trains: another forecast would only say the same again.
    forecaster.consider(searcher, running, 1, 1)
    time.sleep(0.2)
    assert forecaster.latest is known
    # What trains goes a hundred times slower than what has ended.
    forecaster.consider(searcher, running, 1, 1, 100.0, timed=True)
    again = made(forecaster, known)
    assert again.found.middle_s == pytest.approx(100 * known.found.middle_s)
    forecaster.consider(searcher, running, 1, 1, 100.0, timed=True)
    time.sleep(0.2)
    assert forecaster.latest is again, "it has not run out, and nothing has ended"
    assert forecaster.late, "what was foreseen first has run out"


def test_what_was_promised_moves_on_only_when_a_run_has_ended() -> None:
    promise, now = Promise(), time.monotonic()
    assert promise.left_s is None
    promise.given(3, now + 100)
    promise.given(3, now + 500)
    assert promise.left_s is not None
    assert promise.left_s <= 100
    promise.given(4, now + 500)
    assert promise.left_s > 400
    promise.given(4, now - 1)
    assert promise.left_s == 0


def test_a_bound_that_has_run_out_is_not_said_anew_of_the_same_runs(tmp_path: Path) -> None:
    """The first evaluations of a run are quick, and the next one does not come."""
    alone = {"max_stack": 1}
    campaign = campaign_of(tmp_path / "journal.jsonl", slots=1, sizes=[8], seeds=3, mixes=["add"], resources=alone)
    monitor = Monitor(campaign, lambda: "", {8: 0.1})
    stack = campaign.next_stack()
    assert stack is not None
    (ticket,) = stack.tickets
    for step in (1, 2):
        campaign.evaluated(ticket.key, Evaluation(step, 1.0, {"add": 0.2}))
        monitor.refresh()
        time.sleep(0.1)
    first = monitor.snapshot().left_s
    assert first is not None
    assert 0 < first < 5
    training = dict(campaign.training)
    campaign.training.clear()  # With the stack, all that is known of its rate is gone.
    monitor.refresh()
    assert "unknown" not in status_line(monitor.snapshot()), "an estimate was printed before"
    campaign.training.update(training)
    until = time.monotonic() + first
    while time.monotonic() < until:
        monitor.refresh()
        time.sleep(0.02)
    monitor.refresh()
    assert "gone, longer than expected" in status_line(monitor.snapshot())

    class Listener(Observer):
        def ended(self, entry: Ended) -> None:
            monitor.ended(entry)

    campaign.observer = Listener()
    campaign.ended(ticket.key, replace(GOOD, measures={"seconds": 3.0, "wall_seconds": 3.0}))
    monitor.refresh()
    assert "gone, at most 6 s left" in status_line(monitor.snapshot()), "a run has ended: the rest is foreseen anew"
