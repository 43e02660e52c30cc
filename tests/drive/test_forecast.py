"""Forecasts beside a sweep: made anew when something has ended, and when the time that was foreseen has run out."""

from __future__ import annotations

import time

import pytest

from orchestrator.drive import forecast
from orchestrator.drive.forecast import Forecast, Forecaster
from orchestrator.search.base import Observation, Problem
from orchestrator.search.registry import make_searcher
from orchestrator.simulation.remaining import Running


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
