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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.home.run_files import numbers_of
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.conclusions import Obstacle, conclusion_of
from orchestrator.report.sentences.findings import compared_text, factor_text
from orchestrator.report.sentences.transitions import size_text
from orchestrator.report.side_by_side import LabeledAnswer, mix_scalings
from orchestrator.report.verdicts.agreement import Agreement, Judgment
from orchestrator.report.verdicts.learning_order import halfway_steps, judge_order
from orchestrator.report.verdicts.probe_numbers import judge_number
from orchestrator.report.verdicts.table import VerdictRow
from orchestrator.space.expectations import COMPARISON_FINDINGS, LAW_FINDINGS, ORDER_FINDINGS, Expectation, Finds
from orchestrator.space.runs import Run
from orchestrator.transition.evidence import Direction
from orchestrator.transition.types import Verdict

WITHIN = {Verdict.FOUND: Agreement.AGREES, Verdict.BELOW: Agreement.AGREES, Verdict.ABOVE: Agreement.CONTRADICTED}
"""Whether a transition is at or below the largest size. Other verdicts are undecided."""


@dataclass(frozen=True)
class _Results:
    """Results of one sweep, by which statements are judged.

    Attributes:
        runs_of: The finished runs of each mix.
        entropy: The entropy of every task's answers in nats, empty if unknown.
    """

    answer: Answer
    runs_of: Mapping[str, Sequence[Run]]
    entropy: Mapping[str, float]


def judge(
    space: str,
    variant: str,
    expected: Sequence[Expectation],
    answer: Answer,
    runs: Sequence[Run] = (),
    entropy: Mapping[str, float] | None = None,
) -> list[VerdictRow]:
    """Return the verdicts on the statements about one sweep, one row per mix.

    ``entropy`` contains the entropy of every task's answers in nats, and is empty if unknown. Statements about all
    variants are omitted: :func:`judge_law` judges them.
    """
    finished = [run for run in runs if run.is_finished]
    runs_of = {mix.mix: [run for run in finished if run.config.label == mix.mix] for mix in answer.mixes}
    results = _Results(answer, runs_of, entropy or {})
    rows = []
    for statement in expected:
        for mix in answer.mixes:
            if statement.finds in LAW_FINDINGS or not _is_about(statement, answer, mix):
                continue
            judgment = JUDGES[statement.finds](statement, mix, results)
            if judgment is not None:
                comparison = mix.comparison if statement.finds in COMPARISON_FINDINGS else None
                rows.append(VerdictRow(space, _about(mix.mix, variant), statement.claim, *judgment, comparison))
    return rows


def _is_named(expected: Expectation, mix: MixAnswer) -> bool:
    """Return True if a statement names a mix, with or without its recipe."""
    return expected.mix in (mix.mix, mix.plain)


def _is_about(expected: Expectation, answer: Answer, mix: MixAnswer) -> bool:
    """Return True if a statement is about a mix. Without a name it is about all mixes. Only orders of learning are then
    also about the baseline."""
    if _is_named(expected, mix):
        return True
    is_baseline = mix is answer.baseline_of(mix)
    return expected.mix == "*" and (not is_baseline or expected.finds in ORDER_FINDINGS)


def _judge_order(expected: Expectation, mix: MixAnswer, results: _Results) -> Judgment | None:
    """Judge in which order runs learned their tasks. Return None for a mix of one task, unless it is named."""
    steps = [halfway_steps(run.outcome) for run in results.runs_of[mix.mix] if len(run.outcome.floor) > 1]
    return judge_order(steps, results.entropy) if steps or _is_named(expected, mix) else None


def _judge_number(expected: Expectation, mix: MixAnswer, results: _Results) -> Judgment | None:
    """Judge a number of a probe. Return None for the baseline if the statement compares mixes with it."""
    baseline = results.answer.baseline_of(mix)
    if mix is baseline and not expected.than:
        return None
    sides = {side.mix: results.runs_of[side.mix] for side in (mix, baseline)}
    numbers = {run.key: numbers_of(run.directory) for side in sides.values() for run in side}
    return judge_number(expected, results.answer, mix, sides, numbers)


def _judge_transition(expected: Expectation, mix: MixAnswer, results: _Results) -> Judgment:
    """Judge whether a mix has a transition at or below the largest size."""
    transition = mix.target.transition
    result = f"{results.answer.size_axis} {size_text(results.answer, transition)}"
    agreement = WITHIN.get(transition.verdict, Agreement.UNDECIDED)
    return _with_control(expected, mix, results.answer, result, agreement)


def _judge_comparison(expected: Expectation, mix: MixAnswer, results: _Results) -> Judgment | None:
    """Judge how many parameters a mix needs. Return None if the mix has no baseline."""
    if not mix.is_compared:
        return None
    answer = results.answer
    size = size_text(answer, mix.target.transition)
    baseline_size = size_text(answer, answer.baseline_of(mix).target.transition)
    result = f"{answer.size_axis} {size} against {baseline_size}: {compared_text(answer, mix)}"
    if estimate := factor_text(mix.synergy):
        result += f", estimate {estimate}"
    return _with_control(expected, mix, answer, result, _agreement(expected, answer, mix))


JUDGES: dict[Finds, Callable[[Expectation, MixAnswer, _Results], Judgment | None]] = {
    "fewer": _judge_comparison,
    "no fewer": _judge_comparison,
    "transition": _judge_transition,
    "higher": _judge_number,
    "lower": _judge_number,
    "peaked first": _judge_order,
}
"""Function that judges a statement about one mix, by the statement's finding. It returns None if the statement does not
apply to the mix."""


def _with_control(expected: Expectation, mix: MixAnswer, answer: Answer, result: str, agreement: Agreement) -> Judgment:
    """Return a judgment, or an undecided one if the statement has a control that was not learned."""
    for control in answer.mixes:
        is_same_recipe = (expected.control, mix.recipe) == (control.plain, control.recipe)
        is_control = expected.control == control.mix or is_same_recipe
        if is_control and WITHIN.get(control.target.transition.verdict) is not Agreement.AGREES:
            size = size_text(answer, control.target.transition)
            return f"{result}; its control, {control.mix}, was not learned: {size}", Agreement.UNDECIDED
    return result, agreement


def _agreement(expected: Expectation, answer: Answer, mix: MixAnswer) -> Agreement:
    """Return the verdict on the parameters that a mix needs, by the rules of this module."""
    comparison = mix.comparison
    conclusion = conclusion_of(answer, mix)
    if comparison is None or conclusion is None or conclusion.obstacle in (Obstacle.CONTRARY, Obstacle.RARER):
        return Agreement.UNDECIDED
    claimed = Direction.BASELINE_AHEAD if expected.finds == "no fewer" else Direction.MIX_AHEAD
    if conclusion.direction is not claimed:
        return Agreement.CONTRADICTED
    if claimed is Direction.BASELINE_AHEAD:
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
