"""How a trial is scored: sooner is better, nearly learned is better than not at all, and nothing is worth less than
never learning."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.tuning.objective import LEARNED, TuningRun, learned_at, mean_score
from trainables.base import Evaluation

ACCURACIES = st.lists(st.floats(0, 1), min_size=1, max_size=12)
PENALTIES = st.floats(1, 10)


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


def test_a_trial_is_worth_the_mean_of_its_runs() -> None:
    assert mean_score([TuningRun(8, 0, 200.0, 1.0, 1000), TuningRun(16, 0, None, 0.4, 1000)], 2.0) == pytest.approx(850)
