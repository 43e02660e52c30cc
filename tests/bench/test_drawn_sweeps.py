"""Tests of pools of recorded runs, and of the tables of sweeps drawn from them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from orchestrator.search.base import Observation, Request
from orchestrator.transition.evidence import Direction
from tests.bench.drawn_sweeps import (
    FORMER,
    METHODS,
    MIXES,
    RECIPES,
    Cell,
    Play,
    cells,
    decided_row,
    draw,
    main,
)
from tests.bench.pool import Pool, recipes_of


def pool(**means: float) -> Pool:
    """Return four runs at each size (``s8=.4``), half of them .05 above the mean and half below."""
    accuracies = {int(name[1:]): [mean - 0.05, mean + 0.05] * 2 for name, mean in means.items()}
    runs = {("a", size): tuple(Observation(value, 0.2, 1.0) for value in cell) for size, cell in accuracies.items()}
    return Pool(runs, {size: float(size) for size in accuracies})


@pytest.mark.parametrize(
    ("means", "crossing"),
    [
        # .8 of .95 is .76, four fifths of the way from .2 to .9.
        ({"s4": 0.2, "s8": 0.2, "s16": 0.9, "s64": 0.95, "s128": 0.95}, math.log(8) + 0.8 * math.log(2)),
        # The isotonic fit is .65 at both 8 and 16.
        (
            {"s4": 0.2, "s8": 0.7, "s16": 0.6, "s32": 0.95, "s64": 0.95, "s128": 0.95},
            math.log(16) + (0.76 - 0.65) / 0.3 * math.log(2),
        ),
        ({"s4": 0.2, "s8": 0.5, "s64": 0.6, "s128": 0.6}, None),
        ({"s4": 0.9, "s64": 0.95, "s128": 0.95}, None),
    ],
)
def test_the_mean_crosses_between_the_sizes_around_it(means: dict[str, float], crossing: float | None) -> None:
    expected = None if crossing is None else pytest.approx(math.exp(crossing))
    assert pool(**means).crossing("a") == expected


def test_the_recorded_runs_cross_where_their_sweeps_located_it() -> None:
    former = Pool.read(FORMER)
    truth = former.crossing("add+prod")
    assert truth is not None
    assert 9 < truth < 12
    assert former.crossing("add") is None
    assert sum(map(len, former.runs.values())) > 400
    recipes = [Pool.read(RECIPES, recipe) for recipe in recipes_of(RECIPES)]
    with RECIPES.open(encoding="utf-8") as file:
        assert sum(len(cell) for pool in recipes for cell in pool.runs.values()) == len(file.readlines()) - 1


def test_the_command_prints_coverage_of_every_pool(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--sweeps", "1", "--set", "seeds=2"])
    printed = capsys.readouterr().out
    for cell in cells(same=False):
        for mix in MIXES:
            assert printed.count(f"| {cell.name} | {mix} |") == len(METHODS)
    assert "| add_vs_add_prod_laptop_runs | add | - | pairs | - |" in printed


def test_draws_both_mixes_from_one_reshaped_pool() -> None:
    world = Pool.read(FORMER).world(3, "add+prod")
    ends = {mix: [world(Request(mix, 12, seed)).accuracy for seed in range(9)] for mix in ("add", "add+prod")}
    assert min(map(np.mean, ends.values())) > 0.6  # ADD alone fails there.
    assert ends["add"] != ends["add+prod"]
    cell = next(cell for cell in cells(same=True) if cell.shape == "0.7 of the rise")
    play = Play("grid", ("seeds=2",), slots=2, early=1.0)
    drawn = [draw(cell, play, key, locate=False) for key in (0, 1)]
    assert all(sweep.decided is None for sweep in drawn)
    assert "| 0.00 +- 0.00 | 0.00 +- 0.00 | - |" in decided_row(cell, "grid", drawn)


def test_decides_for_a_mix_shifted_to_smaller_sizes() -> None:
    drawn = draw(Cell(RECIPES, "start_0.2", "add+prod", shift=4), Play("pairs", (), 2, 1.0), 0)
    assert drawn.decided is Direction.FEWER
    assert drawn.at_least is not None
