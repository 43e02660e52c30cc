"""The posterior: narrowing run by run, other thresholds, the curve with its band, resampled seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orchestrator.transition.curves import curves_for
from orchestrator.transition.kinds import Crossing
from orchestrator.transition.posterior import (
    Threshold,
    narrowed,
    posterior_curve,
    posterior_of,
    resampled,
    steps_shown,
    under,
)
from orchestrator.transition.transition import transition
from orchestrator.transition.types import LEVEL, Point, Verdict
from tests.simulation.recorded import read_table

TABLE = Path(__file__).parents[1] / "data" / "add_vs_add_prod_laptop_runs.csv"
LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9)


@pytest.fixture(scope="module", name="points")
def recorded_points() -> list[Point]:
    ended = read_table(TABLE).items()
    return [
        Point(run.size, run.seed, seen.accuracy, seen.floor) for run, seen in ended if run.mix == "add+prod" and seen
    ]


def sizes_of(points: list[Point]) -> list[int]:
    return sorted({point.size for point in points})


def test_a_threshold_says_the_same_alone_and_among_others(points: list[Point]) -> None:
    sizes = sizes_of(points)
    thresholds = [Threshold(level, absolute) for absolute in (False, True) for level in LEVELS]
    together = under(points, sizes, thresholds)
    assert together == tuple(under(points, sizes, [each])[0] for each in thresholds)
    assert together == under(points, sizes, thresholds)


def test_a_crossing_is_not_taken_for_one_that_was_forgotten(points: list[Point]) -> None:
    curves = curves_for(sizes_of(points), points[0].floor)
    asked_again = posterior_of(points, curves)
    for level in np.linspace(0.4, 0.95, 12):
        # Made and forgotten in one line, so that the next one may well lie at the same address.
        found = asked_again.quantiles(Crossing(curves.crossing(None, share=level)), [0.5])
        assert found == posterior_of(points, curves).quantiles(Crossing(curves.crossing(None, share=level)), [0.5])


@pytest.mark.parametrize("absolute", [False, True])
def test_a_higher_threshold_lies_at_a_larger_size(points: list[Point], absolute: bool) -> None:
    found = under(points, sizes_of(points), [Threshold(level, absolute) for level in LEVELS])
    places = [each.value for each in found]
    known = [place for place in places if place is not None]
    assert len(known) >= 3
    assert known == sorted(known)
    assert len(set(known)) == len(known)


def test_the_answers_own_threshold_is_its_transition(points: list[Point]) -> None:
    sizes = sizes_of(points)
    (found,) = under(points, sizes, [Threshold(LEVEL, absolute=False)])
    assert found.value == pytest.approx(transition(points, sizes).relative.value, rel=0.02)


def test_narrowing_ends_where_all_runs_together_lead(points: list[Point]) -> None:
    sizes = sizes_of(points)
    steps = narrowed(points, sizes)
    assert [step.point for step in steps] == points
    assert steps[-1].estimate == under(points, sizes, [Threshold(LEVEL, absolute=False)])[0]
    assert all(0 <= step.above_before <= 1 for step in steps)


def test_a_look_after_some_of_the_runs_finds_what_looks_after_all_of_them_find(points: list[Point]) -> None:
    sizes = sizes_of(points)
    all_of_them, places = narrowed(points, sizes), steps_shown(len(points), 5)
    assert len(places) <= 6
    assert places[-1] == len(points) - 1
    assert narrowed(points, sizes, places=places) == tuple(all_of_them[place] for place in places)


def test_nothing_seen_says_nothing() -> None:
    assert narrowed([], [8, 16]) == ()
    (found,) = under([], [8, 16], [Threshold(LEVEL, absolute=False)])
    assert (found.value, found.low, found.high) == (None, None, None)


def test_on_recorded_runs_curve_and_transition_agree() -> None:
    table = {request: seen for request, seen in read_table(TABLE).items() if request.mix == "add+prod"}
    rng, found = np.random.default_rng(0), 0
    sizes = sorted({request.size for request in table})
    for _ in range(6):
        drawn = [list(table)[place] for place in rng.choice(len(table), 14, replace=False)]
        points = [Point(each.size, each.seed, seen.accuracy, seen.floor) for each in drawn if (seen := table[each])]
        told = transition(points, sizes)
        value = told.relative.value
        if told.verdict is not Verdict.FOUND or value is None:
            continue
        found += 1
        at = sorted({*np.geomspace(sizes[0], sizes[-1], 12).tolist(), value})
        curve = posterior_curve(points, sizes, at)
        assert curve.at(value) == pytest.approx(curve.level, abs=0.03)
        assert np.all(np.diff(curve.middle) >= 0)
        assert np.all(np.asarray(curve.low) <= curve.middle)
        assert np.all(np.asarray(curve.high) >= curve.middle)
    assert found >= 3


def test_nothing_seen_makes_no_curve() -> None:
    with pytest.raises(ValueError, match="at least one run"):
        posterior_curve([], [8, 16], [8.0])


SIZES = (8, 12, 16, 24, 32, 48)


def runs(learns: int, *, by_chance: bool) -> list[Point]:
    """Three seeds a size, learned from ``learns`` on; ``by_chance``, one of three fails there."""
    return [
        Point(size, seed, 0.98 if size > learns or (size == learns and not (by_chance and seed == 0)) else 0.2, 0.2)
        for size in SIZES
        for seed in range(3)
    ]


def test_unanimous_seeds_leave_nothing_to_resample() -> None:
    points = runs(24, by_chance=False)
    medians = resampled(points, SIZES, 20, np.random.default_rng(0))
    assert len(set(medians)) == 1
    assert medians[0] == transition(points, SIZES).relative.value


def test_a_size_learned_by_some_seeds_spreads_the_medians() -> None:
    medians = resampled(runs(24, by_chance=True), SIZES, 50, np.random.default_rng(0))
    assert 16 < medians.min() < medians.max() < 32


def test_a_task_never_learned_lies_beyond_the_sizes() -> None:
    points = [Point(size, seed, 0.2, 0.2) for size in SIZES for seed in range(5)]
    assert (resampled(points, SIZES, 3, np.random.default_rng(0)) > SIZES[-1]).all()
