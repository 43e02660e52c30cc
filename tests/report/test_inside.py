"""Verdicts on what probes see inside trained models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from orchestrator.report.answer import Answer, answer
from orchestrator.report.inside import Seen, at_equal_size, judge_inside, paired
from orchestrator.report.verdicts import Agreement, Row
from orchestrator.space.expected import Expectation
from orchestrator.space.validation import InvalidDataError, parse
from tests.report.samples import bracketed, make_spec

ANSWER = answer(make_spec(), bracketed())


def expected(finds: str, **more: str) -> Expectation:
    written = {"claim": "C", "source": "S", "mix": "add+prod", "finds": finds, "number": "separation/mod2"}
    return parse(Expectation, written | more)


def seen(values: Sequence[float], sizes: Sequence[int] = (), name: str = "separation/mod2") -> list[Seen]:
    return [
        Seen(size, True, {f"probe/{name}": value})
        for value, size in zip(values, sizes or [16] * len(values), strict=True)
    ]


def judged(asked: Expectation, alone: list[Seen], joint: list[Seen], found: Answer = ANSWER) -> Row:
    (row,) = judge_inside("space", "", [asked], found, {"add": alone, "add+prod": joint}, "sweep")
    return row


LOW, HIGH = [0.10, 0.12, 0.11, 0.09], [0.50, 0.52, 0.51, 0.49]


@pytest.mark.parametrize(
    ("finds", "alone", "joint", "agreement"),
    [
        ("higher", LOW, HIGH, Agreement.AGREES),
        ("higher", HIGH, LOW, Agreement.CONTRADICTED),
        ("lower", HIGH, LOW, Agreement.AGREES),
        ("lower", LOW, HIGH, Agreement.CONTRADICTED),
        ("higher", LOW, LOW[::-1], Agreement.UNDECIDED),
        ("higher", LOW[:3], HIGH, Agreement.UNDECIDED),
        ("higher", LOW, [], Agreement.UNDECIDED),
    ],
)
def test_a_number_is_compared_with_the_baselines(
    finds: str, alone: list[float], joint: list[float], agreement: Agreement
) -> None:
    row = judged(expected(finds), seen(alone), seen(joint))
    assert row.agreement is agreement
    assert row.about == "add+prod"
    assert "separation/mod2" in row.found
    assert ("too few" in row.found) == (len(alone) < 4 or len(joint) < 4)


def test_a_number_is_compared_with_another_of_the_same_runs() -> None:
    runs = [
        Seen(16, True, {"probe/separation/mod2": low, "probe/separation/mod3": low + 0.1})
        for low in (0.1, 0.5, 0.9, 0.3, 0.2)
    ]
    # Equal gaps have no spread, and in four runs all go one way by chance too often (1/16).
    assert judged(expected("lower", than="separation/mod3"), [], runs[:4]).agreement is Agreement.UNDECIDED
    row = judged(expected("lower", than="separation/mod3"), [], runs)
    assert row.agreement is Agreement.AGREES
    assert "-0.10 [-0.10, -0.10]" in row.found
    row = judged(expected("lower", than="separation/order"), [], runs)
    assert row.agreement is Agreement.UNDECIDED


def test_runs_that_did_not_learn_count_where_a_statement_says_so() -> None:
    runs = [Seen(16, place > 4, {"probe/a/kept": 0.9, "probe/a/kept.chance": 0.4 + place / 100}) for place in range(6)]
    asked = {"number": "a/kept", "than": "a/kept.chance"}
    assert judged(expected("higher", **asked), [], runs).agreement is Agreement.UNDECIDED
    row = judged(expected("higher", **asked, among="all"), [], runs)
    assert row.agreement is Agreement.AGREES
    assert "in 6 runs, against" in row.found


def test_a_difference_that_size_explains_is_none() -> None:
    rng = np.random.default_rng(0)
    sizes = [8, 10, 12, 14], [24, 28, 32, 36]
    number = [(np.log(each) + rng.normal(0, 0.02, 4)).tolist() for each in sizes]
    plain = at_equal_size(number[0], number[1], [1] * 4, [1] * 4, 0.9)
    fair = at_equal_size(number[0], number[1], *sizes, 0.9)
    assert plain.high < 0
    assert fair.low < 0 < fair.high


def test_intervals_are_those_of_the_textbook() -> None:
    own, other = [1.0, 2.0, 4.0, 5.0], [0.5, 1.0, 3.5, 3.0]
    found = paired(own, other, 0.9)
    known = stats.ttest_rel(own, other).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((known.low, known.high))
    found = at_equal_size(own, other, [8] * 4, [8] * 4, 0.9)
    known = stats.ttest_ind(own, other).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((known.low, known.high))


@pytest.mark.parametrize(
    "wrong",
    [
        {"finds": "higher", "number": ""},
        {"finds": "fewer"},
        {"finds": "fewer", "number": "", "than": "a/b"},
        {"number": "mod2"},
    ],
)
def test_statements_about_numbers_name_one(wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidDataError):
        expected(**{"finds": "higher", **wrong})
