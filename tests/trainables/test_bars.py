"""Scores that are any number, with a bar: of simple families, and of scripts in a sweep."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import orchestrator as o
from tests.cli.program import Program
from tests.training_scripts import written_space
from trainables import SimpleFamily, SimpleSettings
from trainables.base import Arm, Outcome, Status
from trainables.contract.bars import Bar
from trainables.contract.report_validator import BrokenFamilyError, ReportValidator
from trainables.contract.simple import Point


class Loss(SimpleFamily):
    """A family whose score is a loss, 6 / (size x step)."""

    task_names = ("text", "code")
    learned = {"at_most": 0.5}  # noqa: RUF012 - as users write

    @dataclass(frozen=True)
    class Settings(SimpleSettings):
        steps: int = 3
        last: Any = None
        """The last score, in place of the loss."""

    def train(
        self, tasks: Mapping[str, float], size: int, seed: int, settings: Settings, resume: Any = None
    ) -> Iterator[Point]:
        for step in range((resume or 0) + 1, settings.steps + 1):
            loss = 6 / (size * step)
            self.save(step)
            yield step, loss, loss if settings.last is None or step < settings.steps else settings.last


def outcome_of(size: int, last: Any = None, folder: Path | None = None) -> Outcome:
    """Return the outcome of a run, which is interrupted if there is a folder for its checkpoint."""
    family = Loss(Loss.Settings(last=last))
    run = family.config(Arm.parse("text+code"), size, 0)
    learner, validator = family.learner([run], device="cpu", cache=Path("unused")), ReportValidator(family, [run])
    while True:
        [report] = validator.check(learner.advance())
        if report.outcome is not None:
            return report.outcome
        if folder is not None:
            learner.save(folder)
            learner = family.learner([run], device="cpu", cache=Path("unused"))
            learner.restore(folder)


@pytest.mark.parametrize(("size", "share"), [(3, 0.0), (4, 1.0), (8, 1.0)])
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_run_that_reaches_its_bar_scores_one(size: int, share: float, interrupted: bool, tmp_path: Path) -> None:
    outcome = outcome_of(size, folder=tmp_path if interrupted else None)
    assert outcome.accuracy == {"text": share, "code": share}
    assert outcome.floor == {"text": 0.0, "code": 0.0}
    assert outcome.measures["score_text"] == 2 / size
    assert [point.measures["score_code"] for point in outcome.curve] == [6 / (size * step) for step in (1, 2, 3)]
    assert [point.accuracy["text"] for point in outcome.curve] == [float(size * step >= 12) for step in (1, 2, 3)]


def test_a_score_that_is_not_finite_diverges() -> None:
    outcome = outcome_of(8, math.nan)
    assert (outcome.status, outcome.accuracy["text"]) == (Status.DIVERGED, 0.0)


@pytest.mark.parametrize(("last", "message"), [("low", "must be a number; it is str 'low'"), ([1, 2], "it is list")])
def test_a_score_must_be_a_number(last: Any, message: str) -> None:
    with pytest.raises(BrokenFamilyError, match=message):
        outcome_of(8, last)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"learned": 0.9}, r"Wrong.learned must be \{at_least: NUMBER\} or \{at_most: NUMBER\}; got 0.9"),
        ({"learned": {"at_most": "x"}}, r"Wrong.learned at_most must be a number; got 'x'"),
        ({"learned": {"at_most": math.inf}}, r"Wrong.learned at_most must be a number; got inf"),
        ({"learned": {"at_most": 1, "at_least": 0}}, r"Wrong.learned must be"),
        ({"floor": 0.1}, "has a floor, for accuracies, and learned, for other numbers: choose one"),
    ],
)
def test_a_wrong_bar_is_refused(members: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        type("Wrong", (Loss,), members)


def test_words_name_the_bar() -> None:
    assert Loss.words.final_score == "success (score at most 0.5)"
    assert Loss.words.parameters == "units of size"
    assert str(Bar.of({"at_least": -3})) == "at least -3"
    assert Loss(Loss.Settings()).warnings([8]) == []


@pytest.mark.parametrize(("bar", "learned"), [({"at_least": 30.0}, {16}), ({"at_most": 30.0}, {8})])
def test_a_sweep_of_a_script_has_a_bar(bar: dict[str, float], learned: set[int], run: Program, tmp_path: Path) -> None:
    metrics = {"step": "iter", "accuracy": {"add": "trained", "prod": "trained"}}
    path = written_space(tmp_path, script={"metrics": metrics}, learned=bar)
    path.write_text(path.read_text().replace("floor: 0.1\n", ""))
    run("run", "space.yaml", "--engine=local").succeeded()
    stored = o.load("space", tmp_path / "results").runs
    reached = stored[stored["accuracy"] == 1]
    assert set(reached["size"]) == learned
    assert set(stored[stored["accuracy"] == 0]["size"]) == {8, 16} - learned
    scores = stored.groupby("size")["score_add"].first()
    assert scores[16] == 2 * scores[8] == pytest.approx(16 * (1 + 1 / 2 + 1 / 3 + 1 / 4 + 1 / 5 + 1 / 6))
    assert "mean success reaches 80%" in run("explain").succeeded()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learned": {"at_most": 1.0}}, "specify either floor:, for accuracies, or learned:, for other numbers"),
        ({"learned": {"below": 1.0}, "floor": None}, "must be {at_least: NUMBER} or {at_most: NUMBER}"),
        ({"learned": 0.9, "floor": None}, "must be {at_least: NUMBER} or {at_most: NUMBER}; got 0.9"),
    ],
)
def test_a_wrong_bar_of_a_script_is_refused(
    changes: dict[str, Any], message: str, run: Program, tmp_path: Path
) -> None:
    written_space(tmp_path, **changes)
    assert message in run("plan", "space.yaml").refused()
