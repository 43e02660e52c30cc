"""The small model of learning by size: kept tables change no number."""

from __future__ import annotations

import math

import numpy as np
import pytest

from orchestrator.transition.surrogate import REACH, Surrogate

RUNS = [(8, False), (12, None), (16, True), (12, False), (16, True), (9.5, True)]


@pytest.mark.parametrize(
    ("around", "reach", "spread"), [(14.0, REACH, math.inf), (math.sqrt(7 * 64), 1.8, math.inf), (20.0, 1.2, 0.8)]
)
def test_posteriors_and_draws_are_those_of_curves_computed_one_by_one(
    around: float, reach: float, spread: float
) -> None:
    surrogate = Surrogate(around, reach, spread)
    expected = np.log(surrogate.weights())
    for size, learned in RUNS:
        surrogate.add(size, learned)
        if learned is not None:
            curve = surrogate.curves(size)
            expected += np.log(curve if learned else 1 - curve)
    weights = np.exp(expected - expected.max())
    assert surrogate.weights() == pytest.approx(weights / weights.sum(), rel=1e-12)
    sizes, uniform = [7, 14, 30], np.random.default_rng(0).random(200)
    cumulative = np.cumsum(surrogate.weights())
    places = np.searchsorted(cumulative, uniform * cumulative[-1], side="right")
    drawn = surrogate.draw(sizes, uniform)
    assert drawn.shape == (200, 3)
    for column, size in enumerate(sizes):
        assert drawn[:, column].tolist() == surrogate.curves(size)[places].tolist()


def test_nobody_can_change_what_surrogates_share() -> None:
    first, second = Surrogate(16.0), Surrogate(16.0)
    before = second.draw([8, 16], np.array([0.1, 0.9]))
    with pytest.raises(ValueError, match="read-only"):
        first.curves(8)[:] = 0.5
    first.draw([8, 16], np.array([0.1, 0.9]))[:] = 0.5
    branch = first.branch()
    branch.add(8, True)
    assert first.weights().tolist() == second.weights().tolist() != branch.weights().tolist()
    assert second.draw([8, 16], np.array([0.1, 0.9])).tolist() == before.tolist()
