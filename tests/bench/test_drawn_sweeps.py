"""Sweeps drawn from real runs: the pool says what its runs say, and the command prints both tables."""

from __future__ import annotations

import math

import numpy as np
import pytest

from orchestrator.search.base import Observation, Request
from orchestrator.transition.evidence import Direction
from orchestrator.transition.types import Verdict
from tests.bench.drawn_sweeps import (
    FORMER,
    METHODS,
    MIXES,
    RECIPES,
    Cell,
    Drawn,
    Play,
    cells,
    decided_row,
    draw,
    main,
)
from tests.bench.pool import FEW, Pool, recipes_of


def pool(**means: float) -> Pool:
    """Four runs at each size (``s8=.4``), half of them .05 above the mean and half below."""
    seen = {int(name[1:]): [mean - 0.05, mean + 0.05] * 2 for name, mean in means.items()}
    runs = {("a", size): tuple(Observation(each, 0.2, 1.0) for each in found) for size, found in seen.items()}
    return Pool(runs, {size: float(size) for size in seen})


@pytest.mark.parametrize(
    ("means", "crossing"),
    [
        # .8 of .95 is .76, four fifths of the way from .2 to .9.
        ({"s4": 0.2, "s8": 0.2, "s16": 0.9, "s64": 0.95, "s128": 0.95}, math.log(8) + 0.8 * math.log(2)),
        # A mean that falls back is levelled first: 8 and 16 are .65 together.
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


def test_a_run_ends_as_one_of_its_size_and_always_alike() -> None:
    runs = pool(s8=0.3, s16=0.9)
    first, second = runs.world(0), runs.world(1)
    request = Request("a", 8, 0)
    assert first(request) == first(request)
    assert first(request) in [Observation(accuracy, 0.2, 8.0) for accuracy in (0.25, 0.35)]
    ends = {tuple(world(Request("a", 8, seed)).accuracy for seed in range(8)) for world in (first, second)}
    assert len(ends) == 2


def test_a_size_with_few_runs_borrows_from_the_nearest() -> None:
    runs = pool(s8=0.3, s16=0.9, s64=0.95)
    assert {run.accuracy for run in runs.like("a", 15)} == {run.accuracy for run in runs.runs["a", 16]}
    lonely = Pool({**runs.runs, ("a", 15): (Observation(0.5, 0.2, 1.0),)}, runs.costs)
    assert len(lonely.like("a", 15)) == 1 + FEW


def test_the_kept_runs_cross_where_the_sweeps_found_it() -> None:
    kept = Pool.read(FORMER)
    truth = kept.crossing("add+prod")
    assert truth is not None
    assert 9 < truth < 12
    assert kept.crossing("add") is None
    assert sum(len(found) for found in kept.runs.values()) > 400
    recipes = [Pool.read(RECIPES, recipe) for recipe in recipes_of(RECIPES)]
    with RECIPES.open(encoding="utf-8") as file:
        assert sum(len(found) for each in recipes for found in each.runs.values()) == len(file.readlines()) - 1


def test_open_sides_hold_what_they_do_not_exclude() -> None:
    intervals = ((8.0, 16.0), (None, 16.0), (None, None))
    drawn = [Drawn(5, 1.0, {"a": Verdict.FOUND}, {"a": each}, None, None) for each in intervals]
    assert [each.holds("a", 4) for each in drawn] == [False, True, False]


def test_the_command_prints_coverage_of_every_pool(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--sweeps", "1", "--set", "seeds=2"])
    printed = capsys.readouterr().out
    for cell in cells(same=False):
        for mix in MIXES:
            assert printed.count(f"| {cell.name} | {mix} |") == len(METHODS)
    assert "| add_vs_add_prod_laptop_runs | add | - | pairs | - |" in printed


def test_both_mixes_may_be_drawn_from_one_and_reshaped() -> None:
    world = Pool.read(FORMER).world(3, "add+prod")
    ends = {mix: [world(Request(mix, 12, seed)).accuracy for seed in range(9)] for mix in ("add", "add+prod")}
    assert min(map(np.mean, ends.values())) > 0.6  # ADD alone fails there.
    assert ends["add"] != ends["add+prod"]
    cell = next(each for each in cells(same=True) if each.shape == "0.7 of the rise")
    play = Play("grid", ("seeds=2",), slots=2, early=1.0)
    drawn = [draw(cell, play, key, locate=False) for key in (0, 1)]
    assert all(each.decided is None for each in drawn)
    assert "| 0.00 +- 0.00 | 0.00 +- 0.00 | - |" in decided_row(cell, "grid", drawn)


def test_a_mix_shifted_to_smaller_sizes_is_decided() -> None:
    drawn = draw(Cell(RECIPES, "start_0.2", "add+prod", shift=4), Play("pairs", (), 2, 1.0), 0)
    assert drawn.decided is Direction.FEWER
    assert drawn.at_least is not None
