"""Searches without training: the simulator, the expected cost of methods and the command."""

from __future__ import annotations

import pytest

from orchestrator.search.base import Observation, Problem, Request
from orchestrator.search.grid import Grid
from orchestrator.simulation import compare, simulate, stacks
from tests.cli.program import command
from tests.conformance.searchers import PROBLEM, SIZES, flat

RUNS = len(PROBLEM.mixes) * len(SIZES) * len(PROBLEM.seeds)


def test_workers_divide_the_time_not_the_cost() -> None:
    alone, many = (simulate(Grid(PROBLEM), lambda request: Observation(0.97, 0.2, 1.0), workers) for workers in (1, 6))
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
    grid, pairs = compare(problem, {"grid": {}, "pairs": {}}, costs, sweeps=4, seed=0)
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
