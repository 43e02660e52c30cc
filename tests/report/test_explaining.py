"""A sweep in plain words: true for every verdict, and no number that the answer does not have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator.report.answer import Answer, Count, answer
from orchestrator.report.explaining import explain
from orchestrator.report.table import answer_table
from orchestrator.store.records import RunRecord
from orchestrator.store.run_files import Storage
from orchestrator.transition.shares import size_shares
from orchestrator.transition.types import Estimate, Point, SizeShare, Synergy, Transition, Verdict
from tests.report.samples import FOUND, NOWHERE, bracketed, make_answer, make_spec, transition

SHARES = tuple(SizeShare(size, learned, 4, 0.0, 1.0) for size, learned in ((8, 0), (32, 1), (64, 4)))
LUCKY = (*SHARES[:2], SizeShare(64, 1, 4, 0.0, 1.0))
NEVER = tuple(replace(share, learned=0) for share in SHARES)
ALWAYS = tuple(replace(share, learned=4) for share in SHARES)
UNKNOWN = Synergy(None, None, None, decided=False)

CASES = {
    Verdict.FOUND: (
        replace(transition(Verdict.FOUND, FOUND), shares=SHARES),
        "With add it is learned from units 37.1 [33, 41] on, 371 [330, 410] parameters",
        "Next: no run is needed",
    ),
    Verdict.ABOVE: (
        replace(transition(Verdict.ABOVE, Estimate(None, 64.0, None)), shares=NEVER),
        "With add it is not learned up to units 64, the largest tried (0 of 12 runs learned it)",
        "for add a size beyond 64, such as 96",
    ),
    Verdict.BELOW: (
        replace(transition(Verdict.BELOW, Estimate(None, None, 8.0)), shares=ALWAYS),
        "With add it is learned already at units 8, the smallest tried (12 of 12 runs learned it)",
        "for add a size under 8, such as 5",
    ),
    Verdict.PLATEAU: (
        replace(transition(Verdict.PLATEAU), shares=LUCKY),
        "With add there is no transition: accuracy levels off (plateau at 0.75; 2 of 12 runs learned it), and size "
        "does not help",
        "for add longer runs at 64",
    ),
    Verdict.FALLS: (
        replace(transition(Verdict.FALLS, FOUND), shares=LUCKY),
        "With add sizes learned it and larger ones fail again (37.1 [33, 41], falls again; 2 of 12 runs learned it)",
        "for add 3 more seeds at units ",
    ),
    Verdict.NEAR_FLOOR: (
        transition(Verdict.NEAR_FLOOR),
        "With add nothing can be said: the best constant answer is nearly as good as what counts as learned",
        "for add test data whose best constant answer scores less",
    ),
    Verdict.UNDECIDED: (
        replace(transition(Verdict.UNDECIDED, Estimate(None, 16.0, None)), shares=SHARES),
        "With add it is undecided, at least 16: its runs are too few, or contradict each other (5 of 12 runs learned "
        "it)",
        "for add 3 more seeds at units ",
    ),
}


def told(found: Answer, state: str = "finished") -> str:
    return "\n".join(map(str, explain(make_spec(), found, [], state)))


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_has_its_words_and_no_other_s(verdict: Verdict) -> None:
    found, said, then = CASES[verdict]
    other = replace(transition(Verdict.FOUND, FOUND), shares=SHARES)
    text = told(make_answer(found, other, UNKNOWN))
    assert said in text
    assert then in text
    assert ("With add it is learned from" in text) == (verdict is Verdict.FOUND)
    assert "In sum, undecided: there is no transition by which to compare add+prod with add." in text
    assert " fewer parameters than add [" not in text


@pytest.mark.parametrize(
    ("synergy", "said"),
    [
        (
            Synergy(2.9, 2.0, 4.9, decided=True, p_benefit=0.99),
            "In sum, add+prod needs 2.9x fewer parameters than add [2.0, 4.9]",
        ),
        (Synergy(None, 4.2, None, decided=True), "In sum, add+prod needs >= 4.2x fewer parameters than add"),
        (Synergy(0.5, 0.3, 0.8, decided=True), "In sum, add+prod needs 2.0x more parameters than add [1.2, 3.3]"),
        (
            Synergy(0.9, 0.5, 1.7, decided=False),
            "In sum, undecided: add+prod may need up to 1.7x fewer or up to 2.0x more parameters than add",
        ),
    ],
)
def test_every_kind_of_comparison(synergy: Synergy, said: str) -> None:
    mine = replace(transition(Verdict.FOUND, FOUND), shares=(SHARES[0], replace(SHARES[2], size=40), SHARES[2]))
    text = told(make_answer(mine, mine, synergy))
    assert said in text
    assert ("add+prod needs fewer parameters with probability 0.99" in text) == (synergy.p_benefit is not None)


@pytest.mark.parametrize(
    ("benefit", "said"), [(1.0, "above 0.99"), (0.9949, "0.99"), (0.4, "0.40"), (0.0, "under 0.01")]
)
def test_no_probability_is_said_to_be_certain(benefit: float, said: str) -> None:
    mine = replace(transition(Verdict.FOUND, FOUND), shares=SHARES)
    text = told(make_answer(mine, mine, Synergy(0.9, 0.5, 1.7, decided=False, p_benefit=benefit)))
    assert f"add+prod needs fewer parameters with probability {said}" in text


def test_a_mix_that_was_stopped_by_hand_says_so_and_what_cannot_be_compared_has_no_probability() -> None:
    found = make_answer(transition(Verdict.FOUND, FOUND), transition(Verdict.UNDECIDED, NOWHERE), UNKNOWN)
    unknown = replace(UNKNOWN, p_benefit=0.43)
    stopped = replace(found, mixes=(found.mixes[0], replace(found.mixes[1], stopped=True, synergy_total=unknown)))
    text = told(stopped)
    assert "add+prod undecided (12 runs, stopped by hand)." in text
    assert "0.43" not in text


def test_what_limits_a_finding_is_said() -> None:
    found = make_answer(transition(Verdict.ABOVE, NOWHERE), transition(Verdict.FOUND, FOUND), UNKNOWN)
    assert "another training recipe, for this was asked under one" in told(found)
    assert "more training of add, if the budget is what held it back" in told(found)
    limited = replace(found, mixes=(replace(found.mixes[0], budget_limited=True), found.mixes[1]))
    assert "a smaller size of which learned with more steps" in told(limited)
    assert "2 runs that failed" in told(found)


def test_a_real_answer_is_told_in_its_own_numbers() -> None:
    found = answer(make_spec(), bracketed())
    text = told(found)
    table = answer_table(found)
    assert table.conclusions[0].strip() in text
    for row in table.rows[:2]:
        assert row.cells[1] in text
        assert row.cells[2] in text


def test_without_runs_nothing_is_claimed() -> None:
    empty = answer(make_spec(), [])
    said = explain(make_spec(), empty, [], "interrupted")
    assert list(map(str, said[1:])) == ["Found: nothing yet: no run has ended; the sweep is interrupted."]
    assert "so this may change" in told(answer(make_spec(), bracketed()), "running")


def test_a_transition_alone_has_no_comparison() -> None:
    found: Transition = replace(transition(Verdict.FOUND, FOUND), shares=SHARES)
    both = make_answer(found, found, UNKNOWN)
    text = told(replace(both, mixes=both.mixes[:1]))
    assert "In sum, " not in text
    assert "fewer" not in text


@pytest.mark.parametrize(
    ("accuracies", "said"),
    [
        ((0.99, 0.81, 0.36), "2 of 3 learned, not seed 2"),
        ((0.99, 0.3, 0.36, 0.8), "2 of 4 learned, not seeds 1 and 2"),
        ((0.1, 0.3, 0.9, 0.2), "1 of 4 learned, only seed 2"),
    ],
)
def test_the_seeds_that_disagree_are_named(accuracies: tuple[float, ...], said: str) -> None:
    points = tuple(Point(32, seed, accuracy, 0.1) for seed, accuracy in enumerate(accuracies))
    level = 0.8  # A run at the level itself has learned.
    shares = size_shares(points, level, 0.9)
    mixed = replace(transition(Verdict.FOUND, FOUND), points=points, level=level, shares=shares)
    alike = replace(transition(Verdict.FOUND, FOUND), shares=(SHARES[0], SHARES[2]))
    assert f"Runs that disagree: add at units 32 ({said})." in told(make_answer(mixed, alike, UNKNOWN))


def test_where_all_seeds_of_a_size_agree_that_is_said_and_nothing_where_no_size_had_two() -> None:
    alike = replace(transition(Verdict.FOUND, FOUND), shares=(SHARES[0], SHARES[2]))
    assert "Runs that disagree: none: wherever several seeds" in told(make_answer(alike, alike, UNKNOWN))
    single = replace(alike, shares=(SizeShare(8, 0, 1, 0.0, 1.0), SizeShare(64, 1, 1, 0.0, 1.0)))
    assert "Runs that disagree" not in told(make_answer(single, single, UNKNOWN))


def test_of_many_sizes_at_which_runs_disagree_the_rest_is_counted() -> None:
    many = tuple(SizeShare(size, 1, 2, 0.0, 1.0) for size in range(10, 19))
    text = told(make_answer(replace(transition(Verdict.FOUND, FOUND), shares=many), large(Verdict.FOUND), UNKNOWN))
    assert "15 (1 of 2), and 3 more sizes." in text
    assert "16 (1 of 2)" not in text


def large(verdict: Verdict) -> Transition:
    return replace(
        transition(verdict, Estimate(None, 4096.0, None)),
        points=(Point(64, 0, 0.1, 0.1), Point(4096, 0, 0.1, 0.1)),
        shares=(SizeShare(64, 0, 1, 0.0, 1.0), SizeShare(4096, 1, 3, 0.0, 1.0)),
    )


def test_what_holds_of_several_mixes_is_said_once() -> None:
    above = large(Verdict.ABOVE)
    text = told(make_answer(above, above, UNKNOWN))
    assert "more training of add and add+prod, if the budget is what held them back (no longer run was made)" in text


def test_sizes_are_written_as_in_the_tables() -> None:
    counts = (Count(64, 640.0, 640.0), Count(4096, 40960.0, 40960.0))
    above = large(Verdict.ABOVE)
    text = told(replace(make_answer(above, above, UNKNOWN), counts=counts))
    said = (
        "are units 64 to 4 096",
        "up to units 4 096",
        "add at units 4 096 (1 of 3 learned)",
        "a size beyond 4 096, such as 6 144",
    )
    for each in said:
        assert each in text
    assert "4096" not in text


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (Verdict.ABOVE, "for add a size beyond 64, such as 96, more than 21 s of training a run"),
        (Verdict.BELOW, "for add a size under 8, such as 5, less than 21 s of training a run"),
        (Verdict.PLATEAU, "for add longer runs at 64, more than 21 s of training a run"),
    ],
)
def test_what_runs_beyond_the_sizes_take(verdict: Verdict, said: str, tmp_path: Path) -> None:
    points = (Point(8, 0, 0.1, 0.1), Point(64, 0, 0.9, 0.1))
    found = replace(transition(verdict, CASES[verdict][0].relative), shares=SHARES, points=points)
    assert said in "\n".join(
        map(str, explain(make_spec(), make_answer(found, found, UNKNOWN), taking(21.0, tmp_path), "finished"))
    )


def taking(seconds: float, directory: Path) -> list[RunRecord]:
    """Runs that each took so long to train."""
    storage = Storage(directory)
    return [
        RunRecord(f"run {place}", config, replace(outcome, measures={"seconds": seconds}), storage)
        for place, (config, outcome) in enumerate(bracketed())
    ]


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.1, "less than 1 s of training (as at "), (21.0, "about 1 min 03 s of training (as at ")]
)
def test_what_more_seeds_take(seconds: float, said: str, tmp_path: Path) -> None:
    wanting = replace(transition(Verdict.UNDECIDED, Estimate(None, 16.0, None)), shares=SHARES)
    taken = taking(seconds, tmp_path)
    assert said in "\n".join(map(str, explain(make_spec(), make_answer(wanting, wanting, UNKNOWN), taken, "finished")))
