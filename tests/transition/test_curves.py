"""Likelihood of runs on each curve of the grids."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.special import ndtr

from orchestrator.transition import curves as grids
from orchestrator.transition import scatter
from orchestrator.transition.curves import Curves, RunsOfSize, Workspace, curves_for, levelling_off
from orchestrator.transition.prior import LUCK
from orchestrator.transition.scatter import Floats32
from orchestrator.transition.types import Floats, Point

SIZES = (8, 12, 16, 24, 32)
RNG = np.random.default_rng(5)
POINTS = [
    Point(size, seed, float(RNG.choice([0.15, 0.17, 0.4, 0.93, 1.0])), 0.17) for size in SIZES for seed in range(4)
]
POINTS += [Point(16, 50 + seed, 0.5, 0.17, settled=seed > 0) for seed in range(3)]
GRIDS = (curves_for(SIZES, 0.17), levelling_off(curves_for(SIZES, 0.17)))


def log_likelihood(curves: Curves, size: float, accuracy: float) -> Floats32:
    """Return the tempered log likelihood of a run's accuracy in each cell, without a shift of the size."""
    total_D = np.zeros(curves.all_cells, np.float32)
    RunsOfSize(curves, size, Workspace(curves)).add(total_D, accuracy, 1)
    return total_D


def plain_density(curves: Curves, size: int, accuracy: float, cell: Sequence[int]) -> float:
    """Return the density of a run's accuracy on one curve, from the description of the kinds of curve."""
    kind, midpoint, slope, lapsed, floored, top = cell
    grid, floor = curves.grid, float(curves.floors[floored])
    asymptote, lapse = float(grid.asymptotes[top]), float(grid.lapses[lapsed])
    share = 1 / (1 + math.exp(-grid.slopes[slope] * (math.log(size) - curves.midpoints[midpoint])))
    nothing = float(scatter.not_learned(accuracy, np.array([floor]))[0])
    learned = float(grid.learned(accuracy)[top])
    if kind == 0:
        chance = share * (1 - lapse)
        return chance * learned + (1 - chance) * nothing + (1 + chance) * scatter.OUTLIER
    if kind == 1:
        steps = grids._steps_at(curves, size)[midpoint, slope]
        rise = max(asymptote - floor, scatter.CLEAR)
        edges = (np.arange(scatter.SHARES) + 0.5) / scatter.SHARES
        below = ndtr((accuracy - floor - edges * rise) / scatter.BLUR)
        density = float(steps @ [nothing, *((below[:-1] - below[1:]) * scatter.SHARES / rise), learned])
    else:
        rise = asymptote - floor
        spread = scatter.NEAR_FLOOR + (float(grid.near_top[top]) - scatter.NEAR_FLOOR) * share
        spread += scatter.BETWEEN * share * (1 - share) * rise
        density = (1 - scatter.OUTLIER) * float(scatter.normal(accuracy, floor + rise * share, spread))
    return (1 - lapse) * density + lapse * nothing + scatter.OUTLIER


@pytest.mark.parametrize("curves", GRIDS, ids=["rising", "levelling"])
@pytest.mark.parametrize(("size", "accuracy"), [(8, 0.15), (16, 0.4), (24, 0.97), (32, 1.0)])
def test_likelihood_is_that_of_each_kind_of_curve(curves: Curves, size: int, accuracy: float) -> None:
    log_D = log_likelihood(curves, size, accuracy)
    rng = np.random.default_rng(1)
    for _ in range(200):
        cell = tuple(int(rng.integers(length)) for length in curves.shape)
        expected = grids.TEMPER * math.log(plain_density(curves, size, accuracy, cell))
        assert log_D[np.ravel_multi_index(cell, curves.shape)] == pytest.approx(expected, abs=2e-3)
    nothing_F = scatter.not_learned(accuracy, curves.floors)
    for row, luck in enumerate(LUCK):
        density_F = luck * float(curves.grid.learned(accuracy).mean()) + (1 - luck) * nothing_F + scatter.OUTLIER
        flat_F = log_D[curves.cells :].reshape(len(LUCK), -1)[row]
        np.testing.assert_allclose(flat_F, grids.TEMPER * np.log(density_F), atol=2e-3)


@pytest.mark.parametrize("curves", GRIDS, ids=["rising", "levelling"])
def test_runs_add_up_exactly_in_any_order(curves: Curves) -> None:
    whole_D = curves.log_likelihood_of(POINTS)
    assert np.array_equal(whole_D, curves.log_likelihood_of(POINTS[::-1]))
    expected_D: Floats = np.zeros(curves.all_cells)
    for size in SIZES:
        at_size_D = np.zeros(curves.all_cells, np.float32)
        for point in POINTS:
            if point.size == size and point.settled is None:
                at_size_D += log_likelihood(curves, size, point.accuracy)
            elif point.size == size:
                at_size_D += curves.log_likelihood_if_settled(size, bool(point.settled))
        curves.average(at_size_D)
        expected_D += at_size_D
    assert np.array_equal(whole_D, expected_D)
