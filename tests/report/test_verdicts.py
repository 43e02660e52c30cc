"""Verdicts on statements: transitions, claimed factors, controls, numbers of probes, and the order of learning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from orchestrator.report.answer import Answer, answer
from orchestrator.report.side_by_side import LabeledAnswer
from orchestrator.report.verdicts.agreement import Agreement
from orchestrator.report.verdicts.learning_order import halfway_steps, judge_order, peaked_first
from orchestrator.report.verdicts.probe_numbers import at_equal_size, judge_number, paired
from orchestrator.report.verdicts.statements import judge, judge_law
from orchestrator.report.verdicts.table import VerdictRow, over_table, summary
from orchestrator.search.base import Request
from orchestrator.space.expectations import Expectation
from orchestrator.space.parsing import InvalidDataError, parse
from orchestrator.space.runs import Run
from orchestrator.space.spaces import load_space
from orchestrator.sweep.reproduce import entropies
from orchestrator.transition.comparison import Comparison
from orchestrator.transition.types import SizeShare
from tests.golden.test_answers import COMPARISONS, FEWER
from tests.report.samples import bracketed, config, make_spec, run_of, scored, train
from trainables.base import Evaluation, Outcome, Status

ANSWER = answer(make_spec(), bracketed())
ENTROPY = {"add": math.log(6), "prod": 1.4, "max": 1.3}
LOW, HIGH = [0.10, 0.12, 0.11, 0.09], [0.50, 0.52, 0.51, 0.49]
PROD_FIRST, ADD_FIRST, TOGETHER = ({"add": a, "prod": p} for a, p in ((500, 250), (250, math.inf), (250, 250)))


def expected(finds: str, **more: Any) -> Expectation:
    number = {"number": "separation/mod2", "mix": "add+prod"} if finds in ("higher", "lower") else {}
    return parse(Expectation, {"claim": "C", "source": "S", "finds": finds} | number | more)


@pytest.mark.parametrize(("mix", "named"), [("*", ["add+prod"]), ("add", ["add"])])
def test_a_located_transition_agrees_even_for_the_baseline(mix: str, named: list[str]) -> None:
    rows = judge("space", "", [expected("transition", mix=mix)], ANSWER)
    assert [row.about for row in rows] == named
    assert {row.agreement for row in rows} == {Agreement.AGREES}
    assert rows[0].result.startswith("units ")


def with_comparison(comparison: Comparison | None) -> Answer:
    """Return an answer whose mix has this comparison with its baseline."""
    return replace(ANSWER, mixes=(ANSWER.mixes[0], replace(ANSWER.mixes[1], comparison=comparison)))


def verdict(comparison: Comparison | None, finds: str = "fewer", **fields: Any) -> Agreement:
    return judge("space", "", [expected(finds, **fields)], with_comparison(comparison))[0].agreement


@pytest.mark.parametrize(
    ("kind", "fewer", "no_fewer"),
    [
        ("fewer", Agreement.AGREES, Agreement.CONTRADICTED),
        ("more", Agreement.CONTRADICTED, Agreement.AGREES),
        ("alike", Agreement.UNDECIDED, Agreement.UNDECIDED),
        ("no_pairs", Agreement.UNDECIDED, Agreement.UNDECIDED),
    ],
)
def test_only_evidence_decides_a_statement(kind: str, fewer: Agreement, no_fewer: Agreement) -> None:
    comparison = COMPARISONS[kind]
    assert [verdict(comparison, finds) for finds in ("fewer", "no fewer")] == [fewer, no_fewer]


@pytest.mark.parametrize(
    ("factor", "agreement"),
    [(3.6, Agreement.AGREES), ((1.2, 1.8), Agreement.LARGER), ((1.2, 2.0), Agreement.AGREES)],
)
def test_a_certified_factor_can_exceed_a_claimed_one(factor: float | tuple[float, float], agreement: Agreement) -> None:
    comparison = COMPARISONS["at_least"]
    assert comparison is not None
    assert comparison.at_least == pytest.approx(28 * 29 / (20 * 21))
    assert verdict(comparison, factor=factor) is agreement


def test_parameters_stay_undecided_if_learning_becomes_rarer_with_size() -> None:
    shares = tuple(SizeShare(size, learned, 6) for size, learned in ((8, 0), (16, 6), (32, 5), (64, 0)))
    given = with_comparison(FEWER)
    rarer = replace(given, mixes=(given.mixes[0], replace(given.mixes[1], shares=shares)))
    (row,) = judge("space", "", [expected("fewer")], rarer)
    assert row.agreement is Agreement.UNDECIDED
    assert "learned more often at 20 to 24 (80:1)" in row.result


def test_a_failed_control_leaves_a_statement_undecided() -> None:
    spec = make_spec(sizes=(8, 12, 16))
    above = answer(spec, train(spec, [("add", 16), ("add", 12)], seeds=3))
    given = replace(above, mixes=(above.mixes[0], replace(above.mixes[1], comparison=FEWER)))
    assert judge("space", "", [expected("fewer")], given)[0].agreement is Agreement.PARTLY
    (row,) = judge("space", "", [expected("fewer", control="add")], given)
    assert row.agreement is Agreement.UNDECIDED
    assert row.result.endswith("; its control, add, was not learned: above 16")


def rows_of(evidence: Sequence[float]) -> list[VerdictRow]:
    """Return rows with this evidence, which is decisive from 20 on."""
    return [
        VerdictRow("space", "add+prod", "A", "fewer", Agreement.AGREES if value >= 20 else Agreement.UNDECIDED, weighed)
        for value in evidence
        for weighed in [replace(FEWER, evidence=value)]
    ]


@pytest.mark.parametrize(
    ("evidence", "significant"),
    [
        ([25.0], 1),
        ([25.0] + [1.0] * 9, 0),  # The largest of ten needs 100.
        ([120.0, 25.0] + [1.0] * 8, 1),
        ([25.0] * 5 + [1.0] * 5, 5),  # Five of ten need 20 each.
    ],
)
def test_a_table_keeps_the_rows_that_e_bh_keeps(evidence: list[float], significant: int) -> None:
    rows = over_table(rows_of(evidence))
    rest = len(rows) - significant
    assert [row.agreement for row in rows] == [Agreement.AGREES] * significant + [Agreement.UNDECIDED] * rest
    dropped = sum("not significant over the whole table" in row.result for row in rows)
    assert dropped == sum(value >= 20 for value in evidence) - significant
    assert ("decided by evidence" in summary(rows)) == bool(significant)


def test_statements_are_judged_separately_for_each_recipe() -> None:
    """A control or a baseline of another recipe does not count, and a law refers to the plain name of a mix."""
    spec = make_spec(recipes={"near": {}, "far": {"curve": {"midpoint": 400.0}}})
    cells = [(mix.name, size) for mix in spec.mixes for size in spec.sizes]
    runs = [(spec.config(Request(mix, size, seed)), size) for mix, size in cells for seed in (0, 1)]
    far = {config.label: "far" in config.label for config, _ in runs}
    ended = [run_of(config, scored(config, 0.1 if far[config.label] else 0.97 * (size > 30))) for config, size in runs]
    result = answer(spec, ended)
    for control, failed in (("add", [False, True]), ("add @ far", [True, True])):
        rows = judge("space", "", [expected("no fewer", mix="add+prod", control=control)], result)
        assert ["its control" in row.result for row in rows] == failed
    rows = judge("space", "", [expected("transition")], result)
    assert [row.about for row in rows] == ["add+prod @ near", "add+prod @ far"]
    below = expected("exponent below", mix="add+prod", limit=1)
    both = [LabeledAnswer(str(place), result, "space", str(place), "curve.midpoint", place) for place in (1.0, 2.0)]
    assert [row.about for row in judge_law("space", below, both)] == ["add+prod @ near", "add+prod @ far"]


@dataclass(frozen=True)
class Probed:
    """Numbers of a run's probes, its size, and whether it learned the target."""

    numbers: dict[str, float]
    size: int = 16
    learned: bool = True


def seen(values: Sequence[float]) -> list[Probed]:
    return [Probed({"probe/separation/mod2": value}) for value in values]


def judged(expectation: Expectation, alone: list[Probed], joint: list[Probed]) -> tuple[str, Agreement]:
    runs: dict[str, list[Run]] = {"add": [], "add+prod": []}
    numbers = {}
    for mix, side in (("add", alone), ("add+prod", joint)):
        for seed, probed in enumerate(side):
            trained = config(mix, probed.size, seed)
            run = run_of(trained, scored(trained, 0.97 if probed.learned else 0.1), f"{mix} {probed.size} {seed}")
            runs[mix].append(run)
            numbers[run.key] = probed.numbers
    return judge_number(expectation, ANSWER, ANSWER.mix("add+prod"), runs, numbers)


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
def test_a_number_is_compared_with_the_number_of_the_baseline(
    finds: str, alone: list[float], joint: list[float], agreement: Agreement
) -> None:
    text, judgement = judged(expected(finds), seen(alone), seen(joint))
    assert judgement is agreement
    assert "separation/mod2" in text
    assert ("too few" in text) == (len(alone) < 4 or len(joint) < 4)


def test_a_number_is_compared_with_another_number_of_the_same_runs() -> None:
    runs = [
        Probed({"probe/separation/mod2": low, "probe/separation/mod3": low + 0.1}) for low in (0.1, 0.5, 0.9, 0.3, 0.2)
    ]
    # Equal gaps have no spread. Four runs all go one way by chance too often (1/16).
    assert judged(expected("lower", than="separation/mod3"), [], runs[:4])[1] is Agreement.UNDECIDED
    text, judgement = judged(expected("lower", than="separation/mod3"), [], runs)
    assert judgement is Agreement.AGREES
    assert "-0.10 [-0.10, -0.10]" in text
    assert judged(expected("lower", than="separation/order"), [], runs)[1] is Agreement.UNDECIDED


def test_runs_that_did_not_learn_count_if_a_statement_asks_for_all() -> None:
    runs = [
        Probed({"probe/a/kept": 0.9, "probe/a/kept.chance": 0.4 + place / 100}, learned=place > 4) for place in range(6)
    ]
    fields = {"number": "a/kept", "than": "a/kept.chance"}
    assert judged(expected("higher", **fields), [], runs)[1] is Agreement.UNDECIDED
    text, judgement = judged(expected("higher", **fields, among="all"), [], runs)
    assert judgement is Agreement.AGREES
    assert "in 6 runs, against" in text


def test_groups_without_a_common_size_are_not_compared() -> None:
    mine = [Probed({"probe/x/y": 1.0 + 0.01 * place}) for place in range(5)]
    theirs = [Probed({"probe/x/y": 0.1 + 0.01 * place}, size=32) for place in range(5)]
    text, agreement = judged(expected("higher", number="x/y"), theirs, mine)
    assert text == "x/y is known only at size 16 for add+prod, and 32 for add"
    assert agreement is Agreement.UNDECIDED


@pytest.mark.parametrize("scale", [1.0, 1e5, 1e8])
def test_sign_tests_do_not_depend_on_the_unit_of_a_number(scale: float) -> None:
    for gaps in np.random.default_rng(0).uniform(0.5, 1.5, size=(20, 4)) * scale:
        assert paired(gaps, [0.0] * 4).above == 1 / 16


def test_a_difference_explained_by_size_does_not_count() -> None:
    rng = np.random.default_rng(0)
    sizes = [8, 10, 12, 14], [24, 28, 32, 36]
    number = [(np.log(group) + rng.normal(0, 0.02, 4)).tolist() for group in sizes]
    plain = at_equal_size(number[0], number[1], [1] * 4, [1] * 4)
    fair = at_equal_size(number[0], number[1], *sizes)
    assert plain.high < 0
    assert fair.low < 0 < fair.high


def test_intervals_agree_with_scipy() -> None:
    own, other = [1.0, 2.0, 4.0, 5.0], [0.5, 1.0, 3.5, 3.0]
    interval = paired(own, other)
    known = stats.ttest_rel(own, other).confidence_interval(0.9)
    assert (interval.low, interval.high) == pytest.approx((known.low, known.high))
    interval = at_equal_size(own, other, [8] * 4, [8] * 4)
    known = stats.ttest_ind(own, other).confidence_interval(0.9)
    assert (interval.low, interval.high) == pytest.approx((known.low, known.high))


@pytest.mark.parametrize(
    "wrong",
    [
        {"number": ""},
        {"finds": "fewer", "number": "mod/2"},
        {"number": "mod2"},
        {"finds": "fewer", "factor": 0.5},
        {"finds": "fewer", "factor": (7, 2)},
    ],
)
def test_a_statement_that_compares_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidDataError):
        expected(**{"finds": "higher", **wrong})


def test_a_task_is_learned_halfway_between_its_constant_answer_and_one() -> None:
    curve = tuple(
        Evaluation(step, 1.0, {"add": add, "prod": prod})
        for step, add, prod in ((100, 0.2, 0.69), (200, 0.59, 0.71), (300, 0.61, 0.70), (400, 0.5, 1.0))
    )
    run = Outcome(Status.FINISHED, 400, {"add": 0.5, "prod": 1.0}, {"add": 0.2, "prod": 0.4}, curve)
    assert halfway_steps(run) == {"add": 300, "prod": 200}
    never = Outcome(Status.FINISHED, 400, {"add": 0.5}, {"add": 0.3}, curve[:2])
    assert halfway_steps(never) == {"add": math.inf}


@pytest.mark.parametrize(
    ("steps", "order"),
    [
        (PROD_FIRST, 1.0),
        (ADD_FIRST, -1.0),
        ({"add": math.inf, "prod": 250}, 1.0),
        (TOGETHER, 0.0),
        ({"add": math.inf, "prod": math.inf}, 0.0),
        ({"add": 500, "prod": 250, "max": 500}, 0.0),  # PROD comes before ADD as expected, but not before MAX.
        ({"add": 500, "prod": 250, "max": 100}, 1.0),
    ],
)
def test_tasks_learned_together_are_not_evidence_for_an_order(steps: dict[str, float], order: float) -> None:
    assert peaked_first(steps, ENTROPY) == order


def test_an_order_in_five_of_five_runs_is_significant_but_in_four_it_is_not() -> None:
    assert judge_order([PROD_FIRST] * 5, ENTROPY)[1] is Agreement.AGREES
    assert judge_order([PROD_FIRST] * 4, ENTROPY)[1] is Agreement.UNDECIDED
    assert judge_order([ADD_FIRST] * 5, ENTROPY)[1] is Agreement.CONTRADICTED
    assert judge_order([ADD_FIRST, *[PROD_FIRST] * 4], ENTROPY)[1] is Agreement.UNDECIDED
    assert judge_order([TOGETHER] * 9, ENTROPY)[1] is Agreement.UNDECIDED


def test_answers_of_sums_are_uniform_and_answers_of_products_are_not() -> None:
    entropy = entropies(load_space("add_vs_add_prod", profile="quick"))
    assert entropy["add"] == pytest.approx(math.log(6))
    assert 0 < entropy["prod"] < entropy["add"] - 0.1
    assert entropies(make_spec()) == {}  # This family has no tables.
