"""Tests of the overhead benchmark's arithmetic."""

from __future__ import annotations

import pytest

from tests.bench.overhead import Sample, summary, table


def samples(recorded_at_the_end: int) -> list[Sample]:
    """Return samples of 400 runs in 40 s: records come 4 s late, and memory grows by a tenth between 200 and 400."""
    watched = [
        Sample(float(s), 10 * s, max(0, 10 * (s - 4)), 400 + max(0, s - 20) * 2, s / 2, s / 5) for s in range(41)
    ]
    return [*watched, Sample(44.0, 400, recorded_at_the_end, 440, 22.0, 9.0)]


def test_a_summary_counts_from_the_first_end_to_the_last_record() -> None:
    figures = summary(samples(400))
    assert figures["runs"] == figures["recorded"] == 400
    assert figures["ms_a_run_ended"] == pytest.approx(100)
    assert figures["ms_a_run_recorded"] == pytest.approx(1e3 * 43 / 400)
    assert figures["ms_a_run_computed"] == pytest.approx(50)
    assert figures["ms_a_run_recording"] == pytest.approx(20)
    assert figures["largest_backlog"] == 40
    assert figures["memory_growth"] == pytest.approx(0.1)
    assert "| <= 150 |" in table(figures)


def test_a_record_that_is_not_complete_has_no_time() -> None:
    figures = summary(samples(399))
    assert figures["ms_a_run_recorded"] is None
    assert "not all recorded" in table(figures)
