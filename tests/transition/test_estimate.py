"""Verdicts and estimates of transitions, and their ratios."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.transition.estimate import curve_parameters, posterior_curve, synergy, transition
from orchestrator.transition.types import Estimate, Point, Transition, Verdict

SIZES = (8, 12, 16, 24, 32, 48, 64, 96, 128)


def runs(accuracies: dict[int, float], seeds: int = 3, floor: float = 0.2) -> list[Point]:
    return [Point(size, seed, accuracy, floor) for size, accuracy in accuracies.items() for seed in range(seeds)]


def step(at: int, low: float = 0.2, high: float = 0.97, floor: float = 0.2) -> list[Point]:
    return runs({size: high if size >= at else low for size in SIZES}, floor=floor)


def limits(estimate: Estimate) -> tuple[float, float, float]:
    """Return low end, value and high end of an estimate that has all three."""
    assert estimate.low is not None
    assert estimate.value is not None
    assert estimate.high is not None
    return estimate.low, estimate.value, estimate.high


def test_a_step_is_found_and_bracketed() -> None:
    result = transition(step(32), SIZES)
    assert result.verdict is Verdict.FOUND
    low, value, high = limits(result.relative)
    assert low <= 24 < 32 <= high
    assert low < value < high
    assert result.density is not None
    assert sum(result.density.weights) + result.density.above == pytest.approx(1)


@settings(max_examples=25)
@given(
    accuracies=st.lists(st.sampled_from([0.05, 0.2, 0.45, 0.8, 0.93, 1.0]), min_size=5, max_size=12),
    sizes=st.lists(st.sampled_from(SIZES), min_size=12, max_size=12),
    random=st.randoms(),
)
def test_intervals_contain_the_sizes_that_bracket_the_estimate(
    accuracies: list[float], sizes: list[int], random: object
) -> None:
    pairs = zip(sizes, accuracies, strict=False)
    points = [Point(size, seed, accuracy, 0.2) for seed, (size, accuracy) in enumerate(pairs)]
    result = transition(points, SIZES)
    random.shuffle(points)  # type: ignore[attr-defined]
    assert transition(points, SIZES) == result
    by_size = {size: [point.accuracy for point in points if point.size == size] for size in sizes[: len(points)]}
    value, low, high = result.absolute.value, result.absolute.low, result.absolute.high
    if value is None:
        return
    under = [size for size, values in by_size.items() if np.mean(values) < 0.8 and size <= value]
    over = [size for size, values in by_size.items() if np.mean(values) >= 0.8 and size >= value]
    if low is not None and under:
        assert low <= max(under)
    if high is not None and over:
        assert high >= min(over)


def test_a_transition_above_all_sizes_is_censored() -> None:
    result = transition(runs({64: 0.2, 96: 0.21, 128: 0.19}), SIZES)
    assert (result.verdict, result.relative) == (Verdict.ABOVE, Estimate(None, 128.0, None))
    assert result.p_above > 0.95


def test_a_transition_below_all_sizes_is_censored() -> None:
    result = transition(runs({8: 0.97, 12: 0.97, 128: 0.98}), SIZES)
    assert (result.verdict, result.relative.value, result.relative.low) == (Verdict.BELOW, None, None)
    assert result.relative.high is not None
    assert 8.0 <= result.relative.high < 10
    assert result.p_below > 0.8


def test_a_lapsed_run_does_not_hide_a_transition() -> None:
    points = step(32)
    points[-1] = Point(128, 2, 0.2, 0.2)
    assert transition(points, SIZES).verdict is Verdict.FOUND


def test_a_curve_that_levels_off_has_the_transition_of_what_it_reaches() -> None:
    """Below .9 no curve of the first grid fits, and the estimate was far too large."""
    result = transition(step(32, high=0.75), SIZES)
    assert result.verdict is Verdict.LEVELS_OFF
    assert result.asymptote == pytest.approx(0.75, abs=0.03)
    assert result.p_levels_off > 0.99
    low, value, high = limits(result.relative)
    assert 20 < low <= 24 < value < 32 <= high < 40
    assert result.absolute.value is None, "it never reaches an accuracy of .8"
    assert result.density is not None
    assert sum(result.density.weights) + result.density.above == pytest.approx(1)
    curve = posterior_curve(result.points, SIZES, (value, 128))
    assert curve.middle == pytest.approx((result.level, result.asymptote), abs=0.05)


def test_many_runs_that_exclude_every_rising_curve_are_no_reason_to_give_up() -> None:
    """The weights of rising curves then underflow to zero."""
    points = [Point(point.size, seed, point.accuracy, 0.2) for point in step(32, high=0.7) for seed in range(12)]
    result = transition(points, SIZES)
    assert (result.verdict, result.p_levels_off) == (Verdict.LEVELS_OFF, 1.0)
    assert 24 < limits(result.relative)[1] < 32


def test_a_curve_levels_off_if_a_share_of_the_runs_never_learns() -> None:
    points = [Point(size, seed, 0.2 if size < 24 or seed == 0 else 0.97, 0.2) for size in SIZES for seed in range(4)]
    result = transition(points, SIZES)
    assert result.verdict is Verdict.LEVELS_OFF
    assert result.asymptote == pytest.approx(0.2 / 4 + 0.97 * 3 / 4, abs=0.05)
    low, _, high = limits(result.relative)
    assert 12 < low <= 16 < 24 <= high < 36


def test_a_plateau_from_the_smallest_size_on_has_only_an_upper_bound() -> None:
    result = transition(runs({8: 0.7, 12: 0.71, 128: 0.7}), SIZES)
    assert (result.verdict, result.relative.value, result.relative.low) == (Verdict.LEVELS_OFF, None, None)
    assert result.relative.high is not None
    assert 8 <= result.relative.high < 12


@pytest.mark.parametrize(
    "points",
    [
        *(step(32), step(32, high=0.93), step(8, high=0.95), step(32, 0.54, 0.98, 0.54)),
        step(128),  # No size is above the interval.
        runs({24: 0.12, 48: 0.12, 64: 0.97}, seeds=1),  # The median is above all sizes.
    ],
)
def test_curves_that_reach_a_high_level_do_not_level_off(points: list[Point]) -> None:
    """The second grid then has no weight, so estimates are those of the first alone."""
    assert transition(points, SIZES).p_levels_off == 0


@pytest.mark.parametrize("floor", [0.62, 0.95])
def test_a_floor_near_the_level_gives_no_estimate(floor: float) -> None:
    """PROD modulo 6: the best constant answer is right 62 to 77% of the time."""
    result = transition(step(32, floor, 0.98, floor), SIZES)
    assert result.verdict is Verdict.NEAR_FLOOR
    assert result.relative == result.absolute == Estimate(None, None, None)
    assert result.floor == pytest.approx(floor)
    assert result.level is not None
    assert result.level - 0.2 < floor
    assert result.density is None
    assert transition(runs({64: floor, 128: floor}, floor=floor), SIZES).verdict is Verdict.NEAR_FLOOR


def test_a_high_floor_farther_from_the_level_gives_an_estimate() -> None:
    result = transition(step(32, 0.54, 0.98, 0.54), SIZES)
    assert result.verdict is Verdict.FOUND
    assert 20 < limits(result.relative)[1] < 36
    assert transition(runs({64: 0.54, 128: 0.54}, floor=0.54), SIZES).verdict is Verdict.ABOVE


@pytest.mark.parametrize("points", [[], [Point(64, 0, 0.2, 0.2)], [Point(128, 0, 0.97, 0.2)]])
def test_one_run_decides_nothing(points: list[Point]) -> None:
    result = transition(points, SIZES)
    assert result.verdict is Verdict.UNDECIDED
    assert result.relative.value is None


MANY = {  # Correct answers to 65 expressions of ADD in runs of ADD+PROD modulo 6, by n_embed, from several sweeps.
    7: "12 12 14 14 17 18 19 20 20 21 23 24 26 27 27 29 29 31 32 32 35 44",
    8: "13 13 17 28 29 31 31 39 40 41 43 49 53 56 64",
    9: "9 15 23 23 24 28 28 28 32 33 50 52 52 53 53 53 53 61 62 62 62 62 63 63 63 64 65",
    10: "15 18 21 21 30 30 37 46 53 56 56 56 56 56 57 57 57 57 57 59 59 60 62 63 63 63 63",
    11: "18 40 41 41 41 53 53 53 60 60 61 63 64 64 64 64 65 65",
    12: "47 60 60 60 60 60 61 63 63 63 63 64 64 64 64 65 65 65 65 65 65 65 65",
    64: "62 62 65 65 65 65 65 65 65 65 65 65 65 65 65 65 65 65 65 65",
}


def test_many_real_runs_have_the_transition_of_their_means() -> None:
    accuracies = {size: [int(right) / 65 for right in cell.split()] for size, cell in MANY.items()}
    points = [
        Point(size, seed, accuracy, 0.23) for size, cell in accuracies.items() for seed, accuracy in enumerate(cell)
    ]
    level = 0.8 * float(np.mean(accuracies[64]))
    assert np.mean(accuracies[9]) < level < np.mean(accuracies[11])
    low, value, high = limits(transition(points, sorted({*MANY, 4, 5, 6, 13, 14, 16, 20, 24, 32, 48})).relative)
    # Most runs end between floor and asymptote. Classifying them as learned or not would give a transition below 9.
    assert 9.5 < value < 11
    assert 9 <= low < high <= 12


def test_a_run_that_learned_in_part_counts_more_like_a_failure() -> None:
    def value_with(accuracy: float) -> float:
        rest = runs({16: 0.2, 32: 0.97, 48: 0.97, 64: 0.97})
        cell = [Point(24, seed, value, 0.2) for seed, value in enumerate((0.97, 0.97, accuracy, accuracy))]
        return math.log(limits(transition([*rest, *cell], SIZES).relative)[1])

    failed, part_of_the_way, learned = value_with(0.2), value_with(0.35), value_with(0.97)
    assert abs(part_of_the_way - failed) < abs(part_of_the_way - learned) / 2


def parameters(size: float) -> float:
    return 12 * size**2 + 40 * size


def at(value: float | None, low: float | None, high: float | None) -> Transition:
    estimate = Estimate(value, low, high)
    return Transition(Verdict.FOUND, estimate, estimate, ())


def test_synergy_is_the_ratio_of_parameters() -> None:
    baseline, mix = at(40, 36, 44), at(20, 18, 22)
    low, value, high = limits(synergy(baseline, mix, parameters))
    assert value == pytest.approx(parameters(40) / parameters(20))
    assert 1 < low < value < high
    # Not wider than the ratio of the bounds and not narrower than either interval alone.
    assert parameters(36) / parameters(22) <= low <= parameters(40) / parameters(22)
    assert parameters(44) / parameters(20) <= high <= parameters(44) / parameters(18)
    inverse = limits(synergy(mix, baseline, parameters))
    assert inverse == pytest.approx((1 / high, 1 / value, 1 / low))


@pytest.mark.parametrize(
    ("baseline", "mix", "low"),
    [
        (at(None, 96, None), at(20, 18, 24), parameters(96) / parameters(24)),
        (at(None, 64, None), at(None, 64, None), None),
        (at(None, None, 64), at(None, None, 64), None),
    ],
)
def test_synergy_of_a_censored_side_compares_bounds(baseline: Transition, mix: Transition, low: float | None) -> None:
    result = synergy(baseline, mix, parameters)
    assert (result.value, result.high) == (None, None)
    assert result.low == (None if low is None else pytest.approx(low))


def test_synergy_keeps_a_censored_side_of_a_found_transition() -> None:
    result = synergy(at(40, 36, None), at(20, 18, 22), parameters)
    assert result.value is not None
    assert result.low is not None
    assert result.high is None


@pytest.mark.parametrize(
    ("midpoint", "slope", "floor", "top"), [(30.0, 6.0, 0.2, 0.96), (50.0, 12.0, 0.05, 0.9), (20.0, 4.0, 0.3, 0.7)]
)
def test_parameters_of_the_curve_are_recovered_from_graded_runs(
    midpoint: float, slope: float, floor: float, top: float
) -> None:
    """The last curve levels off, so it is on the coarser grid."""
    noise = np.random.default_rng(7).normal(0, 0.02, (len(SIZES), 6))
    points = [
        Point(size, seed, min(max(floor + (top - floor) * rise + float(noise[place, seed]), 0.0), 1.0), floor)
        for place, size in enumerate(SIZES)
        for rise in [1 / (1 + (midpoint / size) ** slope)]
        for seed in range(6)
    ]
    parameters = curve_parameters(points, SIZES)
    for estimate, truth in (
        (parameters.midpoint, midpoint),
        (parameters.slope, slope),
        (parameters.floor, floor),
        (parameters.asymptote, top),
    ):
        low, value, high = limits(estimate)
        assert low <= value <= high
        assert low * 0.95 <= truth <= high * 1.05
    assert limits(parameters.midpoint)[1] == pytest.approx(midpoint, rel=0.1)
    assert limits(parameters.asymptote)[1] == pytest.approx(top, abs=0.04)
    assert curve_parameters(points[::-1], SIZES) == parameters


def test_few_runs_leave_the_slope_open() -> None:
    few, many = (curve_parameters(runs({8: 0.2, 24: 0.2, 32: 0.97, 128: 0.97}, seeds=seeds), SIZES) for seeds in (1, 8))
    widths = [high / low for low, _, high in (limits(few.midpoint), limits(many.midpoint))]
    assert widths[0] > widths[1] > 1
    assert limits(few.slope)[2] / limits(few.slope)[0] > 3
