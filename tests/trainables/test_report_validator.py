"""Violations of a family's contract are named, and numpy numbers are converted to Python's."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.home.directories import Home
from orchestrator.home.run_store import RunStore
from tests.families import LogisticFamily, LogisticSettings
from trainables.base import Arm, Evaluation, Outcome, Report, RunConfig, Status
from trainables.contract import report_validator
from trainables.contract.report_validator import BrokenFamilyError, ReportValidator

LISTED: Any = {"w": [1.0]}
FAMILY = LogisticFamily(LogisticSettings(steps=4))


def runs() -> list[RunConfig]:
    return [FAMILY.config(Arm.parse("add+prod"), 16, seed) for seed in (0, 1)]


def evaluation(**changes: Any) -> Evaluation:
    return replace(Evaluation(1, 0.5, {"add": 0.25, "prod": 1.0}), **changes)


def outcome(**changes: Any) -> Outcome:
    shares = {"add": 0.25, "prod": 1.0}
    return replace(Outcome(Status.FINISHED, 4, shares, dict.fromkeys(shares, 0.1), (evaluation(),)), **changes)


def checked(*reports: Any) -> list[Report]:
    return ReportValidator(FAMILY, runs()).check(list(reports))


def pair(**changes: Any) -> list[Report]:
    """Return reports on both runs, the first with changes to its evaluation."""
    return [Report(0, evaluation(**changes)), Report(1, evaluation())]


def test_valid_reports_pass_unchanged() -> None:
    reports = [Report(0, evaluation()), Report(1, evaluation(), outcome(), weights={"w": np.zeros(2)})]
    assert checked(*reports) == reports


def test_numpy_numbers_are_converted_to_python_numbers() -> None:
    shares = {"add": np.float32(0.25), "prod": np.array(1.0)}
    given = evaluation(step=np.int64(2), loss=np.float32(0.5), accuracy=shares, measures={"norm": np.float64(7)})
    ended = outcome(
        steps=np.int32(4), accuracy=shares, floor=shares, measures={"seconds": np.float32(1)}, curve=(given,)
    )
    first, second = checked(Report(0, given, ended), Report(1, evaluation()))
    assert first.evaluation == Evaluation(2, 0.5, {"add": 0.25, "prod": 1.0}, {"norm": 7.0})
    assert first.outcome is not None
    assert Outcome.from_json(json.loads(json.dumps(first.outcome.to_json()))) == first.outcome
    assert second.outcome is None


@pytest.mark.parametrize(
    ("reports", "message"),
    [
        ([], "advance() must report on every run that has not ended (by index: 0, 1); it reported on none, so the"),
        ([*pair(), Report(2, evaluation())], "it reported on 0, 1, 2"),
        ([Report(0), Report(1, evaluation())], "has neither an evaluation nor an outcome"),
        (
            pair(accuracy={"add": 87.5, "prod": 1.0}),
            "on 'add' is 87.5; it must be a share from 0 to 1; divide per",
        ),
        (pair(accuracy={"add": math.nan, "prod": 1.0}), "its accuracy on 'add' is nan; it must be a share from 0 to 1"),
        (pair(accuracy={"prod": 1.0}), "for each task of the mix ('add', 'prod'); it is dict {'prod': 1.0}"),
        (pair(step=0), "step 0 follows step 0; steps must increase"),
        (pair(step=5), "is 5; steps() allows the run at most 4"),
        (pair(measures={"norm": None}), "measure 'norm' must be a number; it is NoneType None"),
        ([Report(0, None, outcome(floor={})), Report(1, evaluation())], "its floor must have a value for each task"),
        ([Report(0, evaluation(), weights=LISTED), Report(1, evaluation())], "'w' is list [1.0]"),
        (["done"], "must return a list of Report; it returned list ['done']"),
    ],
)
def test_violations_of_the_contract_are_named_with_their_family(reports: list[Any], message: str) -> None:
    with pytest.raises(BrokenFamilyError) as broken:
        checked(*reports)
    assert str(broken.value).startswith("the family 'logistic' does not keep its contract: ")
    assert message in str(broken.value)


def test_an_ended_run_must_not_be_reported_again() -> None:
    validator = ReportValidator(FAMILY, runs())
    validator.check([Report(0, evaluation(), outcome()), Report(1, evaluation())])
    validator.check([Report(1, evaluation(step=2), outcome())])
    assert validator.check([]) == []
    with pytest.raises(BrokenFamilyError, match=r"\(by index: none\); it reported on 1"):
        validator.check([Report(1, evaluation(step=3))])


def test_a_learning_curve_that_could_not_be_read_again_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that logs each of a million steps, for example: its outcome would be stored, then count as damaged."""
    monkeypatch.setattr(report_validator, "MOST_EVALUATIONS", 3)
    validator = ReportValidator(FAMILY, runs())
    for step in (1, 2, 3):
        validator.check([Report(index, evaluation(step=step)) for index in (0, 1)])
    with pytest.raises(BrokenFamilyError, match="curve has more than 3 points; evaluate or log it less often"):
        validator.check(pair(step=4))


def test_a_resumed_curve_counts_from_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_validator, "MOST_EVALUATIONS", 3)
    curve = tuple(evaluation(step=step) for step in (1, 2, 3, 4))
    with pytest.raises(BrokenFamilyError, match="curve has more than 3 points"):
        checked(Report(0, evaluation(step=4), outcome(curve=curve)), Report(1, evaluation()))


def test_the_longest_curve_can_be_stored_and_read(tmp_path: Path) -> None:
    curve = tuple(evaluation(step=step, loss=1 / step) for step in range(1, report_validator.MOST_EVALUATIONS + 1))
    store = RunStore(Home(tmp_path), "sweep")
    assert store.put("0123456789abcdef", outcome(curve=curve), {}).curve == curve
