"""Answers as users see them. Update after a change of wording: ``pytest tests/golden --snapshot-update``."""

from __future__ import annotations

import io
from dataclasses import replace
from itertools import product

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from orchestrator.report.answer import Answer, MixAnswer, answer
from orchestrator.report.answer_table import answer_table, comparison_view, plain
from orchestrator.report.sentences.explanation import explain
from orchestrator.report.sentences.next_step import next_step
from orchestrator.report.side_by_side import LabeledAnswer
from orchestrator.transition.types import Estimate, Point, SizeShare, Synergy, Verdict
from tests.report.samples import (
    FOUND,
    NOWHERE,
    bracketed,
    called,
    compared,
    in_order,
    make_answer,
    make_spec,
    train,
    transition,
)

SHARES = tuple(SizeShare(size, learned, 4) for size, learned in ((8, 0), (32, 1), (64, 4)))
NEVER = tuple(replace(share, learned=0) for share in SHARES)
ALWAYS = tuple(replace(share, learned=4) for share in SHARES)
FALLS = tuple(SizeShare(size, learned, 6) for size, learned in ((8, 0), (16, 6), (32, 5), (64, 0)))
LEARNED = replace(transition(Verdict.FOUND, FOUND), shares=SHARES)
SMALLER = replace(transition(Verdict.FOUND, Estimate(20.3, 18.0, 23.0)), shares=(SHARES[0], SHARES[2]))
VERDICTS = {
    Verdict.FOUND: LEARNED,
    Verdict.LEVELS_OFF: replace(transition(Verdict.LEVELS_OFF, FOUND), shares=SHARES, level=0.64),
    Verdict.ABOVE: replace(transition(Verdict.ABOVE, Estimate(None, 64.0, None)), shares=NEVER),
    Verdict.BELOW: replace(transition(Verdict.BELOW, Estimate(None, None, 8.0)), shares=ALWAYS),
    Verdict.NEAR_FLOOR: transition(Verdict.NEAR_FLOOR),
    Verdict.UNDECIDED: replace(transition(Verdict.UNDECIDED, Estimate(None, 16.0, None)), shares=SHARES),
}
FEWER = compared([(20, True, False)] * 3 + [(24, True, False)] * 2)
COMPARISONS = {
    "fewer": FEWER,
    "at_least": compared([(20, True, False)] * 5 + [(20, True, False, 28)] * 5),
    "more": compared([(20, False, True)] * 5),
    "at_least_more": compared([(20, False, True)] * 5 + [(28, False, True, 20)] * 5),
    "alike": compared([(20, True, True), (20, False, False), (24, True, False), (24, True, True), (28, False, True)]),
    "leaning": compared([(20, True, False), (20, True, True), (24, True, False)]),
    "neither": compared([(20, False, False)] * 3),
    "incomplete": compared([]),
    "no_pairs": None,
}
RATIO = Synergy(2.9, 2.0, 4.9)


def shown(result: Answer) -> str:
    """Return the answer as the terminal prints it."""
    return plain(result, next_step(make_spec(), result))


def explained(result: Answer) -> str:
    """Return the answer as the terminal prints it, then the output of ``explain``."""
    return "\n".join([shown(result), "", *map(str, explain(make_spec(), result, "finished"))])


def changed(name: str, result: Answer, **changes: object) -> Answer:
    """Return the answer with changes to one of its mixes."""
    return replace(
        result,
        mixes=tuple(replace(mix, **changes) if mix.mix == name else mix for mix in result.mixes),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("name", COMPARISONS)
def test_every_comparison(name: str, snapshot: SnapshotAssertion) -> None:
    assert shown(make_answer(LEARNED, SMALLER, COMPARISONS[name], RATIO)) == snapshot


@pytest.mark.parametrize("verdict", VERDICTS)
def test_every_verdict(verdict: Verdict, snapshot: SnapshotAssertion) -> None:
    assert explained(make_answer(VERDICTS[verdict], LEARNED, COMPARISONS["leaning"])) == snapshot


def special_cases() -> dict[str, Answer]:
    """Return answers that need a caveat or a special sentence."""
    fewer = make_answer(LEARNED, SMALLER, FEWER, RATIO)
    more = make_answer(SMALLER, LEARNED, COMPARISONS["more"])
    joint: MixAnswer = more.mixes[1]
    low = tuple(
        Point(size, seed, accuracy, 0.1) for size, accuracy in ((8, 0.1), (32, 0.71), (64, 0.76)) for seed in (0, 1)
    )
    return {
        "no_runs": answer(make_spec(), []),
        "leak": replace(fewer, cautions=("In this sweep a test example may be a training example in another order.",)),
        "stopped_by_hand": changed("add", fewer, stopped=True),
        "rarer_with_size": make_answer(LEARNED, replace(SMALLER, shares=FALLS), FEWER),
        "levels_off": make_answer(replace(VERDICTS[Verdict.ABOVE], points=low), SMALLER, FEWER),
        "other_budget_agrees": replace(more, mixes=(more.mixes[0], joint, called("add+prod x2", joint))),
        "one_mix": replace(fewer, mixes=fewer.mixes[:1]),
        "undecided_without_runs": make_answer(transition(Verdict.UNDECIDED, NOWHERE), SMALLER),
    }


CASES = special_cases()


@pytest.mark.parametrize("name", CASES)
def test_special_cases(name: str, snapshot: SnapshotAssertion) -> None:
    assert explained(CASES[name]) == snapshot


def test_a_real_answer(snapshot: SnapshotAssertion) -> None:
    spec = make_spec()
    assert explained(answer(spec, bracketed(), blocks=in_order(spec))) == snapshot


def test_nothing_learned_asks_for_a_longer_budget(snapshot: SnapshotAssertion) -> None:
    spec = make_spec(sizes=(8, 12))
    result = answer(spec, train(spec, list(product(("add", "add+prod"), (8, 12)))))
    assert plain(result, next_step(spec, result)) == snapshot


@pytest.mark.parametrize("width", [80, 160])
def test_answers_side_by_side(width: int, snapshot: SnapshotAssertion) -> None:
    several = [
        LabeledAnswer(label, make_answer(LEARNED, SMALLER, COMPARISONS[kind]))
        for label, kind in (("n5", "at_least"), ("n7", "alike"), ("n11", "more"))
    ]
    console = Console(width=width, file=io.StringIO())
    console.print(comparison_view(several, "variant"))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert "\n".join(line.rstrip() for line in text.splitlines()) == snapshot


@pytest.mark.parametrize(
    ("relative", "size"),
    [
        (Estimate(37.1, 33, None), "37.1 [33, above 64]"),
        (Estimate(9.0, None, 12), "9 [below 8, 12]"),
        (Estimate(30.0, None, None), "about 30"),
        (Estimate(2.0, None, 8.0), "at most 8"),  # No runs exist outside the tested sizes.
        (Estimate(7.0, None, 12.0), "at most 12"),
        (Estimate(90.0, 64.0, None), "at least 64"),
        (Estimate(90.0, 32.0, 99.0), "at least 32"),
    ],
)
def test_no_size_outside_the_tested_sizes_is_printed(relative: Estimate, size: str) -> None:
    estimate = transition(Verdict.FOUND, relative)
    assert answer_table(make_answer(estimate, estimate)).rows[0][1] == size
