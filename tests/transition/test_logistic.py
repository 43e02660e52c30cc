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
    return [Point(size, seed, a, floor) for size, found in accuracies.items() for seed, a in enumerate(found)]


def transition(curve: Fit) -> float:
    """The size at 80 % of a curve's asymptote, for a floor below that."""
    share = (0.8 * curve.asymptote - curve.floor) / (curve.asymptote - curve.floor)
    return math.exp(curve.midpoint + math.log(share / (1 - share)) / curve.slope)


@settings(max_examples=60)
@given(
    midpoint=st.floats(math.log(14), math.log(70)),
    slope=st.floats(3.0, 12.0),
    floor=st.floats(0.05, 0.4),
    asymptote=st.floats(0.8, 1.0),
)
def test_recovers_known_curves(midpoint: float, slope: float, floor: float, asymptote: float) -> None:
    truth = Fit(midpoint, slope, floor, asymptote)
    sizes = np.unique(np.geomspace(6, 200, 40).round().astype(int))
    found = fit([Point(int(size), 0, truth.accuracy(size), floor) for size in sizes])
    assert found is not None
    assert math.log(transition(found) / transition(truth)) == pytest.approx(0, abs=0.01)
    assert found.asymptote == pytest.approx(asymptote, abs=0.01)
    assert found.midpoint == pytest.approx(midpoint, abs=0.01)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(SIZES), st.floats(0, 1)), min_size=0, max_size=40))
def test_never_warns_and_stays_within_bounds(runs: list[tuple[int, float]]) -> None:
    points = [Point(size, seed, accuracy, 0.15) for seed, (size, accuracy) in enumerate(runs)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fit(points)
    if found is not None:
        assert 0.15 <= found.floor < found.asymptote <= 1
        assert found.slope > 0


@settings(max_examples=25)
@given(order=st.permutations(range(18)), data=st.integers(0, 5))
def test_order_of_points_does_not_matter(order: list[int], data: int) -> None:
    truth, rng = Fit(3.2, 6.0, 0.2, 0.97), np.random.default_rng(data)
    points = [
        Point(size, seed, min(1.0, max(0.0, truth.accuracy(size) + 0.05 * rng.normal())), 0.2)
        for size in SIZES
        for seed in range(2)
    ]
    assert fit([points[index] for index in order]) == fit(points)


def test_a_step_is_put_between_the_two_sizes() -> None:
    found = fit(points_of({size: [0.97] * 3 if size >= 32 else [0.2] * 3 for size in SIZES}))
    assert found is not None
    assert 24 < transition(found) < 32
    assert found.asymptote == pytest.approx(0.97, abs=0.005)


@pytest.mark.parametrize("accuracy", [0.0, 0.2, 0.6, 1.0])
def test_no_curve_without_a_rise(accuracy: float) -> None:
    assert fit(points_of({size: [accuracy] * 3 for size in SIZES})) is None


def test_no_curve_from_a_single_size_or_a_fall() -> None:
    assert fit(points_of({8: [0.2, 0.9, 0.9]})) is None
    assert fit(points_of({8: [0.95] * 3, 16: [0.5] * 3, 32: [0.2] * 3})) is None
    assert fit([]) is None


def test_floor_never_under_the_constant_answer() -> None:
    runs = {size: [0.97] * 3 if size >= 32 else [0.09] * 3 for size in SIZES}
    found = fit(points_of(runs, floor=0.3))
    assert found is not None
    assert found.floor == pytest.approx(0.3, abs=1e-3)


def test_unlearned_runs_above_the_constant_answer_lift_the_floor() -> None:
    runs = {size: [0.97] * 3 if size >= 32 else [0.45] * 3 for size in SIZES}
    found = fit(points_of(runs, floor=0.1))
    assert found is not None
    assert found.floor == pytest.approx(0.45, abs=0.01)


CAUGHT = {
    6: [0.15, 0.26, 0.23],
    10: [0.87, 0.17, 1.0],
    20: [0.94, 0.25, 0.21],
    24: [0.26, 0.93, 0.91],
    32: [0.18, 0.24, 0.98],
    96: [0.96, 0.93, 0.89],
}
"""Some seeds learn from 10 on, all at 96: a curve from 6 to 10, and one from 32 to 96, are both better than any between
them."""


def test_the_best_of_several_basins_is_found() -> None:
    points = points_of(CAUGHT)

    def missed(curve: Fit) -> float:
        return sum((curve.accuracy(point.size) - point.accuracy) ** 2 for point in points)

    everywhere = [
        Fit(midpoint, slope, floor, asymptote)
        for midpoint in np.linspace(math.log(4), math.log(130), 30)
        for slope in np.geomspace(0.5, 80, 20)
        for floor in np.linspace(0.2, 0.6, 9)
        for asymptote in np.linspace(0.6, 1.0, 9)
    ]
    found = fit(points)
    assert found is not None
    assert missed(found) <= min(map(missed, everywhere)) + 1e-4


def test_a_fall_after_a_lucky_size_is_no_curve() -> None:
    """Falling from .3 is closer to these runs than rising to .27, which is what there is of a curve."""
    found = fit(points_of({16: [0.2] * 4, 24: [0.2, 0.2, 0.2, 1.0], 96: [0.2] * 4, 128: [0.2] * 4}))
    assert found is not None
    assert found.floor == pytest.approx(0.2, abs=1e-3)
    assert found.asymptote == pytest.approx(0.267, abs=0.01)


def test_no_size_overflows() -> None:
    curve = Fit(3.0, 8.0, 0.2, 0.95)
    assert curve.accuracy(1e-300) == pytest.approx(0.2)
    assert curve.accuracy(1e300) == pytest.approx(0.95)
