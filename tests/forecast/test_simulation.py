"""Searches without training: the simulator, the expected cost of methods, the command, and the benefit of more runs."""

from __future__ import annotations

from typing import Any

import pytest

from orchestrator.forecast.simulation import compare_searchers, continued, outlook, simulate, stacks
from orchestrator.search.base import Problem, Request
from orchestrator.search.grid import Grid
from orchestrator.search.pairs import Pairs
from orchestrator.transition.evidence import Block
from tests.cli.program import command
from tests.conformance.searchers import PROBLEM, SIZES, flat

RUNS = len(PROBLEM.mixes) * len(SIZES) * len(PROBLEM.seeds)


def test_workers_divide_the_time_not_the_cost() -> None:
    alone, many = (
        simulate(Grid(PROBLEM), lambda request: request.point(0.97, 0.2, 1.0), workers) for workers in (1, 6)
    )
    assert len(alone.results) == len(many.results) == RUNS
    assert alone.cost == many.cost == alone.wall == RUNS
    assert many.wall == pytest.approx(alone.wall / 6)
    assert alone.busy == many.busy == 1


def test_a_stack_of_four_costs_1_6_runs() -> None:
    problem = Problem(("add",), (8, 16), (0, 1, 2, 3))
    assert simulate(Grid(problem, stack=4), flat(0.97), stack=4).cost == pytest.approx(1.6 * (8 + 16))


def test_requests_are_stacked_by_size_in_order() -> None:
    wanted = [Request("a", 8, 0), Request("a", 16, 0), Request("b", 8, 0), Request("a", 8, 1)]
    assert stacks(wanted, 2) == [(wanted[0], wanted[2]), (wanted[3],), (wanted[1],)]
    assert stacks(wanted, 1) == [(wanted[0],), (wanted[2],), (wanted[3],), (wanted[1],)]


def test_methods_are_graded_against_known_truths() -> None:
    problem = Problem(("alone", "joint"), (4, 6, 8, 12, 16, 24, 32, 48), (0, 1, 2))
    costs = {size: float(size) for size in problem.sizes}
    begun: list[str] = []
    methods: dict[str, dict[str, Any]] = {"grid": {}, "pairs": {}}
    grid, pairs = compare_searchers(problem, methods, costs, sweeps=4, seed=0, on_sweep=begun.append)
    assert (begun[4], begun[-1]) == ("grid, 1 of 4", "pairs, 4 of 4")
    assert (grid.cost, grid.wall, grid.runs) == (1.0, 1.0, 48.0)
    assert pairs.cost < 0.8
    assert pairs.runs < 48
    for item in (grid, pairs):
        assert item.error is not None
        assert item.error < 0.25
        assert item.holds >= 0.75


def test_the_command_simulates_the_methods_of_a_space() -> None:
    words = ("--profile", "smoke", "--truths", "1", "--method", "bisection", "--workers", "2")
    output = command("simulate", "add_vs_add_prod", *words).succeeded()
    assert "simulated sweeps: 1, mixes in each: 2" in output
    assert "bisection" in output
    assert "pairs " not in output
    assert "…" not in output
    assert max(map(len, output.splitlines())) <= 80, "a terminal of 80 columns would fold it"


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["--method", "pars"], "Did you mean 'pairs'?"),
        (["--profile", "smoke"], "name one"),
        (["--workers", "100000000"], "less than or equal to 10000"),
    ],
)
def test_wrong_arguments_are_explained(arguments: list[str], output: str) -> None:
    assert output in command("simulate", *arguments).refused()


PAIR = ("joint", "alone")
PAIRED = Problem(("alone", "joint"), (8, 11, 16, 22, 32), tuple(range(16)), (PAIR,))


def searched(learned: list[tuple[bool, bool]], size: int, max_runs: int) -> Pairs:
    """Return a search after this many pairs at one size, with a limit on the runs of a mix."""
    searcher = Pairs(PAIRED, aim="decide", max_runs=max_runs)
    searcher.restore(Block(*PAIR, size, size, seed) for seed in range(len(learned)))
    for seed, outcomes in enumerate(learned):
        for mix, good in zip(PAIR, outcomes, strict=True):
            searcher.tell(Request(mix, size, seed), Request(mix, size, seed).point(float(good), 0.0, float(size)))
    return searcher


def test_a_clear_lead_is_expected_to_be_decided() -> None:
    assert outlook(searched([(True, False)] * 3, 16, 12))[PAIR] >= 0.75


def test_without_remaining_runs_nothing_is_decided() -> None:
    assert outlook(searched([(True, False)] * 3, 16, 3))[PAIR] == 0


def test_equal_mixes_are_unlikely_to_be_decided() -> None:
    alike = [(False, False), (True, True), (True, True), (False, False), (True, True), (False, False)] * 2
    assert outlook(searched(alike, 16, 24))[PAIR] <= 0.4


def test_an_outlook_is_deterministic_and_does_not_change_the_search() -> None:
    searcher = searched([(True, False), (False, False)], 16, 10)
    before = dict(searcher.results)
    assert outlook(searcher) == outlook(searcher)
    assert dict(searcher.results) == before


def test_a_continued_search_has_twice_the_seeds_and_limits_and_the_same_evidence() -> None:
    searcher = searched([(True, False), (False, False)], 16, 10)
    more = continued(searcher)
    assert (more.settings.max_runs, more.problem.seeds) == (20, tuple(range(32)))
    assert (more.blocks, dict(more.results)) == (searcher.blocks, dict(searcher.results))
