"""The posterior: narrowing run by run, other thresholds, the curve with its band, resampled seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orchestrator.transition.curves import curves_for
from orchestrator.transition.kinds import Crossing
from orchestrator.transition.posterior import (
    posterior_curve,
    posterior_of,
    resampled,
)
from orchestrator.transition.transition import transition
from orchestrator.transition.types import Point, Verdict
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


def test_a_crossing_is_not_taken_for_one_that_was_forgotten(points: list[Point]) -> None:
    curves = curves_for(sizes_of(points), points[0].floor)
    asked_again = posterior_of(points, curves)
    for level in np.linspace(0.4, 0.95, 12):
        # Made and forgotten in one line, so that the next one may well lie at the same address.
        found = asked_again.quantiles(Crossing(curves.crossing(None, share=level)), [0.5])
        assert found == posterior_of(points, curves).quantiles(Crossing(curves.crossing(None, share=level)), [0.5])


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
