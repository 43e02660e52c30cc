"""When "no reduction" may be said: with equal totals and with equal examples of the target a larger model is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.report.answer import Answer
from orchestrator.report.fairness import standing
from orchestrator.report.table import answer_table, plain
from orchestrator.transition.types import Synergy, Verdict
from tests.report.samples import FOUND, called, make_answer, transition

MORE = Synergy(0.5, 0.4, 0.8, decided=True)
LESS = Synergy(2.0, 1.2, 2.5, decided=True)
OPEN = Synergy(0.9, 0.6, 1.3, decided=False)


def answer(**synergies: Synergy) -> Answer:
    """An answer in which ``add+prod`` has these synergies at the budgets ``total`` and ``target``."""
    found = transition(Verdict.FOUND, FOUND)
    made = make_answer(found, found, MORE)
    baseline, joint = made.mixes
    names = {"total": "add+prod", "target": "add+prod x2"}
    mixes = [
        called(names[budget], replace(joint, synergy_total=synergy, synergy_core=synergy))
        for budget, synergy in synergies.items()
    ]
    return replace(made, mixes=(baseline, *mixes))


def conclusions(found: Answer) -> list[str]:
    return [line for line in answer_table(found).conclusions if not line.startswith(" ")]


def test_both_budgets_agree() -> None:
    said = conclusions(answer(total=MORE, target=MORE))
    assert said == [
        "add+prod: no reduction under either budget, it needs 2.0x more parameters than add [1.2, 2.5]",
        "add+prod x2: no reduction under either budget, it needs 2.0x more parameters than add [1.2, 2.5]",
    ]


@pytest.mark.parametrize("other", [LESS, OPEN, Synergy(None, None, None, decided=False)])
def test_one_budget_against_the_other_is_no_absence_of_a_reduction(other: Synergy) -> None:
    for found in (answer(total=MORE, target=other), answer(total=other, target=MORE)):
        assert "no reduction" not in plain(answer_table(found))
    first, _ = conclusions(answer(total=MORE, target=other))
    assert first == (
        "add+prod needs 2.0x more parameters than add [1.2, 2.5] with 50% as many examples of add as add, "
        "but not shown by add+prod x2"
    )


def test_equal_totals_alone_are_confounded() -> None:
    (said,) = conclusions(answer(total=MORE))
    assert said == (
        "add+prod needs 2.0x more parameters than add [1.2, 2.5] with 50% as many examples of add as add, "
        "so this is confounded with the budget (budget=both would tell)"
    )
    (said,) = conclusions(answer(target=MORE))
    assert said == "add+prod x2 needs 2.0x more parameters than add [1.2, 2.5] with as many examples of add as add"


def test_a_reduction_is_said_as_ever() -> None:
    for found in (answer(total=LESS), answer(total=LESS, target=MORE), answer(target=LESS)):
        assert conclusions(found)[0].split(" needs ")[1] == "2.0x fewer parameters than add [1.2, 2.5] at this recipe"


def test_mixes_with_equal_shares_of_the_target_need_no_second_budget() -> None:
    made = answer(total=MORE)
    baseline, joint = made.mixes
    found = replace(made, baseline="add+max", mixes=(called("add+max", baseline), joint))
    assert standing(found, joint, lambda mix: mix.synergy_total).agreed
    assert "no reduction at this budget" in conclusions(found)[0]


def test_budgets_of_the_mixes_are_explained() -> None:
    assert "x2 (x3, ...)" in plain(answer_table(answer(total=LESS, target=LESS)))
    assert "x2" not in plain(answer_table(answer(total=LESS)))
