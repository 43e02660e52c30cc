"""How a trial is scored: learned by more runs is better, then sooner, and nearly learned is better than not at all."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.tuning.objective import (
    LEARNED,
    TuningRun,
    beats,
    learned_at,
    learned_of,
    objective,
    probability_of_more,
)
from trainables.base import Evaluation

ACCURACIES = st.lists(st.floats(0, 1), min_size=1, max_size=12)
PENALTIES = st.floats(1, 10)
COUNTS = st.integers(1, 30).flatmap(lambda of: st.tuples(st.integers(0, of), st.integers(0, of), st.just(of)))


def curve(accuracies: list[float]) -> list[Evaluation]:
    return [
        Evaluation(100 * (place + 1), 1.0, {"add": accuracy, "prod": 1.0}) for place, accuracy in enumerate(accuracies)
    ]


@given(ACCURACIES)
def test_a_run_has_learned_where_its_curve_crosses(accuracies: list[float]) -> None:
    at = learned_at(curve(accuracies), "add")
    over = [place for place, accuracy in enumerate(accuracies) if accuracy >= LEARNED]
    if over:
        assert at is not None
        assert 100 * over[0] <= at <= 100 * (over[0] + 1)
    else:
        assert at is None


def test_crossings_are_interpolated_for_the_task_asked_for() -> None:
    points = curve([0.2, 0.6, 1.0, 0.1])
    assert learned_at(points, "add") == pytest.approx(250)
    assert learned_at(points, "prod") == pytest.approx(80)
    assert learned_at([], "add") is None


@given(accuracy=st.floats(0, LEARNED, exclude_max=True), more=st.floats(0, 0.5), penalty=PENALTIES)
def test_a_run_that_never_learned_counts_as_its_steps_or_more(accuracy: float, more: float, penalty: float) -> None:
    run = TuningRun(8, 0, None, accuracy, 1000)
    assert 1000 <= run.score(penalty) <= 1000 * penalty * (1 + 1e-12)
    better = TuningRun(8, 0, None, min(accuracy + more, 1.0), 1000)
    assert better.score(penalty) <= run.score(penalty)
    assert TuningRun(8, 0, 1000.0, 1.0, 1000).score(penalty) <= run.score(penalty)


@given(penalty=PENALTIES, accuracy=st.floats(0, 1))
def test_divergence_is_the_worst(penalty: float, accuracy: float) -> None:
    diverged = TuningRun(8, 0, None, accuracy, 1000, diverged=True)
    assert diverged.score(penalty) == pytest.approx(1000 * penalty)


def runs(learned: list[float], failed: int, accuracy: float = 0.3) -> list[TuningRun]:
    """Runs that learned at these steps, and some that failed, of 3000 steps each."""
    ended = [TuningRun(9, seed, at, 0.9, 3000) for seed, at in enumerate(learned)]
    return ended + [TuningRun(14, 100 + seed, None, accuracy, 3000) for seed in range(failed)]


@st.composite
def trials(draw: st.DrawFn, of: int) -> list[TuningRun]:
    learned = draw(st.lists(st.floats(1, 3000), max_size=of))
    return runs(learned, of - len(learned), draw(st.floats(0, LEARNED, exclude_max=True)))


@given(data=st.data(), of=st.integers(1, 12), penalty=PENALTIES)
def test_more_runs_learned_always_beat_speed(data: st.DataObject, of: int, penalty: float) -> None:
    one, other = data.draw(trials(of)), data.draw(trials(of))
    assert 0 < objective(one, penalty) <= 1 + 1 / of + 1e-12
    if learned_of(one) > learned_of(other):
        assert objective(one, penalty) < objective(other, penalty)


@given(at=st.floats(1, 2900), sooner=st.floats(0.1, 0.99), others=st.lists(st.floats(1, 3000), max_size=6))
def test_of_equal_shares_the_sooner_is_the_better(at: float, sooner: float, others: list[float]) -> None:
    assert objective(runs([*others, at * sooner], 2), 2.0) < objective(runs([*others, at], 2), 2.0)
    assert objective(runs(others, 2, accuracy=0.7), 2.0) < objective(runs(others, 2, accuracy=0.2), 2.0)


def test_the_objective_is_what_its_formula_says() -> None:
    # One run of two learned, at 1500 of 3000 steps; the other came half way and counts as 1.5 x 3000 of at most 6000.
    assert objective(runs([1500.0], 1, accuracy=LEARNED / 2), 2.0) == pytest.approx((2 - 1 + (0.25 + 0.75) / 2) / 2)


def test_what_learns_sooner_but_is_learned_by_fewer_seeds_loses() -> None:
    """As in the case that was measured: at a higher learning rate two seeds at each size learned sooner, and others
    failed at the upper size."""
    slow, fast = runs([2700.0, 2600.0, 2800.0], 1), runs([1300.0, 1200.0, 1400.0], 1)
    assert objective(fast, 2.0) < objective(slow, 2.0)  # Nothing speaks against it yet ...
    slow = runs([2700.0, 2600.0, 2800.0, 2750.0, 2500.0, 2900.0, 2800.0], 1)
    fast = runs([1300.0, 1200.0, 1400.0, 1350.0, 1250.0], 3)

    def mean_steps(ended: list[TuningRun]) -> float:
        return sum(run.score(2.0) for run in ended) / len(ended)

    assert mean_steps(fast) < mean_steps(
        slow
    )  # ... and nothing ever would, were it the mean steps to learn that count.
    assert objective(slow, 2.0) < objective(fast, 2.0)


@pytest.mark.parametrize(("learned", "written", "of"), [(6, 4, 8), (8, 7, 8), (1, 0, 4), (3, 9, 12), (20, 17, 40)])
def test_the_probability_is_that_of_the_two_posteriors(learned: int, written: int, of: int) -> None:
    rng = np.random.default_rng(7)
    ours, theirs = (rng.beta(1 + k, 1 + of - k, 400_000) for k in (learned, written))
    assert probability_of_more(learned, of, written, of) == pytest.approx((ours > theirs).mean(), abs=0.004)


@given(COUNTS)
def test_one_of_the_two_is_larger(counts: tuple[int, int, int]) -> None:
    one, other, of = counts
    both = probability_of_more(one, of, other, of) + probability_of_more(other, of, one, of)
    assert both == pytest.approx(1)
    assert not (beats(one, other, of) and beats(other, one, of))
    assert not beats(one, one, of)


def test_of_eight_runs_two_more_must_learn() -> None:
    least = {written: min((k for k in range(9) if beats(k, written, 8)), default=None) for written in range(9)}
    assert least == {0: 2, 1: 3, 2: 4, 3: 5, 4: 6, 5: 7, 6: 8, 7: None, 8: None}


def test_a_probability_of_exactly_what_is_asked_for_is_enough() -> None:
    assert probability_of_more(2, 2, 1, 2) == pytest.approx(0.8, abs=1e-12)
    assert beats(2, 1, 2)
