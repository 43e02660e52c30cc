"""The benchmark itself runs, on a few truths: its figures are for the full command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.search import Scenario, grid_cost, main, measure, scenarios
from tests.bench.search_report import figures, goals, print_goals
from tests.simulation.truths import TruthKind


@pytest.mark.night
def test_one_command_prints_and_writes_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--truths", "2", "--only", "bisection", "--kinds", "matched,below", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "bisection" in printed
    assert "goals" in printed
    record = json.loads((tmp_path / "search.json").read_text())
    assert record["truths"] == 2
    assert all(len(found) == 2 for found in record["raw"])
    assert (tmp_path / "search.png").stat().st_size > 1000


def test_the_grid_is_its_own_unit_of_cost() -> None:
    for stack in (1, 4):
        row = measure(Scenario("grid", "grid", stack=stack), 1)
        assert row.grades[0].cost == pytest.approx(1)
        assert row.grades[0].runs == 48


def test_figures_count_what_was_declared() -> None:
    grades = figures(measure(Scenario("bayes", kind=TruthKind.NEVER), 2)).grades
    assert grades.declared == 1
    assert grades.error_median is None
    assert grades.cost <= 0.25


def test_every_goal_is_held_against_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    rows = {(scenario.name, scenario.kind, scenario.exponent) for scenario in scenarios()}
    assert all((goal.name, goal.kind, goal.exponent) in rows for goal in goals())
    print_goals([measure(Scenario("bayes", kind=TruthKind.BELOW), 1)])
    assert "met    bayes, below" in capsys.readouterr().out


def test_grid_cost_counts_three_seeds() -> None:
    assert grid_cost(Scenario("grid", "grid", exponent=0.0)) == 48
    assert grid_cost(Scenario("grid", "grid", exponent=0.0, stack=4)) == pytest.approx(16 * 1.4)
