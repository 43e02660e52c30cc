"""Answers as people read them. Renew after a change of wording: ``pytest tests/golden --snapshot-update``."""

from __future__ import annotations

import io
from dataclasses import replace
from itertools import product

import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from orchestrator.report.answer import Answer, MixAnswer, answer
from orchestrator.report.side_by_side import Compared
from orchestrator.report.table import answer_table, comparison_view, plain
from orchestrator.report.words.next_step import explain, next_step
from orchestrator.transition.comparison import synergy as ratio
from orchestrator.transition.types import Estimate, SizeShare, Synergy, Transition, Verdict
from tests.report.samples import FOUND, NOWHERE, bracketed, called, make_answer, make_spec, train, transition

SHARES = tuple(SizeShare(size, learned, 4) for size, learned in ((8, 0), (32, 1), (64, 4)))
NEVER = tuple(replace(share, learned=0) for share in SHARES)
ALWAYS = tuple(replace(share, learned=4) for share in SHARES)
LEARNED = replace(transition(Verdict.FOUND, FOUND), shares=SHARES)
SMALLER = replace(transition(Verdict.FOUND, Estimate(20.3, 18.0, 23.0)), shares=(SHARES[0], SHARES[2]))
VERDICTS = {
    Verdict.FOUND: LEARNED,
    Verdict.ABOVE: replace(transition(Verdict.ABOVE, Estimate(None, 64.0, None)), shares=NEVER),
    Verdict.BELOW: replace(transition(Verdict.BELOW, Estimate(None, None, 8.0)), shares=ALWAYS),
    Verdict.PLATEAU: replace(transition(Verdict.PLATEAU), shares=(*SHARES[:2], replace(SHARES[2], learned=1))),
    Verdict.FALLS: replace(LEARNED, verdict=Verdict.FALLS),
    Verdict.NEAR_FLOOR: replace(transition(Verdict.NEAR_FLOOR), level=0.76),
    Verdict.UNDECIDED: replace(transition(Verdict.UNDECIDED, Estimate(None, 16.0, None)), shares=SHARES),
}
SYNERGIES = {
    "fewer": Synergy(2.9, 2.0, 4.9, decided=True),
    "at_least_fewer": Synergy(None, 4.2, None, decided=True),
    "more": Synergy(0.5, 0.3, 0.8, decided=True),
    "at_least_more": Synergy(None, None, 0.7, decided=True),
    "undecided": Synergy(1.0, 0.52, 2.0, decided=False),
    "at_most": Synergy(None, 0.7, None, decided=False),
    "at_least": Synergy(None, None, 1.4, decided=False),
    "otherwise_at_absolute": Synergy(1.5, 1.1, 2.1, decided=False),
    "no_interval": Synergy(1.4, None, None, decided=False),
}


def told(found: Answer) -> str:
    """The answer as the terminal prints it, then ``explain``."""
    spec = make_spec()
    paragraphs = "\n".join(map(str, explain(spec, found, "finished")))
    return f"{plain(answer_table(found), next_step(spec, found))}\n\n{paragraphs}"


def beside(name: str, found: Answer, **changes: object) -> Answer:
    """The answer with changes of one of its mixes."""
    return replace(
        found,
        mixes=tuple(replace(mix, **changes) if mix.mix == name else mix for mix in found.mixes),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("name", SYNERGIES)
def test_every_comparison(name: str, snapshot: SnapshotAssertion) -> None:
    assert told(make_answer(LEARNED, SMALLER, SYNERGIES[name])) == snapshot


@pytest.mark.parametrize("second", [Verdict.FOUND, Verdict.ABOVE])
@pytest.mark.parametrize("first", Verdict)
def test_every_verdict(first: Verdict, second: Verdict, snapshot: SnapshotAssertion) -> None:
    compared = ratio(VERDICTS[first], VERDICTS[second], lambda size: 10 * size)
    assert told(make_answer(VERDICTS[first], VERDICTS[second], compared)) == snapshot


def caveats() -> dict[str, Answer]:
    """Answers that need a caveat."""
    fewer = make_answer(LEARNED, SMALLER, SYNERGIES["fewer"])
    more = make_answer(SMALLER, LEARNED, SYNERGIES["more"])
    joint: MixAnswer = more.mixes[1]
    lone = (SHARES[0], SizeShare(64, 1, 1))
    jagged = tuple(SizeShare(size, learned, 1) for size, learned in ((11, 0), (12, 1), (13, 0), (64, 1)))
    return {
        "no_runs": answer(make_spec(), []),
        "leak": replace(fewer, cautions=("Leak: a test example may be a training example in another order.",)),
        "stopped_by_hand": beside("add", fewer, stopped=True),
        "single_seed": make_answer(replace(LEARNED, shares=lone), SMALLER, SYNERGIES["fewer"]),
        "non_monotonic": make_answer(replace(LEARNED, shares=jagged), SMALLER, SYNERGIES["fewer"]),
        "bimodal": make_answer(replace(LEARNED, bimodal=True, half=Estimate(30, 24, 36)), SMALLER, SYNERGIES["fewer"]),
        "other_budget_agrees": replace(more, mixes=(more.mixes[0], joint, called("add+prod x2", joint))),
        "other_budget_open": replace(
            more,
            mixes=(
                more.mixes[0],
                joint,
                called("add+prod x2", replace(joint, synergy_total=SYNERGIES["undecided"])),
            ),
        ),
        "one_mix": replace(fewer, mixes=fewer.mixes[:1]),
        "undecided_without_runs": make_answer(
            transition(Verdict.UNDECIDED, NOWHERE), SMALLER, SYNERGIES["no_interval"]
        ),
    }


CAVEATS = caveats()


@pytest.mark.parametrize("name", CAVEATS)
def test_caveats(name: str, snapshot: SnapshotAssertion) -> None:
    assert told(CAVEATS[name]) == snapshot


def test_a_real_answer(snapshot: SnapshotAssertion) -> None:
    assert told(answer(make_spec(), bracketed())) == snapshot


def test_nothing_learned_asks_for_a_longer_budget(snapshot: SnapshotAssertion) -> None:
    spec = make_spec(sizes=(8, 12))
    found = answer(spec, train(spec, list(product(("add", "add+prod"), (8, 12)))))
    assert plain(answer_table(found), next_step(spec, found)) == snapshot


@pytest.mark.parametrize("width", [80, 160])
def test_answers_side_by_side(width: int, snapshot: SnapshotAssertion) -> None:
    compared = [
        Compared(label, make_answer(LEARNED, SMALLER, SYNERGIES[kind]))
        for label, kind in (("n5", "fewer"), ("n7", "undecided"), ("n11", "more"))
    ]
    console = Console(width=width, file=io.StringIO())
    console.print(comparison_view(compared, "variant"))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= width
    assert "\n".join(line.rstrip() for line in text.splitlines()) == snapshot


@pytest.mark.parametrize(
    ("relative", "size"),
    [
        (Estimate(37.1, 33, None), "37.1 [33, above 64]"),
        (Estimate(9.0, None, 12), "9 [below 8, 12]"),
        (Estimate(30.0, None, None), "undecided, about 30"),
        (Estimate(2.0, None, 8.0), "undecided, at most 8"),  # Nothing was seen outside the sizes tested.
        (Estimate(7.0, None, 12.0), "undecided, at most 12"),
        (Estimate(90.0, 64.0, None), "undecided, at least 64"),
        (Estimate(90.0, 32.0, 99.0), "undecided, at least 32"),
    ],
)
def test_no_size_outside_those_tested_is_printed(relative: Estimate, size: str) -> None:
    found: Transition = transition(Verdict.FOUND, relative)
    assert answer_table(make_answer(found, found, SYNERGIES["undecided"])).rows[0].cells[1] == size
