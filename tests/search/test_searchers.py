"""The searchers by name, at scale, and those without statistics: grid and bisection."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.errors import UserError
from orchestrator.search.base import Observation, Problem, Request
from orchestrator.search.bisection import Bisection, Grid
from orchestrator.search.registry import METHODS, make_searcher, settings_type
from orchestrator.space.mistakes import InvalidDataError, parse
from tests.conformance.searchers import PROBLEM, SIZES, drive, failing, flat, mixed, step

SMALL = Problem(("add",), (8, 16, 32), (0, 1))


@pytest.mark.parametrize("method", sorted(METHODS))
def test_makes_each_method_with_its_defaults(method: str) -> None:
    searcher = make_searcher(method, SMALL)
    assert type(searcher) is METHODS[method]
    assert searcher.problem is SMALL
    assert is_dataclass(settings_type(method))
    assert isinstance(searcher.settings, settings_type(method))


def test_an_unknown_method_names_the_nearest() -> None:
    with pytest.raises(UserError, match=r"'bisecton'.*Did you mean 'bisection'\?.*Allowed: .*grid"):
        settings_type("bisecton")


@pytest.mark.parametrize("method", sorted(METHODS))
def test_settings_refuse_what_they_do_not_know_under_pydantic_too(method: str) -> None:
    settings = settings_type(method)
    with pytest.raises(InvalidDataError, match=r"stck: there is no such key. Did you mean 'stack'\?"):
        parse(settings, {"stck": 2})
    assert settings.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert all(field.default is not None or field.name.startswith("max_") for field in fields(settings))


ONE = Problem(("add",), SIZES, (0, 1, 2))


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), orders=st.lists(st.integers(0, 10**6), min_size=2, max_size=3))
def test_results_in_any_order_lead_to_the_same_runs(seed: int, orders: list[int]) -> None:
    world = mixed(seed)
    expected = dict(drive(Bisection(PROBLEM), world))
    for order in orders:
        assert dict(drive(Bisection(PROBLEM), world, 1 + order % 9, order)) == expected


@settings(max_examples=30)
@given(st.sampled_from(SIZES))
def test_brackets_between_neighbours_with_all_seeds(at: int) -> None:
    searcher = Bisection(ONE)
    results = drive(searcher, step(at), 3)
    (progress,) = searcher.progress()
    place = SIZES.index(at)
    assert progress.high == at
    assert progress.low == (SIZES[place - 1] if place else None)
    for size in (progress.low, progress.high):
        assert size is None or all(Request("add", size, seed) in results for seed in ONE.seeds)
    assert len(results) <= 3 * (1 + math.ceil(math.log2(len(SIZES))))


def test_the_largest_size_comes_first_for_every_mix() -> None:
    wanted = Bisection(PROBLEM).ask(100)
    assert {request.size for request in wanted} == {SIZES[-1]}
    assert len(wanted) == len(PROBLEM.mixes) * len(PROBLEM.seeds)
    # Seed by seed: no mix waits for another.
    assert [request.mix for request in wanted[:2]] == list(PROBLEM.mixes)


def test_waits_for_every_seed_of_a_size() -> None:
    searcher = Bisection(ONE)
    first = searcher.ask(8)
    assert searcher.ask(8) == []
    assert not searcher.done
    for request in first[:-1]:
        searcher.tell(request, Observation(0.97, 0.2))
        assert searcher.ask(8) == []
    searcher.tell(first[-1], Observation(0.97, 0.2))
    assert {request.size for request in searcher.ask(8)} == {SIZES[(len(SIZES) - 2) // 2]}


@pytest.mark.parametrize("accuracy", [0.2, 0.6, 0.85])
def test_a_mix_that_does_not_learn_costs_the_largest_size_alone(accuracy: float) -> None:
    searcher = Bisection(ONE)
    results = drive(searcher, flat(accuracy), 8)
    assert {request.size for request in results} == {128}
    assert len(results) == len(ONE.seeds)
    (progress,) = searcher.progress()
    assert "not learned" in progress.note


def test_the_rule_is_the_mean_against_the_asymptote_not_a_majority() -> None:
    """Two of three seeds at 0.95 average under 0.8 x 0.95: a majority would have called that learned."""

    def world(request: Request) -> Observation:
        weak = request.size < 64 or (request.size == 64 and request.seed == 0)
        return Observation(0.2 if weak else 0.95, 0.2)

    searcher = Bisection(ONE)
    drive(searcher, world)
    (progress,) = searcher.progress()
    assert (progress.low, progress.high) == (64, 80)


def test_failed_seeds_leave_the_others_as_evidence() -> None:
    searcher = Bisection(ONE)
    drive(searcher, lambda request: None if request.seed == 1 else step(24)(request))
    (progress,) = searcher.progress()
    assert (progress.low, progress.high) == (20, 24)


def test_a_size_whose_seeds_all_failed_ends_its_mix_alone() -> None:
    broken = Problem(("add", "add+prod"), SIZES, (0, 1))
    searcher = Bisection(broken)
    drive(searcher, lambda request: None if request.mix == "add" and request.size < 64 else step(24)(request), 4)
    add, both = searcher.progress()
    assert add.done
    assert "failed" in add.note
    assert (both.low, both.high) == (20, 24)


def test_grid_runs_everything_once() -> None:
    results = drive(Grid(PROBLEM), failing(mixed(1), 4), 5, order=1)
    assert len(results) == len(PROBLEM.mixes) * len(PROBLEM.sizes) * len(PROBLEM.seeds)


def test_grid_sees_whole_curves_early() -> None:
    first = Grid(PROBLEM).ask(len(PROBLEM.mixes) * len(SIZES))
    assert {request.seed for request in first} == {0}
    assert {(request.mix, request.size) for request in first} == {(m, s) for m in PROBLEM.mixes for s in SIZES}


def test_more_seeds_extend_a_finished_search() -> None:
    world = mixed(2)
    known = drive(Bisection(PROBLEM), world)
    extended = Bisection(Problem(PROBLEM.mixes, SIZES, (*PROBLEM.seeds, 3)))
    for request, seen in known.items():
        extended.tell(request, seen)
    results = drive(extended, world, 4)
    assert known.items() <= results.items()
    assert any(request.seed == 3 for request in results)


@pytest.mark.parametrize("stack", [1, 3])
def test_a_grid_told_in_any_order_asks_as_one_that_looks_at_all_of_it(stack: int) -> None:
    problem = Problem(("add", "add+prod"), (8, 16, 32), tuple(range(7)))
    grid, rng = Grid(problem, stack=stack), np.random.default_rng(0)
    every = [Request(mix, size, seed) for mix in problem.mixes for size in problem.sizes for seed in problem.seeds]
    for place in rng.permutation(len(every)):
        known = dict(grid.results)
        assert grid.choose(grid.results, (), 5) == Grid(problem, stack=stack).choose(known, (), 5)
        grid.tell(every[place], Observation(0.5, 0.1))
    assert grid.done
