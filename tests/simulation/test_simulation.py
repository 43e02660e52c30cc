"""Searches without training: the simulator, what methods would cost, and the command; tables of recorded runs."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from orchestrator.cli.main import main
from orchestrator.errors import UserError
from orchestrator.search.base import Observation, Problem, Request
from orchestrator.search.bisection import Bisection, Grid
from orchestrator.search.registry import METHODS, make_searcher
from orchestrator.simulation import Cluster, compare, simulate, stacks
from tests.conformance.searchers import PROBLEM, SIZES, drive, flat, mixed, step
from tests.simulation.recorded import COLUMNS, read_table, table_costs

RUNS = len(PROBLEM.mixes) * len(SIZES) * len(PROBLEM.seeds)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def test_one_worker_takes_one_run_after_another() -> None:
    trace = simulate(Grid(PROBLEM), flat(0.97), Cluster(), rng())
    assert trace.runs == RUNS
    assert trace.makespan == pytest.approx(RUNS)
    assert trace.busy == pytest.approx(1)
    assert trace.cost == pytest.approx(len(PROBLEM.seeds) * len(PROBLEM.mixes) * sum(SIZES))
    assert sum(trace.mix_cost(mix) for mix in PROBLEM.mixes) == pytest.approx(trace.cost)


def test_workers_divide_the_time_not_the_cost() -> None:
    one = simulate(Grid(PROBLEM), flat(0.97), Cluster(), rng())
    many = simulate(Grid(PROBLEM), flat(0.97), Cluster(workers=6), rng())
    assert many.makespan == pytest.approx(one.makespan / 6)
    assert many.cost == pytest.approx(one.cost)
    ends = sorted((stack.start, stack.end) for stack in many.stacks)
    assert all(sum(start <= moment < end for start, end in ends) <= 6 for moment in range(int(many.makespan)))


def test_a_stack_of_four_costs_1_6_runs() -> None:
    problem = Problem(("add",), (8, 16), (0, 1, 2, 3))
    trace = simulate(Grid(problem, stack=4), flat(0.97), Cluster(stack=4), rng())
    assert len(trace.stacks) == 2
    assert trace.cost == pytest.approx(1.6 * (8 + 16))


def test_stacks_group_by_size_in_order() -> None:
    wanted = [Request("a", 8, 0), Request("a", 16, 0), Request("b", 8, 0), Request("a", 8, 1)]
    assert stacks(wanted, 2) == [(wanted[0], wanted[2]), (wanted[3],), (wanted[1],)]
    assert stacks(wanted, 1) == [(wanted[0],), (wanted[2],), (wanted[3],), (wanted[1],)]


def test_runs_of_more_steps_are_stacks_of_their_own_and_take_as_much_longer() -> None:
    wanted = [Request("a", 8, 0), Request("a", 8, 0, 2), Request("b", 8, 0)]
    assert stacks(wanted, 2) == [(wanted[0], wanted[2]), (wanted[1],)]
    plain = simulate(Bisection(PROBLEM), step(40), Cluster(), rng())
    audited = simulate(Bisection(PROBLEM, budget_audit=True), step(40), Cluster(), rng())
    assert audited.makespan == pytest.approx(plain.makespan + 2 * len(PROBLEM.mixes))
    assert audited.cost == pytest.approx(plain.cost + 2 * 32 * len(PROBLEM.mixes))


def test_a_stack_may_take_as_long_as_it_costs() -> None:
    costly = simulate(Grid(PROBLEM), flat(0.97), Cluster(even=False), rng())
    assert costly.makespan == pytest.approx(costly.cost)


def test_failures_are_told_as_none() -> None:
    trace = simulate(Grid(PROBLEM), flat(0.97), Cluster(failures=0.3), rng())
    failed = sum(seen is None for seen in trace.results.values())
    assert 0 < failed < RUNS / 2


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_survives_a_rough_cluster(method: str) -> None:
    rough = Cluster(workers=5, stack=2, jitter=0.5, failures=0.15)
    first = simulate(make_searcher(method, PROBLEM, stack=2), mixed(3), rough, rng())
    again = simulate(make_searcher(method, PROBLEM, stack=2), mixed(3), rough, rng())
    assert first.results == again.results
    assert first.makespan == again.makespan


def test_the_same_runs_as_without_a_clock() -> None:
    trace = simulate(Bisection(PROBLEM), step(40), Cluster(workers=4, jitter=0.4), rng())
    assert dict(trace.results) == dict(drive(Bisection(PROBLEM), step(40)))


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    outcomes: dict[Request, Observation | None] = dict(drive(Grid(PROBLEM), mixed(5)))
    outcomes[next(iter(outcomes))] = None
    path = tmp_path / "table.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow((*COLUMNS, "note"))
        for request, seen in outcomes.items():
            said = ("", "", "") if seen is None else (seen.accuracy, seen.floor, seen.cost)
            writer.writerow((request.mix, request.size, request.seed, *said, "-"))
    assert read_table(path) == outcomes
    assert table_costs(outcomes) == {size: float(size) for size in SIZES}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("mix,size\nadd,4\n", "no column seed, accuracy, floor, seconds"),
        ("mix,size,seed,accuracy,floor,seconds\nadd,four,0,1,0,1\n", "line 2: .*four"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(content)
    with pytest.raises(UserError, match=said):
        read_table(path)


def test_methods_are_graded_against_made_up_truths() -> None:
    problem = Problem(("alone", "joint"), (4, 6, 8, 12, 16, 24, 32, 48), (0, 1, 2))
    costs = {size: float(size) for size in problem.sizes}
    grid, bayes = compare(problem, {"grid": {}, "bayes": {}}, costs, Cluster(even=False), sweeps=4, seed=0)
    assert (grid.cost, grid.wall, grid.runs) == (1.0, 1.0, 48.0)
    assert bayes.cost < 0.8
    assert bayes.runs < 48
    for each in (grid, bayes):
        assert each.error is not None
        assert each.error < 0.25
        assert each.holds >= 0.75
    lossy = compare(problem, {"grid": {}}, costs, Cluster(4, even=False, failures=0.5), sweeps=2, seed=0)[0]
    assert lossy.busy < 1


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        main(["simulate", *arguments])
    assert isinstance(exit_.value.code, int)
    return exit_.value.code


def test_the_command_tries_the_methods_of_a_space(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("add_vs_add_prod", "--profile", "smoke", "--truths", "1", "--method", "bisection", "--workers", "2") == 0
    said = capsys.readouterr().out
    assert "simulated sweeps: 1, mixes in each: 2" in said
    assert "bisection" in said
    assert "bayes " not in said
    assert "…" not in said
    assert max(map(len, said.splitlines())) <= 80, "a terminal of 80 columns would fold it"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--method", "bays"], "Did you mean 'bayes'?"),
        (["--profile", "smoke"], "name one"),
        (["--workers", "100000000"], "less than or equal to 10000"),
    ],
)
def test_wrong_arguments_are_explained(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    assert said in capsys.readouterr().err
