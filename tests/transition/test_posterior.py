"""The mean curve and its band."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from orchestrator.transition.estimate import posterior_curve, transition
from orchestrator.transition.types import Point, Verdict

TABLE = Path(__file__).parents[1] / "data" / "add_vs_add_prod_laptop_runs.csv"


def test_curve_and_transition_agree_on_recorded_runs() -> None:
    with TABLE.open(newline="", encoding="utf-8") as file:
        points = [
            Point(int(line["size"]), int(line["seed"]), float(line["accuracy"]), float(line["floor"]))
            for line in csv.DictReader(file)
            if line["mix"] == "add+prod" and line["accuracy"]
        ]
    rng, placed, sizes = np.random.default_rng(0), 0, sorted({point.size for point in points})
    for _ in range(6):
        drawn = [points[place] for place in rng.choice(len(points), 14, replace=False)]
        result = transition(drawn, sizes)
        value = result.relative.value
        if result.verdict is not Verdict.FOUND or value is None:
            continue
        placed += 1
        curve = posterior_curve(drawn, sizes, sorted({*np.geomspace(sizes[0], sizes[-1], 12).tolist(), value}))
        assert np.interp(value, curve.sizes, curve.middle) == pytest.approx(result.level, abs=0.03)
        assert np.all(np.diff(curve.middle) >= 0)
        assert np.all(np.asarray(curve.low) <= curve.middle)
        assert np.all(np.asarray(curve.high) >= curve.middle)
    assert placed >= 3
