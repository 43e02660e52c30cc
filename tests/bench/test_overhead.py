"""The overhead benchmark's arithmetic, and the laptop one's tables."""

from __future__ import annotations

import pytest

from tests.bench.laptop import costs_table
from tests.bench.laptop_sweeps import Timed
from tests.bench.laptop_sweeps import table as sweeps_table
from tests.bench.overhead import Sample, space, summary, table


def samples(recorded_at_the_end: int) -> list[Sample]:
    """400 runs in 40 s, the record 4 s behind, memory growing by a tenth between 200 and 400."""
    watched = [Sample(float(s), 10 * s, max(0, 10 * (s - 4)), 400 + max(0, s - 20) * 2) for s in range(41)]
    return [*watched, Sample(44.0, 400, recorded_at_the_end, 440)]


def test_a_summary_counts_from_the_first_end_to_the_last_record() -> None:
    found = summary(samples(400))
    assert found["runs"] == found["recorded"] == 400
    assert found["ms_a_run_ended"] == pytest.approx(100)
    assert found["ms_a_run_recorded"] == pytest.approx(1e3 * 43 / 400)
    assert found["largest_backlog"] == 40
    assert found["memory_growth"] == pytest.approx(0.1)
    assert "| <= 150 |" in table(found)


def test_a_record_that_is_not_complete_has_no_time() -> None:
    found = summary(samples(399))
    assert found["ms_a_run_recorded"] is None
    assert "not all held" in table(found)


def test_the_space_holds_as_many_runs_as_were_asked_for() -> None:
    assert sum(request.steps_factor == 1 for request in space(2000, 1).requests()) == 2000
    assert space(60, 4).resources.max_stack == 4


def test_before_and_after_stand_side_by_side() -> None:
    row = {
        "n_embed": 16,
        "stack": {"before": 3, "after": 4},
        "step_s": {"before": 0.008, "after": 0.006},
        "evaluation_s": {"before": 0.02, "after": 0.018},
        "start_s": {"before": 0.1, "after": 0.1},
    }
    assert "| 16 | 3 / 4 | 8.00 / 6.00 | 0.75 | 20.0 / 18.0 | 100 / 100 |" in costs_table([row])


def test_sweeps_stand_with_what_they_found() -> None:
    found = {"add": "above 64", "add+prod": "8.5 [7, 10]"}
    timed = [
        Timed("before", 0, 400.0, None, {}, {}),
        *(Timed("bayes", s, 300.0 + s, 20, found, {"add+prod": 0.3 + s / 10}) for s in (0, 1, 2)),
    ]
    said = sweeps_table(timed)
    assert "| before | 0 |  |  |  |  | 400 |" in said
    assert "| bayes | 2 | above 64 | 8.5 [7, 10] | -, 0.50 | 20 | 302 |" in said
    assert "| bayes | median |  |  | -, 0.40 |  | 301 |" in said
