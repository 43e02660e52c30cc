"""Verdicts on statements: a finding is held against what a source claims. Pure: statements and answers in, rows out.

The rule, for every statement about what a mix saves, at 90 %:

* *undecided*: the comparison is. The ratio's interval holds 1 (and savings of 1.3x), or a curve levels off or falls
  again, or fewer than four runs a side lie between the two transitions, or they differ no more than by chance.
* A claim of N times fewer parameters *agrees* if the interval excludes 1 and holds N. The saving is *smaller than
  claimed*, or *larger*, if the interval excludes 1 and lies below N, or above it. The claim is *contradicted* if the
  mix needs more, or if the interval holds 1 and ends below 1.3.
* A claim of fewer parameters without a number is one of any factor of 1.3 or more.
* A claim of no effect *agrees* if the interval ends below 1.3, and is *contradicted* if it begins there.
* A statement with a control is undecided unless the control is learned: what fails there says nothing of the mix.

A claim about a number of a probe agrees, or is contradicted, if an exact or random permutation of its runs is as
extreme with probability .05 at most; three runs cannot decide it (inside.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.scaling import mix_scalings
from orchestrator.report.side_by_side import Compared
from orchestrator.report.words.findings import rests_on, saving, size_words
from orchestrator.space.expected import INSIDE, NO_FEWER, ORDER, Expectation
from orchestrator.transition.types import Doubt, Synergy, Verdict


class Agreement(StrEnum):
    """A finding's relation to a statement, by the rule above."""

    AGREES = "agrees"
    SMALLER = "smaller than claimed"
    LARGER = "larger than claimed"
    CONTRADICTED = "contradicted"
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
            if failed := _failed_control(each, answer):
                found, agreement = found + failed, Agreement.UNDECIDED
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
                agreement = Agreement.CONTRADICTED
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
    """The verdict on what a mix saves, by the rule above."""
    low, high = found.low or 0.0, math.inf if found.high is None else found.high
    if found.doubt in (Doubt.LEVELS_OFF, Doubt.FALLS):
        return Agreement.UNDECIDED
    if expected.finds == "no fewer":
        if high < NO_FEWER:
            return Agreement.AGREES
        return Agreement.CONTRADICTED if found.decided and low >= NO_FEWER else Agreement.UNDECIDED
    least, most = expected.claimed
    if found.decided and low >= 1:
        return Agreement.SMALLER if high < least else Agreement.LARGER if low > most else Agreement.AGREES
    return Agreement.CONTRADICTED if high < NO_FEWER else Agreement.UNDECIDED


def _failed_control(expected: Expectation, answer: Answer) -> str:
    """The control that was not learned, in words; ``""`` if it was, or if there is none."""
    for mix in answer.mixes:
        if expected.control in (mix.mix, mix.plain) and _within(mix.target.transition.verdict) is not Agreement.AGREES:
            return f"; its control, {mix.mix}, is not learned: {size_words(answer, mix.target.transition)}"
    return ""


def _within(verdict: Verdict) -> Agreement:
    """The verdict on a transition at or below the largest size."""
    if verdict in (Verdict.FOUND, Verdict.BELOW):
        return Agreement.AGREES
    return Agreement.CONTRADICTED if verdict in (Verdict.ABOVE, Verdict.PLATEAU) else Agreement.UNDECIDED


def _saving(answer: Answer, mix: MixAnswer, found: Synergy) -> str:
    """``13.9 against 13.8: undecided: 1.8x fewer to 1.8x more``, and what a decided saving rests on where that is
    little."""
    baseline = answer.mix(answer.baseline_of(mix))
    here, there = (size_words(answer, each.target.transition) for each in (mix, baseline))
    rests, said = rests_on(answer, mix), saving(found)
    if (
        not found.decided and found.high is not None and found.high < NO_FEWER
    ):  # Whether it needs more is open; that it helps is not.
        said = said.replace("undecided", f"fewer by less than {NO_FEWER:g}x if at all")
    return f"{answer.size_axis} {here} against {there}: {said}" + (f", resting on {rests}" if rests else "")


def about_words(mix: str, variant: str) -> str:
    """A mix and the variant it was asked in."""
    return f"{mix} ({variant})" if variant else mix
