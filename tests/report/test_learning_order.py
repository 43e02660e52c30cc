"""Whether peaked tasks are learned first, from learning curves made by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from orchestrator.prediction import entropies
from orchestrator.report.answer import answer
from orchestrator.report.learning_order import Learned, judge_order, learned_at, peaked_first
from orchestrator.report.verdicts import Agreement, judge
from orchestrator.space.expected import Expectation
from orchestrator.space.spaces import load_space
from orchestrator.space.validation import parse
from tests.report.samples import bracketed, make_spec
from trainables.base import Evaluation, Outcome, Status

ANSWER = answer(make_spec(), bracketed())
ENTROPY = {"add": math.log(6), "prod": 1.4, "max": 1.3}
PROD_FIRST, ADD_FIRST, TOGETHER = ({"add": a, "prod": p} for a, p in ((500, 250), (250, None), (250, 250)))


def asked(mix: str = "*") -> Expectation:
    return parse(Expectation, {"claim": "C", "source": "S", "mix": mix, "finds": "peaked first"})


def judged(runs: list[Mapping[str, int | None]], entropy: Mapping[str, float] = ENTROPY) -> tuple[Agreement, str]:
    seen = {"add": [Learned({"add": 250})], "add+prod": [Learned(run) for run in runs]}
    (row,) = judge_order("space", "", [asked()], ANSWER, seen, entropy, "sweep")
    assert (row.about, row.sweeps) == ("add+prod", ("sweep",))
    return row.agreement, row.found


def test_a_task_is_learned_halfway_between_its_constant_answer_and_one() -> None:
    curve = tuple(
        Evaluation(step, 1.0, {"add": add, "prod": prod})
        for step, add, prod in ((100, 0.2, 0.69), (200, 0.59, 0.71), (300, 0.61, 0.70), (400, 0.5, 1.0))
    )
    run = Outcome(Status.FINISHED, 400, {"add": 0.5, "prod": 1.0}, {"add": 0.2, "prod": 0.4}, curve)
    assert learned_at(run).steps == {"add": 300, "prod": 200}
    never = Outcome(Status.FINISHED, 400, {"add": 0.5}, {"add": 0.3}, curve[:2])
    assert learned_at(never).steps == {"add": None}


@pytest.mark.parametrize(
    ("steps", "order"),
    [
        (PROD_FIRST, 1.0),
        (ADD_FIRST, -1.0),
        ({"add": None, "prod": 250}, 1.0),
        (TOGETHER, None),
        ({"add": None, "prod": None}, None),
        ({"add": 500, "prod": 250, "max": 500}, 0.0),  # PROD before ADD as expected, and before MAX, which is not.
        ({"add": 500, "prod": 250, "max": 100}, 1.0),
    ],
)
def test_pairs_of_tasks_that_end_together_say_nothing(steps: dict[str, int | None], order: float | None) -> None:
    assert peaked_first(Learned(steps), ENTROPY) == order


def test_tasks_as_peaked_as_each_other_say_nothing() -> None:
    assert peaked_first(Learned({"min": 100, "max": 200}), {"min": 1.3, "max": 1.3}) is None


def test_an_order_in_five_runs_of_five_is_more_than_chance_and_in_four_it_is_not() -> None:
    assert judged([PROD_FIRST] * 5)[0] is Agreement.AGREES
    assert judged([PROD_FIRST] * 4)[0] is Agreement.UNDECIDED
    assert judged([ADD_FIRST] * 5)[0] is Agreement.CONTRADICTED
    assert judged([ADD_FIRST, *[PROD_FIRST] * 4])[0] is Agreement.UNDECIDED
    assert judged([TOGETHER] * 9)[0] is Agreement.UNDECIDED


def test_what_was_found_is_said_with_its_interval_and_entropies() -> None:
    assert judged([PROD_FIRST] * 5)[1] == (
        "peaked tasks first in 5 of 5 runs in which an order shows, 1.00 [0.55, 1.00]; "
        "entropy of the answers: prod 1.40, add 1.79"
    )
    assert judged([PROD_FIRST] * 5, {}) == (Agreement.UNDECIDED, "the family has no tables of its tasks")


def test_it_is_no_statement_about_savings() -> None:
    assert judge("space", "", [asked()], ANSWER, "sweep") == []


def test_the_answers_of_a_sum_are_evenly_spread_and_a_products_are_not() -> None:
    found = entropies(load_space("add_vs_add_prod", profile="laptop"))
    assert found["add"] == pytest.approx(math.log(6))
    assert 0 < found["prod"] < found["add"] - 0.1
    assert entropies(make_spec()) == {}  # A family without tables.
