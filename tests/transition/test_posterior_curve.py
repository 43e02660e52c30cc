"""The curve a transition is read from: it passes 80 % of its asymptote where the transition is said to lie."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from orchestrator.simulation.recorded import read_table
from orchestrator.transition.posterior import posterior_curve
from orchestrator.transition.transition import transition
from orchestrator.transition.types import Point, Verdict

TABLE = Path(__file__).parents[1] / "data" / "add_vs_add_prod_laptop_runs.csv"


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
