"""Seeds that learned, and the size at which half of all seeds do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit

from orchestrator.transition.curves import LAPSES, SLOPES, curves_for
from orchestrator.transition.scatter import ASYMPTOTES
from orchestrator.transition.shares import half_crossing, is_bimodal, size_shares
from orchestrator.transition.transition import transition
from orchestrator.transition.types import LEVEL, Point

SIZES = (8, 10, 12, 14, 16, 20, 24, 32, 48, 64, 96)


def points(accuracies: dict[int, list[float]]) -> list[Point]:
    return [Point(size, seed, each, 0.2) for size, found in accuracies.items() for seed, each in enumerate(found)]


def test_seeds_are_counted_size_by_size() -> None:
    none, some, all_of_them = size_shares(points({8: [0.2, 0.3], 10: [0.2, 0.77, 0.4, 0.3], 14: [0.9] * 5}), 0.76)
    assert [(each.size, each.learned, each.tried) for each in (none, some, all_of_them)] == [
        (8, 0, 2),
        (10, 1, 4),
        (14, 5, 5),
    ]


@pytest.mark.parametrize("lapse", range(len(LAPSES)))
def test_half_of_the_runs_drawn_from_a_curve_learn_where_it_says(lapse: int) -> None:
    curves = curves_for(SIZES, 0.2)
    crossing = half_crossing(curves)
    cell = (slice(None), 50, 4, lapse, 3, 2)
    places = crossing.start + (crossing.bin.reshape(curves.shape)[cell] + 0.5) * crossing.width
    rng = np.random.default_rng(0)
    floor, top = curves.floors[3], ASYMPTOTES[2]
    for kind, place in enumerate(places):
        share = expit(SLOPES[4] * (place - curves.midpoints[50]))
        lapsed = rng.random(20_000) < LAPSES[lapse]
        if kind == 0:
            way = (rng.random(20_000) < share).astype(float)
        elif kind == 1:
            way = rng.beta(2 * share, 2 * (1 - share), 20_000)
        else:
            way = share + 0.05 * rng.normal(size=20_000)
        learned = floor + np.where(lapsed, 0.0, way) * (top - floor) >= LEVEL * top
        # A graded curve is so steep in its own scatter that lapses move its half by nothing to speak of.
        assert learned.mean() == pytest.approx(0.5 if kind < 2 else 0.5 * (1 - LAPSES[lapse]), abs=0.02)


def test_half_of_all_seeds_learn_before_most_do() -> None:
    rng = np.random.default_rng(1)
    chance = {size: expit(5 * (math.log(size) - math.log(20))) for size in SIZES}
    seen = {size: [0.97 if rng.random() < chance[size] else 0.2 for _ in range(12)] for size in SIZES}
    result = transition(points(seen), SIZES)
    assert result.bimodal
    assert result.half.value is not None
    assert result.half.low is not None
    assert result.half.high is not None
    assert result.relative.value is not None
    assert result.half.low < 20 < result.half.high
    assert result.half.value < result.relative.value


def test_half_of_all_seeds_is_open_where_the_transition_is() -> None:
    nothing = transition(points({64: [0.2, 0.2], 96: [0.2, 0.2, 0.2]}), SIZES)
    assert nothing.half.value is None
    assert nothing.half.high is None


@pytest.mark.parametrize(
    ("at_ten", "bimodal"),
    [
        ([0.2, 0.2, 0.95, 0.95], True),
        ([0.2, 0.25, 0.95, 0.8, 0.55], True),
        ([0.2, 0.5, 0.6, 0.95, 0.8], False),
        ([0.2, 0.95], False),
        ([0.2, 0.3, 0.4, 0.5], False),
    ],
)
def test_bimodal_curves_have_little_in_between(at_ten: list[float], bimodal: bool) -> None:
    seen = points({8: [0.2] * 4, 10: at_ten, 14: [0.95] * 4})
    assert is_bimodal(seen, 0.76, 0.96, 0.2) is bimodal
