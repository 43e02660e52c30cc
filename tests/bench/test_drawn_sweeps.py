"""Sweeps drawn from real runs: the pool says what its runs say, and the command prints and writes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from orchestrator.search.base import Observation, Request
from orchestrator.transition.types import Doubt, Verdict
from tests.bench.drawn_sweeps import FORMER, RECIPES, Drawn, against, cells, draw, main, same_table
from tests.bench.pool import FEW, Pool, recipes_of


def pool(**means: float) -> Pool:
    """Four runs at each size (``s8=.4``), half of them .05 above the mean and half below."""
    seen = {int(name[1:]): [mean - 0.05, mean + 0.05] * 2 for name, mean in means.items()}
    runs = {("a", size): tuple(Observation(each, 0.2, 1.0) for each in found) for size, found in seen.items()}
    return Pool(runs, {size: float(size) for size in seen})


def test_the_mean_crosses_between_the_sizes_around_it() -> None:
    # .8 of .95 is .76, four fifths of the way from .2 to .9.
    expected = math.exp(math.log(8) + 0.8 * math.log(2))
    assert pool(s4=0.2, s8=0.2, s16=0.9, s64=0.95, s128=0.95).crossing("a") == pytest.approx(expected)


def test_a_mean_that_falls_back_is_levelled_first() -> None:
    # 8 and 16 are .65 together.
    expected = math.exp(math.log(16) + (0.76 - 0.65) / 0.3 * math.log(2))
    found = pool(s4=0.2, s8=0.7, s16=0.6, s32=0.95, s64=0.95, s128=0.95).crossing("a")
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    "means", [{"s4": 0.2, "s8": 0.5, "s64": 0.6, "s128": 0.6}, {"s4": 0.9, "s64": 0.95, "s128": 0.95}]
)
def test_a_plateau_or_what_the_smallest_size_learns_has_no_transition(means: dict[str, float]) -> None:
    assert pool(**means).crossing("a") is None


def test_drawing_the_runs_again_moves_the_crossing() -> None:
    low, high = pool(s4=0.2, s8=0.2, s16=0.9, s96=0.95, s128=0.95).interval("a", np.random.default_rng(0))
    truth = pool(s4=0.2, s8=0.2, s16=0.9, s96=0.95, s128=0.95).crossing("a")
    assert truth is not None
    assert 13 < low < truth < high < 15


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


def test_open_sides_are_wide_and_hold_what_they_do_not_exclude() -> None:
    closed = Drawn(10.0, 5, {"a": Verdict.FOUND}, {"a": (8.0, 16.0)})
    opened = Drawn(20.0, 5, {"a": Verdict.UNDECIDED}, {"a": (None, 16.0)})
    nothing = Drawn(20.0, 5, {"a": Verdict.UNDECIDED}, {"a": (None, None)})
    assert closed.width("a") == pytest.approx(math.log(2))
    assert opened.width("a") == math.inf
    assert [each.holds("a", 4) for each in (closed, opened, nothing)] == [False, True, False]
    assert against([opened], [closed], ["a"]) == "sooner in 1.00 +- 0.00; narrower: a in 1.00 +- 0.00"


def test_intervals_may_be_held_against_a_size_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--pool", str(FORMER), "--sweeps", "2", "--set", "seeds=3"]
    main([*asked, "--truth", "1000", "--json", str(tmp_path / "drawn.json")])
    lines = [line for line in capsys.readouterr().out.splitlines() if "| add+prod |" in line]
    assert len(lines) == 2
    assert all("| 0.00 +- 0.00 |" in line for line in lines)


def test_a_table_of_several_recipes_holds_a_pool_for_each() -> None:
    recipes = recipes_of(RECIPES)
    assert {"start_0.2", "start_fan_in", "rate_0.002", "decay_0.05"} <= set(recipes)
    assert recipes_of(FORMER) == [""]
    pools = [Pool.read(RECIPES, recipe) for recipe in recipes]
    counts = [sum(len(found) for found in pool.runs.values()) for pool in pools]
    with RECIPES.open(encoding="utf-8") as file:
        assert sum(counts) == len(file.readlines()) - 1
    assert all({mix for mix, _ in pool.runs} == {"add", "add+prod"} for pool in pools)


def test_one_command_prints_and_writes_what_was_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--sweeps", "1", "--set", "seeds=2", "--json", str(tmp_path / "drawn.json")])
    printed = capsys.readouterr().out
    assert "recipe start_0.2\n" in printed
    assert printed.count("| bayes | add+prod |") == len(recipes_of(RECIPES))
    assert "bayes against bisection: sooner in" in printed
    assert "over all recipes and mixes: bisection " in printed
    record = json.loads((tmp_path / "drawn.json").read_text())
    assert record["overrides"] == ["seeds=2"]
    assert [each["recipe"] for each in record["recipes"]] == recipes_of(RECIPES)
    for each in record["recipes"]:
        assert set(each["truths"]) == {"add", "add+prod"}
        assert {method: len(found) for method, found in each["sweeps"].items()} == {"bisection": 1, "bayes": 1}


def test_both_mixes_may_be_drawn_from_one_and_reshaped() -> None:
    assert {cell.recipe for cell in cells()} == {*recipes_of(RECIPES), ""}
    world = Pool.read(FORMER).world(3, "add+prod")
    ends = {mix: [world(Request(mix, 12, seed)).accuracy for seed in range(9)] for mix in ("add", "add+prod")}
    assert min(map(np.mean, ends.values())) > 0.6  # ADD alone fails there.
    assert ends["add"] != ends["add+prod"]
    cell = next(each for each in cells() if each.shape == "0.7 of the rise")
    drawn = [draw(cell.path, cell.recipe, "bisection", ("seeds=3",), key, cell.mix, cell.shape) for key in (0, 1)]
    assert all(each.doubt is Doubt.LEVELS_OFF for each in drawn)
    assert "| 0.00 +- 0.00 | levels off 1.00 | plateau 1.00 |" in same_table({(cell, "bisection"): drawn})
