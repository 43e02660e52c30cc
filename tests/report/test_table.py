"""The words an answer is given in: never more than is known, and always with an interval."""

from __future__ import annotations

import io
from dataclasses import replace
from itertools import product

import pytest
from rich.console import Console

from orchestrator.report import wording
from orchestrator.report.answer import answer
from orchestrator.report.table import answer_table, plain, render
from orchestrator.transition.transition import synergy as ratio
from orchestrator.transition.types import Doubt, Estimate, Point, SizeShare, Synergy, Transition, Verdict
from tests.report.samples import FOUND, NOWHERE, bracketed, make_answer, make_spec, transition

UNKNOWN = Synergy(None, None, None, decided=False)
SMALLER = Estimate(20.3, 18.0, 23.0)


def lines(first: Transition, second: Transition, synergy: Synergy = UNKNOWN) -> list[str]:
    return plain(answer_table(make_answer(first, second, synergy))).splitlines()


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


def test_the_form_of_the_answer() -> None:
    synergy = Synergy(2.84, 2.2, 3.61, decided=True)
    found = lines(transition(Verdict.FOUND, FOUND), transition(Verdict.FOUND, SMALLER), synergy)
    assert found[:8] == [
        "target add, modulus 6: transitions at 80% of the asymptote, with 90% intervals",
        "mix               units          parameters      runs",
        "add               37.1 [33, 41]  371 [330, 410]  14",
        "add+prod          20.3 [18, 23]  203 [180, 230]  12 (1 diverged, 2 failed)",
        "prod in add+prod  20.3 [18, 23]  203 [180, 230]",
        "add+prod needs 2.8x fewer parameters than add [2.2, 3.6] at this recipe",
        "  core parameters: 2.8x fewer [2.2, 3.6]",
        "core parameters: all but those that the family does not count as the model's body",
    ]
    assert len(found) == 8


@pytest.mark.parametrize(
    ("found", "size", "parameters"),
    [
        (transition(Verdict.FOUND, FOUND), "37.1 [33, 41]", "371 [330, 410]"),
        (transition(Verdict.FOUND, Estimate(37.1, 33, None)), "37.1 [33, above 64]", "371 [330, above 640]"),
        (transition(Verdict.FOUND, Estimate(9.0, None, 12)), "9 [below 8, 12]", "90 [below 80, 120]"),
        (transition(Verdict.FOUND, Estimate(30.0, None, None)), "30 [below 8, above 64]", "300 [below 80, above 640]"),
        # A value beyond the sizes tested is none: nothing was seen there.
        (transition(Verdict.FOUND, Estimate(2.0, None, 8.0)), "below 8", "below 80"),
        (transition(Verdict.FOUND, Estimate(7.0, None, 12.0)), "below 8, at most 12", "below 80, at most 120"),
        (transition(Verdict.FOUND, Estimate(90.0, 64.0, None)), "above 64", "above 640"),
        (transition(Verdict.FOUND, Estimate(90.0, 32.0, 99.0)), "above 64, at least 32", "above 640, at least 320"),
        (transition(Verdict.ABOVE, Estimate(None, 64, None)), "above 64", "above 640"),
        (transition(Verdict.BELOW, Estimate(None, None, 8)), "below 8", "below 80"),
        (transition(Verdict.PLATEAU), "plateau at 0.75", "-"),
        (transition(Verdict.UNDECIDED), "undecided", "undecided"),
        (transition(Verdict.UNDECIDED, Estimate(None, 16, 64)), "undecided [16, 64]", "undecided [160, 640]"),
        (
            transition(Verdict.UNDECIDED, Estimate(None, 16, None)),
            "undecided, at least 16",
            "undecided, at least 160",
        ),
        (Transition(Verdict.UNDECIDED, NOWHERE, NOWHERE, None, (), 0.9), "undecided", "undecided"),
    ],
)
def test_every_verdict(found: Transition, size: str, parameters: str) -> None:
    row = lines(found, transition(Verdict.FOUND, SMALLER))[2]
    assert cells(row)[1:3] == [size, parameters]


SHARES = tuple(
    SizeShare(size, learned, tried, 0.0, 1.0)
    for size, learned, tried in ((4, 0, 1), (8, 0, 2), (10, 1, 4), (12, 2, 2), (14, 5, 5), (64, 1, 1))
)


def test_seeds_that_learned_are_counted_under_the_table() -> None:
    told = replace(transition(Verdict.FOUND, FOUND), shares=SHARES, half=Estimate(10.4, 9.2, 11.9), bimodal=True)
    found = lines(told, transition(Verdict.FOUND, SMALLER))
    assert found[5] == (
        "add: units 37.1 [33, 41]; learned by 0/2 at 8 (none below), 1/4 at 10, 2/2 at 12 (all above); half of all "
        "seeds learn at 10.4 [9.2, 11.9]; single runs learn or do not, with little in between"
    )
    assert any(line.startswith("learned: a run at 80% of the asymptote or more; ") for line in found)


@pytest.mark.parametrize(
    ("half", "said"),
    [
        (NOWHERE, ""),
        (Estimate(None, 64.0, None), "; half of all seeds learn above 64"),
        (Estimate(None, 4096.0, None), "; half of all seeds learn above 4 096"),
        (Estimate(None, None, 8.0), "; half of all seeds learn below 8"),
        (Estimate(None, 8.0, 64.0), "; half of all seeds learn between 8 and 64"),
        (Estimate(30.0, None, 64.0), "; half of all seeds learn at 30 [below, 64]"),
    ],
)
def test_half_of_all_seeds_in_words(half: Estimate, said: str) -> None:
    told = replace(transition(Verdict.FOUND, FOUND), shares=SHARES[3:], half=half)
    assert wording.learned("add", told) == f"add: learned by 2/2 at 12 (all above){said}"
    assert wording.learned("add", transition(Verdict.FOUND, FOUND)) == ""


@pytest.mark.parametrize("doubt", [Doubt.LEVELS_OFF, Doubt.FALLS, Doubt.FEW, Doubt.CHANCE, Doubt.CRITERION])
def test_what_leaves_a_comparison_undecided_is_said(doubt: Doubt) -> None:
    found = Synergy(None, 2.8, None, decided=False, doubt=doubt)
    assert wording.saving(found) == f"undecided: at least 2.8x fewer; {doubt}"


def test_a_constant_answer_that_is_nearly_good_enough_is_explained() -> None:
    points = tuple(Point(size, seed, 0.9, 0.77) for size in (8, 32, 64) for seed in (0, 1))
    near = replace(transition(Verdict.NEAR_FLOOR), points=points, level=0.76)
    found = lines(transition(Verdict.FOUND, FOUND), near)
    assert cells(found[3])[1:3] == ["too near to tell", "-"]
    assert "add+prod: its best constant answer scores 0.77, and 0.76 counts as learned: too near to tell" in found
    assert wording.near_floor("add", transition(Verdict.FOUND, FOUND)) == ""


def test_a_plateau_is_explained() -> None:
    assert lines(transition(Verdict.PLATEAU), transition(Verdict.FOUND, SMALLER))[-1].startswith("plateau: ")


def test_the_absolute_criterion_is_shown_where_it_differs() -> None:
    apart = transition(Verdict.FOUND, FOUND, Estimate(45.0, 41.0, 49.0))
    close = transition(Verdict.FOUND, FOUND, Estimate(37.9, 33.0, 41.0))
    assert cells(lines(apart, transition(Verdict.FOUND, SMALLER))[3]) == [
        "add at accuracy 0.8",
        "45 [41, 49]",
        "450 [410, 490]",
    ]
    assert not any("at accuracy" in line for line in lines(close, transition(Verdict.FOUND, SMALLER)))


@pytest.mark.parametrize(
    ("absolute", "said"),
    [
        (Estimate(None, 64.0, None), "above 64"),
        (Estimate(None, None, 8.0), "below 8"),
        (Estimate(None, 20.0, 40.0), "undecided [20, 40]"),
        (NOWHERE, "undecided"),
    ],
)
def test_an_absolute_criterion_outside_the_sizes(absolute: Estimate, said: str) -> None:
    found = lines(transition(Verdict.FOUND, FOUND, absolute), transition(Verdict.FOUND, SMALLER))
    assert cells(found[3])[1] == said


@pytest.mark.parametrize(
    ("synergy", "said"),
    [
        (
            Synergy(2.8, 2.2, 3.6, decided=True),
            "add+prod needs 2.8x fewer parameters than add [2.2, 3.6] at this recipe",
        ),
        (
            Synergy(12.34, 8.0, 20.0, decided=True),
            "add+prod needs 12x fewer parameters than add [8.0, 20] at this recipe",
        ),
        (Synergy(None, 2.3, None, decided=True), "add+prod needs >= 2.3x fewer parameters than add at this recipe"),
        (
            Synergy(0.5, 0.4, 0.8, decided=True),
            "add+prod needs 2.0x more parameters than add [1.2, 2.5] at this budget",
        ),
        (
            Synergy(None, None, 0.5, decided=True),
            "add+prod needs >= 2.0x more parameters than add at this budget",
        ),
        (
            Synergy(1.3, 0.8, 2.1, decided=False),
            "undecided: add+prod may need up to 2.1x fewer or up to 1.2x more parameters than add",
        ),
        (UNKNOWN, "undecided: there is no transition by which to compare add+prod with add"),
        (
            Synergy(None, 0.7, None, decided=False),
            "undecided: add+prod needs at most 1.4x more parameters than add",
        ),
        (
            Synergy(None, None, 1.4, decided=False),
            "undecided: add+prod needs at most 1.4x fewer parameters than add",
        ),
        (
            Synergy(1.5, 1.1, 2.1, decided=False),
            "undecided: add+prod needs 2.1x fewer to 1.1x fewer parameters than add; "
            "at absolute accuracy 0.8 it looks otherwise",
        ),
        (
            Synergy(1.5, None, None, decided=False),
            "undecided: add+prod needs 1.5x fewer parameters than add, without an interval",
        ),
    ],
)
def test_every_synergy(synergy: Synergy, said: str) -> None:
    assert wording.synergy("add+prod", "add", synergy) == said


VERDICTS = {
    Verdict.FOUND: FOUND,
    Verdict.ABOVE: Estimate(None, 64.0, None),
    Verdict.BELOW: Estimate(None, None, 8.0),
    Verdict.PLATEAU: NOWHERE,
    Verdict.UNDECIDED: Estimate(None, 16.0, None),
}


@pytest.mark.parametrize(("first", "second"), list(product(VERDICTS, VERDICTS)))
def test_no_pair_of_verdicts_claims_more_than_is_known(first: Verdict, second: Verdict) -> None:
    alone, joint = transition(first, VERDICTS[first]), transition(second, VERDICTS[second])
    synergy = ratio(alone, joint, lambda size: 10 * size)
    text = plain(answer_table(make_answer(alone, joint, synergy)))
    conclusion = next(line for line in text.splitlines() if "than add" in line or "undecided: there is no" in line)
    assert ("undecided" in conclusion) == (not synergy.decided)
    assert "no reduction" not in text
    assert ("confounded with the budget" in text) == (
        "undecided" not in conclusion and " more parameters" in conclusion
    )
    if synergy.value is None:
        assert "[" not in conclusion or "undecided" in conclusion


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (7.254, "7.25"),
        (37.12, "37.1"),
        (371.2, "371"),
        (999.9, "1 000"),
        (19_621, "19 600"),
        (1_234_567, "1 230 000"),
        (0.0, "0"),
        (0.1234, "0.123"),
        (40, "40"),
    ],
)
def test_numbers_have_three_digits(value: float, said: str) -> None:
    assert wording.number(value) == said


@pytest.mark.parametrize("width", [50, 80, 160])
def test_a_terminal_shows_the_same_words(width: int) -> None:
    found = answer_table(answer(make_spec(), bracketed()))
    console = Console(width=width, record=True, file=io.StringIO(), force_terminal=True)
    console.print(render(found))
    text = console.export_text()
    words = " ".join(text.split())
    assert len(found.learned) == 2
    for line in (*found.learned, *found.conclusions, *found.notes):
        assert line.strip() in words
    if width >= 80:
        for row in found.rows:
            for cell in row.cells:
                assert cell.strip() in words
    assert max(len(line) for line in text.splitlines()) <= width


def test_what_the_budget_limits_is_said() -> None:
    found = make_answer(transition(Verdict.FOUND, FOUND), transition(Verdict.FOUND, FOUND), UNKNOWN)
    limited, free = (replace(mix, budget_limited=so) for mix, so in zip(found.mixes, (True, False), strict=True))
    said = plain(answer_table(replace(found, mixes=(limited, free))))
    assert "add is budget-limited: with twice the steps a smaller size learned" in said
    assert "add+prod: the largest size that failed did not learn with twice the steps either" in said
    assert "budget" not in plain(answer_table(found))
