"""Verdicts on the statements about one sweep, or about all variants of a space.

Only the evidence of pairs (transition/evidence.py) decides a statement about the parameters that a mix needs, compared
with its baseline:

* *undecided*: the evidence did not reach the threshold, or one mix is ahead at some sizes and the other at others.
* A claim of fewer parameters *agrees* if the mix needs fewer parameters (report/conclusions.py), and *agrees in part*
  if it was only learned more often at the sizes tried. It is *contradicted* if the mix was learned less often. It is
  *larger than claimed* if the certified factor exceeds the claimed factor. Pairs do not certify an upper bound, so no
  claimed factor is too large to agree.
* A claim of no effect *agrees* if the mix was learned less often, and is *contradicted* if it was learned more often.
* A statement with a control is undecided unless the control is learned.

Statements about numbers of probes are judged in probe_numbers.py, and those about the order of learning in
learning_order.py. Over the whole table, some decisions become undecided (table.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from orchestrator.home.run_files import numbers_of
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.conclusions import Obstacle, conclusion_of
from orchestrator.report.side_by_side import LabeledAnswer, mix_scalings
from orchestrator.report.verdicts.agreement import Agreement, Judgment
from orchestrator.report.verdicts.learning_order import halfway_steps, judge_order
from orchestrator.report.verdicts.probe_numbers import judge_number
from orchestrator.report.verdicts.table import VerdictRow
from orchestrator.report.words.findings import compared_words, factor_words
from orchestrator.report.words.transitions import size_words
from orchestrator.space.expectations import COMPARED, INSIDE, ORDER, Expectation
from orchestrator.space.runs import Run
from orchestrator.transition.evidence import Direction
from orchestrator.transition.types import Verdict

WITHIN = {Verdict.FOUND: Agreement.AGREES, Verdict.BELOW: Agreement.AGREES, Verdict.ABOVE: Agreement.CONTRADICTED}
"""Whether a transition is at or below the largest size. Other verdicts are undecided."""


def judge(
    space: str,
    variant: str,
    expected: Sequence[Expectation],
    answer: Answer,
    runs: Sequence[Run] = (),
    entropy: Mapping[str, float] | None = None,
) -> list[VerdictRow]:
    """Return the verdicts on the statements about one sweep, one row per mix.

    ``entropy`` contains the entropy of every task's answers in nats, and is empty if unknown.
    """
    finished = [run for run in runs if run.is_typical]
    by_mix = {mix.mix: [run for run in finished if run.config.label == mix.mix] for mix in answer.mixes}
    rows = []
    for statement in expected:
        for mix in answer.mixes:
            baseline = answer.baseline_of(mix)
            named = statement.mix in (mix.mix, mix.plain)
            if not named and (statement.mix != "*" or (mix is baseline and statement.finds not in ORDER)):
                continue
            judged = None
            if statement.finds in ORDER:
                steps = [halfway_steps(run.outcome) for run in by_mix[mix.mix] if len(run.outcome.floor) > 1]
                judged = judge_order(steps, entropy or {}) if named or steps else None
            elif statement.finds == "transition" or (statement.finds in COMPARED and mix.is_compared):
                judged = _judge_answer(statement, answer, mix)
            elif statement.finds in INSIDE and (statement.than or mix is not baseline):
                sides = {side.mix: by_mix[side.mix] for side in (mix, baseline)}
                numbers = {run.key: numbers_of(run.directory) for side in sides.values() for run in side}
                judged = judge_number(statement, answer, mix, sides, numbers)
            if judged is not None:
                comparison = mix.comparison if statement.finds in COMPARED else None
                rows.append(VerdictRow(space, _about(mix.mix, variant), statement.claim, *judged, comparison))
    return rows


def _judge_answer(expected: Expectation, answer: Answer, mix: MixAnswer) -> Judgment:
    here, there = (size_words(answer, side.target.transition) for side in (mix, answer.baseline_of(mix)))
    if expected.finds == "transition":
        result = f"{answer.size_axis} {here}"
        agreement = WITHIN.get(mix.target.transition.verdict, Agreement.UNDECIDED)
    else:
        estimate = factor_words(mix.synergy)
        result = f"{answer.size_axis} {here} against {there}: {compared_words(answer, mix)}"
        result += f", estimate {estimate}" if estimate else ""
        agreement = _agreement(expected, answer, mix)
    for control in answer.mixes:
        is_control = expected.control == control.mix or (expected.control, mix.recipe) == (
            control.plain,
            control.recipe,
        )
        if is_control and WITHIN.get(control.target.transition.verdict) is not Agreement.AGREES:
            size = size_words(answer, control.target.transition)
            return f"{result}; its control, {control.mix}, was not learned: {size}", Agreement.UNDECIDED
    return result, agreement


def _agreement(expected: Expectation, answer: Answer, mix: MixAnswer) -> Agreement:
    """Return the verdict on the parameters that a mix needs, by the rules of this module."""
    comparison = mix.comparison
    conclusion = conclusion_of(answer, mix)
    if comparison is None or conclusion is None or conclusion.obstacle in (Obstacle.CONTRARY, Obstacle.RARER):
        return Agreement.UNDECIDED
    claimed = Direction.MORE if expected.finds == "no fewer" else Direction.FEWER
    if conclusion.direction is not claimed:
        return Agreement.CONTRADICTED
    if claimed is Direction.MORE:
        return Agreement.AGREES
    if not conclusion.is_about_parameters:
        return Agreement.PARTLY
    return Agreement.LARGER if (comparison.at_least or 0.0) > expected.most_claimed else Agreement.AGREES


def judge_law(space: str, expected: Expectation, compared: Sequence[LabeledAnswer]) -> list[VerdictRow]:
    """Return the verdicts on a statement about an exponent over all variants, one row per mix."""
    rows = []
    for mix, law in mix_scalings(compared).items():
        if expected.mix not in ("*", mix, compared[0].answer.mix(mix).plain):
            continue
        result = "too few transitions are within the tested sizes"
        agreement = Agreement.UNDECIDED
        if law is not None:
            result = f"exponent {law.exponent:.2f} [{law.low:.2f}, {law.high:.2f}]"
            if law.bounded:
                result += ", transitions beyond the tested sizes count as the largest"
            else:
                agreement = Agreement.of(law.high < expected.limit, law.low > expected.limit)
        rows.append(VerdictRow(space, mix, expected.claim, result, agreement))
    return rows


def not_run(space: str, variant: str, expected: Expectation, mixes: Sequence[str], why: str) -> list[VerdictRow]:
    """Return the rows of a statement without a sweep. ``mixes`` are the space's mixes, the baseline first."""
    about = mixes[1:] if expected.mix == "*" else [expected.mix]
    return [VerdictRow(space, _about(mix, variant), expected.claim, why, Agreement.NOT_RUN) for mix in about]


def _about(mix: str, variant: str) -> str:
    """Return a mix and its variant: ``add+prod (prime_5)``."""
    return f"{mix} ({variant})" if variant else mix
