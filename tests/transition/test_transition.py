from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.transition.comparison import synergy
from orchestrator.transition.transition import transition
from orchestrator.transition.types import Estimate, Point, Transition, Verdict

SIZES = (8, 12, 16, 24, 32, 48, 64, 96, 128)


def runs(accuracies: dict[int, float], seeds: int = 3, floor: float = 0.2) -> list[Point]:
    return [Point(size, seed, accuracy, floor) for size, accuracy in accuracies.items() for seed in range(seeds)]


def step(at: int, low: float = 0.2, high: float = 0.97) -> list[Point]:
    return runs({size: high if size >= at else low for size in SIZES})


def parameters(size: float) -> float:
    return 12 * size**2 + 40 * size


def found(value: float, low: float | None, high: float | None) -> Transition:
    wide = Estimate(value, value * 0.9, value * 1.1)
    return Transition(Verdict.FOUND, Estimate(value, low, high), wide, (), 0.9)


def above(size: float) -> Transition:
    censored = Estimate(None, size, None)
    return Transition(Verdict.ABOVE, censored, censored, (), 0.9)


def below(size: float) -> Transition:
    censored = Estimate(None, None, size)
    return Transition(Verdict.BELOW, censored, censored, (), 0.9)


def test_a_step_is_found_and_bracketed() -> None:
    result = transition(step(32), SIZES)
    assert result.verdict is Verdict.FOUND
    estimate = result.relative
    assert estimate.value is not None
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low <= 24 < 32 <= estimate.high
    assert estimate.low < estimate.value < estimate.high
    assert result.density is not None
    assert sum(result.density.weights) + result.density.above == pytest.approx(1)


@settings(max_examples=25)
@given(
    accuracies=st.lists(st.sampled_from([0.05, 0.2, 0.45, 0.8, 0.93, 1.0]), min_size=5, max_size=12),
    sizes=st.lists(st.sampled_from(SIZES), min_size=12, max_size=12),
)
def test_intervals_hold_the_sizes_that_bracket_the_estimate(accuracies: list[float], sizes: list[int]) -> None:
    points = [Point(size, seed, a, 0.2) for seed, (size, a) in enumerate(zip(sizes, accuracies, strict=False))]
    result = transition(points, SIZES)
    by_size = {size: [p.accuracy for p in points if p.size == size] for size in {p.size for p in points}}
    value, low, high = result.absolute.value, result.absolute.low, result.absolute.high
    if value is None:
        return
    under = [size for size, found in by_size.items() if np.mean(found) < 0.8 and size <= value]
    over = [size for size, found in by_size.items() if np.mean(found) >= 0.8 and size >= value]
    if low is not None and under:
        assert low <= max(under)
    if high is not None and over:
        assert high >= min(over)


@settings(max_examples=10)
@given(st.permutations(range(27)))
def test_order_of_points_changes_nothing(order: list[int]) -> None:
    points = step(32)
    points[4] = Point(points[4].size, points[4].seed, 0.6, 0.2)
    expected = transition(points, SIZES)
    assert transition([points[index] for index in order], SIZES) == expected


def test_nothing_learned_is_censored_above() -> None:
    result = transition(runs({64: 0.2, 96: 0.21, 128: 0.19}), SIZES)
    assert result.verdict is Verdict.ABOVE
    assert result.relative == Estimate(None, 128.0, None)
    assert result.p_above > 0.95


def test_everything_learned_is_censored_below() -> None:
    result = transition(runs({8: 0.97, 12: 0.97, 128: 0.98}), SIZES)
    assert result.verdict is Verdict.BELOW
    assert result.p_below > 0.8
    assert (result.relative.value, result.relative.low) == (None, None)
    assert result.relative.high is not None
    assert 8.0 <= result.relative.high < 10


def test_a_lapsed_run_hides_no_transition() -> None:
    points = step(32)
    points[-1] = Point(128, 2, 0.2, 0.2)
    assert transition(points, SIZES).verdict is Verdict.FOUND


@pytest.mark.parametrize("floor", [0.62, 0.77, 0.95])
def test_a_floor_near_the_level_leaves_nothing_to_tell(floor: float) -> None:
    """PROD modulo 6: the best constant answer is right 62 to 77 % of the time."""
    points = runs({size: 0.98 if size >= 32 else floor for size in SIZES}, floor=floor)
    result = transition(points, SIZES)
    assert result.verdict is Verdict.NEAR_FLOOR
    assert result.relative == result.absolute == Estimate(None, None, None)
    assert result.floor == pytest.approx(floor)
    assert result.level is not None
    assert result.level - 0.2 < floor
    assert result.density is None
    assert transition(runs({64: floor, 128: floor}, floor=floor), SIZES).verdict is Verdict.NEAR_FLOOR


def test_a_high_floor_is_known_to_the_posterior() -> None:
    points = runs({size: 0.98 if size >= 32 else 0.54 for size in SIZES}, floor=0.54)
    result = transition(points, SIZES)
    assert result.verdict is Verdict.FOUND
    assert result.relative.value is not None
    assert 20 < result.relative.value < 36
    assert transition(runs({64: 0.54, 128: 0.54}, floor=0.54), SIZES).verdict is Verdict.ABOVE


def test_too_little_to_say() -> None:
    assert transition([], SIZES).verdict is Verdict.UNDECIDED
    assert transition([Point(64, 0, 0.2, 0.2)], SIZES).verdict is Verdict.UNDECIDED
    alone = transition([Point(128, 0, 0.97, 0.2)], SIZES)
    assert alone.verdict is Verdict.UNDECIDED
    assert alone.relative.value is None


def test_learning_earlier_never_raises_the_estimate() -> None:
    values: list[float] = []
    for at in (24, 32, 48, 64):
        value = transition(step(at), SIZES).relative.value
        assert value is not None
        values.append(value)
    assert values == sorted(values)
    assert len(set(values)) == len(values)


def test_synergy_of_two_found() -> None:
    result = synergy(found(40, 36, 44), found(20, 18, 22), parameters)
    assert result.value == pytest.approx(parameters(40) / parameters(20))
    assert result.low is not None
    assert result.high is not None
    assert result.value is not None
    assert 1 < result.low < result.value < result.high
    # No wider than comparing the bounds themselves, no narrower than either interval alone.
    assert parameters(36) / parameters(22) <= result.low <= parameters(40) / parameters(22)
    assert parameters(44) / parameters(20) <= result.high <= parameters(44) / parameters(18)


def test_synergy_inverts_with_its_sides() -> None:
    one, other = found(40, 35, 47), found(20, 18, 26)
    there, back = synergy(one, other, parameters), synergy(other, one, parameters)
    assert there.value is not None
    assert back.value == pytest.approx(1 / there.value)
    assert there.low is not None
    assert back.high == pytest.approx(1 / there.low)


def test_synergy_with_the_baseline_off_the_scale_is_one_sided() -> None:
    result = synergy(above(96), found(20, 18, 24), parameters)
    assert result.value is None
    assert result.low == pytest.approx(parameters(96) / parameters(24))
    assert result.high is None


@pytest.mark.parametrize("side", [above, below])
def test_synergy_of_two_censored_alike_says_nothing(side: object) -> None:
    assert callable(side)
    result = synergy(side(64), side(64), parameters)
    assert (result.value, result.low, result.high) == (None, None, None)


REAL = {  # Accuracies of ADD in ADD+PROD modulo 6 by n_embed: five seeds each, 65 test expressions.
    6: (0.29, 0.14, 0.11, 0.28, 0.14),
    8: (0.86, 0.75, 0.18, 0.23, 0.43),
    10: (0.88, 0.46, 0.97, 0.32, 0.34),
    12: (0.92, 1.00, 0.97, 1.00, 0.98),
    64: (1.00, 1.00, 0.92, 1.00, 1.00),
}


def test_real_runs_that_got_part_of_the_way() -> None:
    points = [Point(size, seed, seen, 0.23) for size, found in REAL.items() for seed, seen in enumerate(found)]
    estimate = transition(points, sorted({*REAL, 4, 5, 7, 14, 16, 20, 24, 32, 48})).relative
    # Half of the runs at 8 and 10 learned, all at 12: 80 % of the asymptote is passed between 10 and 12.
    assert estimate.value is not None
    assert 9.5 < estimate.value < 12
    assert estimate.low is not None
    assert estimate.high is not None
    assert math.log(estimate.high / estimate.low) < 0.45


MANY = {  # How many of 65 expressions of ADD runs of ADD+PROD modulo 6 got right, by n_embed: several sweeps together.
    7: "12 12 14 14 17 18 19 20 20 21 23 24 26 27 27 29 29 31 32 32 35 44",
    8: "13 13 17 28 29 31 31 39 40 41 43 49 53 56 64",
    9: "9 15 23 23 24 28 28 28 32 33 50 52 52 53 53 53 53 61 62 62 62 62 63 63 63 64 65",
    10: "15 18 21 21 30 30 37 46 53 56 56 56 56 56 57 57 57 57 57 59 59 60 62 63 63 63 63",
    11: "18 40 41 41 41 53 53 53 60 60 61 63 64 64 64 64 65 65",
    12: "47 60 60 60 60 60 61 63 63 63 63 64 64 64 64 65 65 65 65 65 65 65 65",
    64: "62 62 65 65 65 65 65 65 65 65 65 65 65 65 65 65 65 65 65 65",
}


def test_many_real_runs_cross_where_their_means_do() -> None:
    accuracies = {size: [int(right) / 65 for right in seen.split()] for size, seen in MANY.items()}
    points = [Point(size, seed, seen, 0.23) for size, found in accuracies.items() for seed, seen in enumerate(found)]
    means = {size: float(np.mean(found)) for size, found in accuracies.items()}
    level = 0.8 * means[64]
    assert means[9] < level < means[11]
    estimate = transition(points, sorted({*MANY, 4, 5, 6, 13, 14, 16, 20, 24, 32, 48})).relative
    # Most runs end somewhere between floor and asymptote: read as learned or not they would cross before 9.
    assert estimate.value is not None
    assert 9.5 < estimate.value < 11
    assert estimate.low is not None
    assert estimate.high is not None
    assert 9 <= estimate.low < estimate.high <= 12


def test_a_run_part_of_the_way_did_not_learn() -> None:
    def found_with(accuracy: float) -> float:
        rest = runs({16: 0.2, 32: 0.97, 48: 0.97, 64: 0.97})
        half = [Point(24, seed, 0.97, 0.2) for seed in (0, 1)]
        value = transition([*rest, *half, *(Point(24, seed, accuracy, 0.2) for seed in (2, 3))], SIZES).relative.value
        assert value is not None
        return math.log(value)

    failed, part_of_the_way, learned = found_with(0.2), found_with(0.35), found_with(0.97)
    assert abs(part_of_the_way - failed) < abs(part_of_the_way - learned) / 2


def test_synergy_keeps_a_censored_side_of_a_found_transition() -> None:
    result = synergy(found(40, 36, None), found(20, 18, 22), parameters)
    assert result.value is not None
    assert result.low is not None
    assert result.high is None


def test_where_one_side_is_censored_the_bounds_are_compared() -> None:
    small, never = transition(step(24), SIZES), transition(runs({96: 0.2, 128: 0.2}), SIZES)
    censored = synergy(never, small, parameters)
    assert censored.value is None
    assert censored.low is not None
    assert censored.low > 1
    assert math.isfinite(censored.low)
