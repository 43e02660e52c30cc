"""The paper's least-squares fit."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.transition.logistic import fit
from orchestrator.transition.types import Fit, Point

SIZES = (8, 12, 16, 24, 32, 48, 64, 96, 128)


def points_of(accuracies: dict[int, list[float]], floor: float = 0.2) -> list[Point]:
    return [
        Point(size, seed, accuracy, floor) for size, runs in accuracies.items() for seed, accuracy in enumerate(runs)
    ]


def step(low: float, high: float) -> dict[int, list[float]]:
    return {size: [high if size >= 32 else low] * 3 for size in SIZES}


def transition(curve: Fit) -> float:
    """The size at 80 % of a curve's asymptote, for a floor below that."""
    share = (0.8 * curve.asymptote - curve.floor) / (curve.asymptote - curve.floor)
    return math.exp(curve.midpoint + math.log(share / (1 - share)) / curve.slope)


@settings(max_examples=25)
@given(
    midpoint=st.floats(math.log(14), math.log(70)),
    slope=st.floats(3.0, 12.0),
    floor=st.floats(0.05, 0.4),
    asymptote=st.floats(0.8, 1.0),
)
def test_recovers_known_curves(midpoint: float, slope: float, floor: float, asymptote: float) -> None:
    truth = Fit(midpoint, slope, floor, asymptote)
    sizes = np.unique(np.geomspace(6, 200, 40).round().astype(int))
    curve = fit([Point(int(size), 0, truth.accuracy(size), floor) for size in sizes])
    assert curve is not None
    assert math.log(transition(curve) / transition(truth)) == pytest.approx(0, abs=0.01)
    assert curve.asymptote == pytest.approx(asymptote, abs=0.01)
    assert curve.midpoint == pytest.approx(midpoint, abs=0.01)


@settings(max_examples=20)
@given(st.lists(st.tuples(st.sampled_from(SIZES), st.floats(0, 1)), min_size=0, max_size=40), st.randoms())
def test_stays_within_bounds_in_any_order_without_warnings(runs: list[tuple[int, float]], random: object) -> None:
    points = [Point(size, seed, accuracy, 0.15) for seed, (size, accuracy) in enumerate(runs)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        curve = fit(points)
    if curve is not None:
        assert 0.15 <= curve.floor < curve.asymptote <= 1
        assert curve.slope > 0
    random.shuffle(points)  # type: ignore[attr-defined]
    assert fit(points) == curve


def test_a_step_lies_between_its_two_sizes() -> None:
    curve = fit(points_of(step(0.2, 0.97)))
    assert curve is not None
    assert 24 < transition(curve) < 32
    assert curve.asymptote == pytest.approx(0.97, abs=0.005)


@pytest.mark.parametrize(
    "accuracies",
    [
        {},
        {8: [0.2, 0.9, 0.9]},
        {8: [0.95] * 3, 16: [0.5] * 3, 32: [0.2] * 3},
        *({size: [accuracy] * 3 for size in SIZES} for accuracy in (0.0, 0.2, 1.0)),
    ],
)
def test_points_without_a_rise_have_no_curve(accuracies: dict[int, list[float]]) -> None:
    assert fit(points_of(accuracies)) is None


@pytest.mark.parametrize(
    ("unlearned", "constant_answer", "floor"),
    [(0.09, 0.3, 0.3), (0.45, 0.1, 0.45)],
    ids=["never below the constant answer", "raised by unlearned runs above it"],
)
def test_the_floor(unlearned: float, constant_answer: float, floor: float) -> None:
    curve = fit(points_of(step(unlearned, 0.97), constant_answer))
    assert curve is not None
    assert curve.floor == pytest.approx(floor, abs=0.01)


CAUGHT = {
    6: [0.15, 0.26, 0.23],
    10: [0.87, 0.17, 1.0],
    20: [0.94, 0.25, 0.21],
    24: [0.26, 0.93, 0.91],
    32: [0.18, 0.24, 0.98],
    96: [0.96, 0.93, 0.89],
}
"""Runs with two basins: a curve from 6 to 10 and one from 32 to 96 both fit better than any curve between them."""


def test_finds_the_best_of_several_basins() -> None:
    points = points_of(CAUGHT)
    size_R, accuracy_R = np.array([(point.size, point.accuracy) for point in points]).T

    def error(midpoint: float, slope: float, floor: float, asymptote: float) -> float:
        predicted = floor + (asymptote - floor) / (1 + np.exp(-slope * (np.log(size_R) - midpoint)))
        return float(((predicted - accuracy_R) ** 2).sum())

    everywhere = [
        error(midpoint, slope, floor, asymptote)
        for midpoint in np.linspace(math.log(4), math.log(130), 30)
        for slope in np.geomspace(0.5, 80, 20)
        for floor in np.linspace(0.2, 0.6, 5)
        for asymptote in np.linspace(0.6, 1.0, 5)
    ]
    curve = fit(points)
    assert curve is not None
    assert error(curve.midpoint, curve.slope, curve.floor, curve.asymptote) <= min(everywhere) + 1e-4


def test_a_lucky_size_before_a_fall_is_fitted_by_a_rise() -> None:
    """A fall from .3 is closer to these runs than the small rise to .27."""
    curve = fit(points_of({16: [0.2] * 4, 24: [0.2, 0.2, 0.2, 1.0], 96: [0.2] * 4, 128: [0.2] * 4}))
    assert curve is not None
    assert curve.floor == pytest.approx(0.2, abs=1e-3)
    assert curve.asymptote == pytest.approx(0.267, abs=0.01)


def test_extreme_sizes_do_not_overflow() -> None:
    curve = Fit(3.0, 8.0, 0.2, 0.95)
    assert curve.accuracy(1e-300) == pytest.approx(0.2)
    assert curve.accuracy(1e300) == pytest.approx(0.95)
