"""The posterior, and the curve with its band."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orchestrator.transition.curves import curves_for
from orchestrator.transition.posterior import (
    posterior_curve,
    posterior_of,
)
from orchestrator.transition.scatter import Crossing
from orchestrator.transition.transition import transition
from orchestrator.transition.types import Point, Verdict
from tests.bench.pool import read_table

TABLE = Path(__file__).parents[1] / "data" / "add_vs_add_prod_laptop_runs.csv"


@pytest.fixture(scope="module", name="points")
def recorded_points() -> list[Point]:
    ended = read_table(TABLE).items()
    return [Point(run.size, run.seed, seen.accuracy, seen.floor) for run, seen in ended if run.mix == "add+prod"]


def sizes_of(points: list[Point]) -> list[int]:
    return sorted({point.size for point in points})


def test_a_crossing_is_not_taken_for_one_that_was_forgotten(points: list[Point]) -> None:
    curves = curves_for(sizes_of(points), points[0].floor)
    asked_again = posterior_of(points, curves)
    for level in np.linspace(0.4, 0.95, 12):
        # Made and forgotten in one line, so that the next one may well lie at the same address.
        found = asked_again.quantiles(Crossing(curves.crossing(None, share=level)), [0.5])
        assert found == posterior_of(points, curves).quantiles(Crossing(curves.crossing(None, share=level)), [0.5])


def test_on_recorded_runs_curve_and_transition_agree(points: list[Point]) -> None:
    rng, found, sizes = np.random.default_rng(0), 0, sizes_of(points)
    for _ in range(6):
        drawn = [points[place] for place in rng.choice(len(points), 14, replace=False)]
        told = transition(drawn, sizes)
        value = told.relative.value
        if told.verdict is not Verdict.FOUND or value is None:
            continue
        found += 1
        at = sorted({*np.geomspace(sizes[0], sizes[-1], 12).tolist(), value})
        curve = posterior_curve(drawn, sizes, at)
        assert np.interp(value, curve.sizes, curve.middle) == pytest.approx(told.level, abs=0.03)
        assert np.all(np.diff(curve.middle) >= 0)
        assert np.all(np.asarray(curve.low) <= curve.middle)
        assert np.all(np.asarray(curve.high) >= curve.middle)
    assert found >= 3
