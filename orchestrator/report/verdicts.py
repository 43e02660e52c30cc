"""Whether what was found agrees with what was expected. Pure: statements and answers in, rows out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.report import wording
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.comparison import Compared
from orchestrator.report.saying import rests_on, size_words
from orchestrator.report.scaling import mix_scalings
from orchestrator.space.expected import INSIDE, ORDER, Expectation
from orchestrator.transition.types import Synergy, Verdict

NO_FEWER = 1.3
"""A mix whose ratio certainly lies under this needs no fewer parameters in any sense that matters: no interval around 1
excludes every saving."""


class Agreement(StrEnum):
    """How a finding stands to a statement."""

    AGREES = "agrees"
    DISAGREES = "disagrees"
    UNDECIDED = "undecided at this scale"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Row:
    """One statement beside what was found. ``about`` names the mix and variant, ``found`` says it with its interval;
    ``sweeps`` are the ids it rests on."""

    space: str
    about: str
    claim: str
    source: str
    found: str
    agreement: Agreement
    sweeps: tuple[str, ...] = ()


def judge(space: str, variant: str, expected: Sequence[Expectation], answer: Answer, sweep: str) -> list[Row]:
    """The statements about one sweep's savings and transitions, a row for each mix they are about."""
    rows = []
    for each in expected:
        if each.finds in INSIDE + ORDER:
            continue
        for mix in _mixes(each, answer):
            found, agreement = "", Agreement.UNDECIDED
            if each.finds == "transition":
                found, agreement = (
                    f"{answer.size_axis} {size_words(answer, mix.target.transition)}",
                    _within(mix.target.transition.verdict),
                )
            elif mix.synergy_total is not None:
                found, agreement = _saving(answer, mix, mix.synergy_total), _agreement(each, mix.synergy_total)
            rows.append(Row(space, about_words(mix.mix, variant), each.claim, each.source, found, agreement, (sweep,)))
    return rows


def judge_law(space: str, expected: Expectation, compared: Sequence[Compared], sweeps: Sequence[str]) -> list[Row]:
    """A statement about an exponent over all variants, a row for each mix it is about."""
    rows = []
    for each in mix_scalings(compared):
        if expected.mix not in ("*", each.mix):
            continue
        found, agreement = "too few transitions lie within the sizes", Agreement.UNDECIDED
        if (law := each.law) is not None:
            found = f"exponent {law.exponent:.2f} [{law.low:.2f}, {law.high:.2f}]"
            if law.bounded:
                found += ", transitions beyond the sizes counted at the largest"
            elif law.high < expected.limit:
                agreement = Agreement.AGREES
            elif law.low > expected.limit:
                agreement = Agreement.DISAGREES
        rows.append(Row(space, each.mix, expected.claim, expected.source, found, agreement, tuple(sweeps)))
    return rows


def not_run(space: str, variant: str, expected: Expectation, mixes: Sequence[str], why: str) -> list[Row]:
    """The rows of a statement without a sweep. ``mixes`` are the space's, the baseline first."""
    named = mixes[1:] if expected.mix == "*" else [expected.mix]
    return [
        Row(space, about_words(mix, variant), expected.claim, expected.source, why, Agreement.NOT_RUN) for mix in named
    ]


def _mixes(expected: Expectation, answer: Answer) -> list[MixAnswer]:
    about = answer.mixes if expected.finds == "transition" and expected.mix != "*" else answer.mixes[1:]
    beside = [mix for mix in about if mix.synergy_total is not None or expected.finds == "transition"]
    return beside if expected.mix == "*" else [mix for mix in beside if expected.mix in (mix.mix, mix.plain)]


def _agreement(expected: Expectation, found: Synergy) -> Agreement:
    fewer = found.decided and found.low is not None and found.low >= 1
    none = _hardly_fewer(found)
    if expected.finds == "no fewer":
        fewer, none = none, fewer
    return Agreement.AGREES if fewer else Agreement.DISAGREES if none else Agreement.UNDECIDED


def _hardly_fewer(found: Synergy) -> bool:
    """Whether no saving that matters is left."""
    return found.high is not None and found.high < NO_FEWER


def _within(verdict: Verdict) -> Agreement:
    """Whether there is a transition at or below the largest size."""
    if verdict in (Verdict.FOUND, Verdict.BELOW):
        return Agreement.AGREES
    return Agreement.DISAGREES if verdict in (Verdict.ABOVE, Verdict.PLATEAU) else Agreement.UNDECIDED


def _saving(answer: Answer, mix: MixAnswer, found: Synergy) -> str:
    """``13.9 against 13.8: undecided: 1.8x fewer to 1.8x more``, and what a decided saving rests on where that is
    little."""
    baseline = answer.mix(answer.baseline_of(mix))
    here, there = (size_words(answer, each.target.transition) for each in (mix, baseline))
    rests, said = rests_on(answer, mix), wording.saving(found)
    if not found.decided and _hardly_fewer(found):  # Whether it needs more is open; that it helps is not.
        said = said.replace("undecided", f"fewer by less than {NO_FEWER:g}x if at all")
    return f"{answer.size_axis} {here} against {there}: {said}" + (f", resting on {rests}" if rests else "")


def about_words(mix: str, variant: str) -> str:
    """A mix and the variant it was asked in."""
    return f"{mix} ({variant})" if variant else mix
