"""Simulated sweeps: synthetic truths, recorded tables, and the command."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from orchestrator.cli.main import main
from orchestrator.errors import UserError
from orchestrator.search.base import Observation, Problem, Request
from orchestrator.simulation.simulator import Cluster
from orchestrator.simulation.study import compare
from tests.simulation.recorded import COLUMNS, read_table, table_costs, table_problem
from tests.simulation.study import Benchmark, against_table, references_of
from tests.simulation.truths import Truth, TruthKind, draw

SIZES = (4, 6, 8, 12, 16, 24, 32, 48)
PROBLEM = Problem(("alone", "joint"), SIZES, (0, 1, 2))
COSTS = {size: float(size) for size in SIZES}


def benchmark(*methods: str, cluster: Cluster | None = None, problem: Problem = PROBLEM) -> Benchmark:
    return Benchmark(problem, {method: {} for method in methods}, COSTS, cluster or Cluster(even=False), seed=0)


def truths() -> dict[str, Truth]:
    rng = np.random.default_rng(5)
    return {mix: draw(TruthKind.MATCHED, PROBLEM, rng, key) for key, mix in enumerate(PROBLEM.mixes)}


def table() -> dict[Request, Observation | None]:
    """A recorded table: what synthetic truths show, one run lost."""
    known = truths()
    found: dict[Request, Observation | None] = {}
    for mix in PROBLEM.mixes:
        for size in SIZES:
            for seed in PROBLEM.seeds:
                found[Request(mix, size, seed)] = known[mix].run(size, seed, 1.0)
    found[Request("alone", 4, 1)] = None
    return found


def write(path: Path, outcomes: dict[Request, Observation | None]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow((*COLUMNS, "note"))
        for request, seen in outcomes.items():
            said = ("", "", "") if seen is None else (seen.accuracy, seen.floor, seen.cost)
            writer.writerow((request.mix, request.size, request.seed, *said, "-"))
    return path


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    outcomes = table()
    read = read_table(write(tmp_path / "table.csv", outcomes))
    assert read == outcomes
    assert table_problem(read) == PROBLEM
    assert table_costs(read) == COSTS


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


def test_a_table_with_a_gap_is_refused() -> None:
    outcomes = table()
    del outcomes[Request("joint", 8, 2)]
    with pytest.raises(UserError, match="1 are missing, for one joint at size 8, seed 2"):
        table_problem(outcomes)


@pytest.mark.night
def test_replays_are_held_against_the_whole_table() -> None:
    outcomes = table()
    references = references_of(PROBLEM, outcomes, seed=0)
    for reference, truth in zip(references, truths().values(), strict=True):
        assert reference.low is not None
        assert reference.high is not None
        assert truth.transition is not None
        assert reference.low / 1.5 < truth.transition < reference.high * 1.5
    grid, bayes = against_table(benchmark("grid", "bayes"), outcomes, 2)
    assert grid.agreement == {"alone": 1.0, "joint": 1.0}
    assert grid.tried.cost == 1
    assert bayes.tried.cost < 0.7


def test_a_mix_that_never_learns_agrees_when_no_size_is_found() -> None:
    problem = Problem(("mix",), SIZES, (0, 1, 2))
    outcomes: dict[Request, Observation | None] = {
        Request("mix", size, seed): Observation(0.2, 0.2, 1.0) for size in SIZES for seed in problem.seeds
    }
    (bisection,) = against_table(benchmark("bisection", problem=problem), outcomes, 1)
    assert bisection.agreement == {"mix": 1.0}


def test_the_study_of_the_command_grades_against_its_truths() -> None:
    grid, bayes = compare(PROBLEM, {"grid": {}, "bayes": {}}, COSTS, Cluster(even=False), sweeps=4, seed=0)
    assert (grid.cost, grid.wall, grid.runs) == (1.0, 1.0, 48.0)
    assert bayes.cost < 0.8
    assert bayes.runs < 48
    for each in (grid, bayes):
        assert each.error is not None
        assert each.error < 0.25
        assert each.holds >= 0.75
    lossy = compare(PROBLEM, {"grid": {}}, COSTS, Cluster(4, even=False, failures=0.5), sweeps=2, seed=0)[0]
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
        (["--jitter", "1e9"], "less than or equal to 3"),
    ],
)
def test_wrong_arguments_are_explained(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    assert said in capsys.readouterr().err
