"""What is suggested after an answer: nothing where all is decided, else what would decide it, to be pasted."""

from __future__ import annotations

from dataclasses import replace

from orchestrator.drive.stopping import Command
from orchestrator.report.answer import Answer, answer
from orchestrator.report.next_steps import next_steps
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import Verdict
from tests.report.samples import SIZES, bracketed, make_spec

SPEC = make_spec()
LISTED = ", ".join(map(str, SIZES))


def with_verdicts(*verdicts: Verdict, decided: bool = True) -> Answer:
    """An answer whose mixes have these verdicts."""
    found = answer(SPEC, bracketed())
    mixes = []
    for mix, verdict in zip(found.mixes, verdicts, strict=True):
        target = replace(mix.target, transition=replace(mix.target.transition, verdict=verdict))
        synergy = mix.synergy_total and replace(mix.synergy_total, decided=decided)
        mixes.append(replace(mix, tasks=(target, *mix.tasks[1:]), synergy_total=synergy))
    return replace(found, mixes=tuple(mixes))


def said(answer: Answer, asked: SweepSpec = SPEC) -> list[tuple[str, tuple[str, ...]]]:
    return [(step.why, step.overrides) for step in next_steps(asked, answer)]


def test_where_all_is_decided_nothing_is_suggested() -> None:
    assert said(with_verdicts(Verdict.FOUND, Verdict.FOUND)) == []


def test_beyond_the_sizes_others_are_suggested_that_can_be_trained() -> None:
    assert said(with_verdicts(Verdict.ABOVE, Verdict.FOUND)) == [
        ("add: not learned up to 128; the units 256 would say more", (f"sizes=[{LISTED}, 256]",))
    ]
    assert said(with_verdicts(Verdict.FOUND, Verdict.BELOW)) == [
        ("add+prod: learned from 8 on already; the units 4 would say more", (f"sizes=[4, {LISTED}]",))
    ]
    even = make_spec(sizes=(6, 16, 32))  # Three units cannot be trained: they must be even.
    assert said(with_verdicts(Verdict.FOUND, Verdict.BELOW), even) == [("add+prod: learned from 6 on already", ())]


def test_what_is_undecided_wants_more_seeds() -> None:
    assert said(with_verdicts(Verdict.UNDECIDED, Verdict.FOUND)) == [
        ("the transition of add is undecided; more seeds would narrow it", ("seeds=6", "search.precision=0.165"))
    ]
    assert said(with_verdicts(Verdict.FOUND, Verdict.FOUND, decided=False)) == [
        ("the comparison of add+prod is undecided; more seeds would narrow it", ("seeds=6", "search.precision=0.165"))
    ]


def test_a_budget_that_would_keep_more_runs_from_being_taken_is_raised() -> None:
    open_question = with_verdicts(Verdict.FOUND, Verdict.FOUND, decided=False)
    budgeted = make_spec(search={"method": "bayes", "max_cost": 420, "precision": 0.06})
    assert said(open_question, budgeted)[0][1] == ("seeds=6", "search.precision=0.05", "search.max_cost=1680")
    assert said(open_question, make_spec(search={"method": "grid"}))[0][1] == ("seeds=6",)


def test_a_plateau_asks_for_the_budget() -> None:
    [(why, overrides)] = said(with_verdicts(Verdict.PLATEAU, Verdict.FOUND))
    assert "would more steps help?" in why
    assert overrides == ("search.budget_audit=true",)
    SweepSpec.model_validate(SPEC.to_dict() | {"search": {"budget_audit": True}})


def test_the_command_can_be_pasted() -> None:
    command = Command("python -m orchestrator run x.yaml --set seeds=2")
    assert command.resumed("x-1") == "python -m orchestrator run x.yaml --set seeds=2 --resume x-1"
    assert command.extended("x-1", "n5", ["sizes=[8, 16]"]) == (
        "python -m orchestrator run x.yaml --set seeds=2 --set 'sizes=[8, 16]' --extend x-1"
    )
    several = replace(command, several=True)
    assert several.resumed("x-1").endswith(" --resume")
    assert " --variant n5 --set 'sizes=[8, 16]' --extend x-1" in several.extended("x-1", "n5", ["sizes=[8, 16]"])
