"""The searchers by name, and those without statistics: grid and bisection."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass

import numpy as np
import pytest

from orchestrator.search.base import Problem, Request
from orchestrator.search.bisection import Bisection
from orchestrator.search.grid import Grid
from orchestrator.search.registry import METHODS
from orchestrator.space.parsing import InvalidDataError, parse
from orchestrator.transition.types import Point
from tests.conformance.searchers import PROBLEM, SIZES, drive, flat, step

ONE = Problem(("add",), SIZES, (0, 1, 2))


@pytest.mark.parametrize("method", sorted(METHODS))
def test_each_method_has_strict_settings_with_defaults(method: str) -> None:
    settings = METHODS[method].Settings
    assert is_dataclass(settings)
    assert isinstance(METHODS[method](ONE).settings, settings)
    assert settings.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert all(field.default is not None or field.name.startswith("max_") for field in fields(settings))
    with pytest.raises(InvalidDataError, match=r"stck: there is no such key. Did you mean 'stack'\?"):
        parse(settings, {"stck": 2})


@pytest.mark.parametrize("at", SIZES)
def test_bisection_brackets_a_step_between_neighbors_with_all_seeds(at: int) -> None:
    searcher = Bisection(ONE)
    results = drive(searcher, step(at), 3)
    (progress,) = searcher.progress()
    place = SIZES.index(at)
    assert (progress.low, progress.high) == (SIZES[place - 1] if place else None, at)
    for size in (progress.low, progress.high):
        assert size is None or all(Request("add", size, seed) in results for seed in ONE.seeds)
    assert len(results) <= 3 * (1 + math.ceil(math.log2(len(SIZES))))


def test_bisection_starts_every_mix_at_the_largest_size() -> None:
    requests = Bisection(PROBLEM).ask(100)
    assert {request.size for request in requests} == {SIZES[-1]}
    assert len(requests) == len(PROBLEM.mixes) * len(PROBLEM.seeds)
    # Seed by seed, so that no mix waits for another.
    assert [request.mix for request in requests[:2]] == list(PROBLEM.mixes)


def test_bisection_waits_for_every_seed_of_a_size() -> None:
    searcher = Bisection(ONE)
    first = searcher.ask(8)
    for request in first:
        assert searcher.ask(8) == []
        assert not searcher.done
        searcher.tell(request, request.point(0.97, 0.2))
    assert {request.size for request in searcher.ask(8)} == {SIZES[(len(SIZES) - 2) // 2]}


@pytest.mark.parametrize("accuracy", [0.2, 0.85])
def test_a_mix_that_does_not_learn_runs_at_the_largest_size_only(accuracy: float) -> None:
    searcher = Bisection(ONE)
    results = drive(searcher, flat(accuracy), 8)
    assert set(results) == {Request("add", SIZES[-1], seed) for seed in ONE.seeds}
    assert searcher.progress()[0].done


def test_bisection_compares_the_mean_with_the_asymptote() -> None:
    """Two of three seeds at 0.95 have a mean below 0.8 x 0.95, although a majority learned."""

    def world(request: Request) -> Point:
        weak = request.size < 64 or (request.size == 64 and request.seed == 0)
        return request.point(0.2 if weak else 0.95, 0.2)

    searcher = Bisection(ONE)
    drive(searcher, world)
    (progress,) = searcher.progress()
    assert (progress.low, progress.high) == (64, 80)


def test_failed_runs_end_a_mix_only_if_all_seeds_of_a_size_fail() -> None:
    searcher = Bisection(Problem(("add", "add+prod"), SIZES, (0, 1)))

    def fails(request: Request) -> bool:
        return request.size < 64 if request.mix == "add" else request.seed == 1

    drive(searcher, lambda request: None if fails(request) else step(24)(request), 4)
    add, both = searcher.progress()
    assert add.done
    assert (both.low, both.high) == (20, 24)


def test_a_grid_runs_whole_curves_first() -> None:
    first = Grid(PROBLEM).ask(len(PROBLEM.mixes) * len(SIZES))
    assert {request.seed for request in first} == {0}
    assert {(request.mix, request.size) for request in first} == {(m, s) for m in PROBLEM.mixes for s in SIZES}


@pytest.mark.parametrize("stack", [1, 3])
def test_a_grid_accepts_results_in_any_order(stack: int) -> None:
    """It skips stacks that have ended, and still chooses the first free runs of its plan."""
    problem = Problem(("add", "add+prod"), (8, 16, 32), tuple(range(7)))
    grid, rng = Grid(problem, stack=stack), np.random.default_rng(0)
    plan = Grid(problem, stack=stack).ask(1000)
    assert len(plan) == 2 * 3 * 7
    for place in rng.permutation(len(plan)):
        free = [run for run in plan if run not in grid.results]
        chosen = grid.choose((), 5)
        assert list(chosen) == free[: len(chosen)]
        assert 5 - stack < len(chosen) <= 5 or len(chosen) == len(free)
        grid.tell(plan[place], plan[place].point(0.5, 0.1))
    assert grid.done
