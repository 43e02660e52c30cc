"""Tests of the rule for early ends on the curves of full runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.home.directories import Home
from tests.bench.early_ends import Ended, ended, main
from tests.catalog.fabricated import write_sweep
from trainables.base import Evaluation
from trainables.transformer.training_settings import SettleSettings

FLOOR = {"add": 0.2, "prod": 0.2}


@pytest.mark.parametrize(
    ("accuracies", "expected"),
    [
        ([0.2, 0.2, 0.2, 0.2], Ended(0.75, False)),
        ([0.2, 0.95, 0.2, 0.2], Ended(0.5, True)),
        ([0.2, 0.6, 0.2, 0.2], Ended(1.0, None)),  # Once above .4 of the way, so it is trained to its end.
        ([0.2, 0.2, 0.6, 0.95], Ended(1.0, True)),
    ],
)
def test_the_rule_is_applied_to_a_curve(accuracies: list[float], expected: Ended) -> None:
    curve = [
        Evaluation(step, 1.0, {"add": add, "prod": 1.0}) for step, add in zip((1, 2, 3, 4), accuracies, strict=True)
    ]
    assert ended(curve, FLOOR, "add", SettleSettings(), 4) == expected


def test_a_run_goes_on_until_all_its_tasks_are_settled() -> None:
    curve = [
        Evaluation(step, 1.0, {"add": 0.95, "prod": prod}) for step, prod in ((1, 0.2), (2, 0.2), (3, 0.95), (4, 1))
    ]
    assert ended(curve, FLOOR, "add", SettleSettings(), 4) == Ended(0.75, True)


def test_homes_are_read_into_a_row_for_each_mix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_sweep(Home(tmp_path))
    main([str(tmp_path)])
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ") and "| space" not in line]
    assert [row.split("|")[2].strip() for row in rows] == ["add", "add+prod"]
