"""How long runs take here and now, measured on a clock of the tests' own."""

from __future__ import annotations

import pytest

from orchestrator.sweep.rates import EVALUATIONS, Paced, Rates

EXPECTED = {8: 10.0, 32: 40.0}


def trained(*at: tuple[float, int], key: str = "a", rates: Rates | None = None) -> Rates:
    """A run that was seen at these times with these steps."""
    known = rates or Rates(EXPECTED)
    for now, step in at:
        known.look({key: step}, now)
    return known


def test_nothing_is_known_before_anything_was_measured() -> None:
    rates = trained((0.0, 0), (25.0, 100))
    assert rates.left_s("a", 1000, 25.0) is None
    assert rates.longest_s([Paced(8, 1.0, {"a": 1000})]) is None
    assert rates.slowdown([Paced(8, 1.0, {"a": 1000})]) == 1.0


def test_a_run_s_own_rate_counts_without_the_time_it_took_to_start() -> None:
    """100 steps in 5 s between two evaluations, after 25 s for the first 100."""
    rates = trained((0.0, 0), (25.0, 100), (30.0, 200))
    assert rates.left_s("a", 1000, 30.0) == pytest.approx(40.0)
    assert rates.left_s("a", 1000, 50.0) == pytest.approx(20.0)
    assert rates.left_s("a", 1000, 71.0) is None  # It takes longer than its rate said: nobody knows how much.


def test_a_rate_is_that_of_the_last_evaluations() -> None:
    slowly = [(float(place), 10 * place) for place in range(1, 20)]
    fast = [(19.0 + place, 190 + 100 * place) for place in range(1, EVALUATIONS + 1)]
    rates = trained(*slowly, *fast)
    assert rates.left_s("a", 1790, fast[-1][0]) == pytest.approx(10.0)


def test_load_is_noticed_in_what_trains_before_any_of_it_has_ended() -> None:
    """Ten seconds are expected of a run of 1000 steps; it does 100 in 8 s. Two in a stack share what it computes."""
    alone, pair = Paced(8, 1.0, {"a": 1000}), Paced(8, 1.0, {"a": 1000, "b": 1000})
    rates = trained((0.0, 100), (8.0, 200))
    assert rates.slowdown([alone]) == pytest.approx(8.0)
    assert rates.longest_s([alone]) == pytest.approx(8 * 40.0)
    rates = Rates(EXPECTED)
    for now, step in ((0.0, 100), (8.0, 200)):
        rates.look({"a": step, "b": step}, now)
    assert rates.slowdown([pair]) == pytest.approx(4.0)
    assert rates.slowdown([Paced(8, 2.0, pair.steps)]) == pytest.approx(2.0)


def test_what_has_ended_says_how_slow_the_machine_is_and_what_runs_compute() -> None:
    rates = Rates(EXPECTED)
    rates.ended(8, 1.0, computed_s=20.0, passed_s=50.0)
    assert rates.slowdown([]) == pytest.approx(2.5)
    assert rates.longest_s([]) == pytest.approx(2.5 * 80.0)  # Twice what was expected at the other size, too.
    rates.ended(8, 0.5, computed_s=10.0, passed_s=25.0)  # Ended after half of its steps.
    assert rates.longest_s([]) == pytest.approx(2.5 * 80.0)
    for _ in range(60):
        rates.ended(8, 1.0, computed_s=20.0, passed_s=20.0)
    assert rates.slowdown([]) == pytest.approx(1.0, abs=0.01)  # The load has gone.


def test_what_trains_outvotes_what_has_ended_only_where_it_is_clearly_slower() -> None:
    rates = Rates(EXPECTED)
    rates.ended(8, 1.0, computed_s=10.0, passed_s=20.0)
    stack = [Paced(8, 1.0, {"a": 1000})]
    assert trained((0.0, 100), (2.5, 200), rates=rates).slowdown(stack) == pytest.approx(2.0)
    assert trained((10.0, 300), (20.0, 400), rates=rates).slowdown(stack) > 3.0


def test_a_run_whose_evaluation_is_overdue_is_not_timed() -> None:
    """Evaluations 5 s apart: after 10 s without one nobody knows its rate."""
    stack = [Paced(8, 1.0, {"a": 1000})]
    assert not trained((0.0, 0), (25.0, 100)).times(stack, 25.0)
    rates = trained((0.0, 0), (25.0, 100), (30.0, 200), (35.0, 300))
    assert rates.times(stack, 44.0)
    assert not rates.times(stack, 46.0)
    assert not rates.times([*stack, Paced(8, 1.0, {"b": 1000})], 36.0)
    assert rates.times([], 36.0)


def test_runs_in_training_no_more_are_forgotten() -> None:
    rates = trained((0.0, 100), (5.0, 200))
    rates.look({"b": 100}, 6.0)
    assert rates.left_s("a", 1000, 6.0) is None
