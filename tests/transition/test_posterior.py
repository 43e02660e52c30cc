"""The mean curve and its band."""

from __future__ import annotations

import csv
from dataclasses import replace
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


def test_a_settled_run_says_only_whether_it_learned() -> None:
    """Its accuracy at the early end does not matter, and its estimate is close to that from full runs."""
    sizes = (8, 12, 16, 24, 32, 48)
    full = [Point(size, seed, 0.97 if size >= 20 else 0.12, 0.1) for size in sizes for seed in range(3)]
    settled = [replace(point, accuracy=0.5, settled=point.size >= 20) for point in full]
    changed = [replace(point, accuracy=0.9) for point in settled]
    estimates = [transition(points, sizes).relative for points in (full, settled, changed)]
    assert estimates[1] == estimates[2]
    assert estimates[0].value is not None
    assert estimates[1].value == pytest.approx(estimates[0].value, rel=0.1)
    assert transition(settled, sizes).verdict is Verdict.FOUND
