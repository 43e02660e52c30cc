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

PENALTIES = st.floats(1, 10)


def test_crossings_are_interpolated_for_the_task_asked_for() -> None:
    accuracies = enumerate([0.2, 0.6, 1.0, 0.1], start=1)
    points = [Evaluation(100 * place, 1.0, {"add": accuracy, "prod": 1.0}) for place, accuracy in accuracies]
    assert learned_at(points, "add") == pytest.approx(250)
    assert learned_at(points, "prod") == pytest.approx(80)
    assert learned_at(points[:2], "add") is None
    assert learned_at([], "add") is None


@given(accuracy=st.floats(0, LEARNED, exclude_max=True), more=st.floats(0, 0.5), penalty=PENALTIES)
def test_a_run_that_never_learned_counts_as_its_steps_or_more(accuracy: float, more: float, penalty: float) -> None:
    run = TuningRun(8, 0, None, accuracy, 1000)
    assert 1000 <= run.score(penalty) <= 1000 * penalty * (1 + 1e-12)
    better = TuningRun(8, 0, None, min(accuracy + more, 1.0), 1000)
    assert better.score(penalty) <= run.score(penalty)
    assert TuningRun(8, 0, 1000.0, 1.0, 1000).score(penalty) <= run.score(penalty)
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


@pytest.mark.parametrize(("learned", "written", "of"), [(6, 4, 8), (8, 7, 8), (1, 0, 4), (3, 9, 12), (20, 17, 40)])
def test_the_probability_is_that_of_the_two_posteriors(learned: int, written: int, of: int) -> None:
    rng = np.random.default_rng(7)
    ours, theirs = (rng.beta(1 + k, 1 + of - k, 400_000) for k in (learned, written))
    assert probability_of_more(learned, of, written, of) == pytest.approx((ours > theirs).mean(), abs=0.004)
    assert probability_of_more(written, of, learned, of) == pytest.approx((theirs > ours).mean(), abs=0.004)


def test_of_eight_runs_two_more_must_learn() -> None:
    least = {written: min((k for k in range(9) if beats(k, written, 8)), default=None) for written in range(9)}
    assert least == {0: 2, 1: 3, 2: 4, 3: 5, 4: 6, 5: 7, 6: 8, 7: None, 8: None}
    assert probability_of_more(2, 2, 1, 2) == pytest.approx(0.8, abs=1e-12)  # Exactly what is asked for is enough.
    assert beats(2, 1, 2)
