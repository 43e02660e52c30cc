"""Statements of sources compared with the findings of sweeps, and the table of verdicts.

Only the evidence of pairs (transition/evidence.py) decides a statement about the parameters that a mix needs, compared
with its baseline:

* *undecided*: the evidence did not reach the threshold, or one mix is ahead at some sizes and the other at others.
* A claim of fewer parameters *agrees* if the mix needs fewer parameters (report/claims.py), and *agrees in part* if it
  was only learned more often at the sizes tried. It is *contradicted* if the mix was learned less often. It is *larger
  than claimed* if the certified factor exceeds the claimed factor. Pairs do not certify an upper bound, so no claimed
  factor is too large to agree.
* A claim of no effect *agrees* if the mix was learned less often, and is *contradicted* if it was learned more often.
* A statement with a control is undecided unless the control is learned.

Over a whole table, e-BH (Wang and Ramdas 2022, JRSS B 84, 822) keeps the expected share of wrong decisions at or below
:data:`FALSE_SHARE`, for any dependence between the comparisons. Unconfirmed decisions become undecided.

For claims about numbers of probes see probe_verdicts.py. A claim that tasks of peaked answers are learned before
tasks of evenly spread answers agrees if more than half of all runs show that order, by Clopper and Pearson's interval.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.home.run_files import numbers_of
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.claims import Obstacle, claim_of
from orchestrator.report.probe_verdicts import Agreement, Judgment, compare
from orchestrator.report.side_by_side import LabeledAnswer, mix_scalings
from orchestrator.report.words.findings import compared_words, factor_words
from orchestrator.report.words.transitions import size_words
from orchestrator.space.expectations import COMPARED, INSIDE, ORDER, Expectation
from orchestrator.space.runs import Run
from orchestrator.system.text import counted
from orchestrator.transition.comparison import Comparison, e_bh, odds
from orchestrator.transition.evidence import Direction
from orchestrator.transition.types import CONFIDENCE, Verdict
from trainables.base import Outcome

HALFWAY = 0.5
"""A task is halfway learned at this share of the way from its constant answer's score to 1."""
ALIKE = 0.01
"""Entropies (in nats) that differ by less count as equal."""
FEWEST = 5
"""Minimum number of runs with an order. With fewer, even a unanimous order could be chance at the 90% level."""
HEADER = ("experiment", "about", "statement", "found", "evidence", "verdict")
FALSE_SHARE = 0.1
"""Largest expected share of wrong decisions in a table."""
NOT_SIGNIFICANT = "not significant over the whole table: lower search.error, for example to 0.01, to get more pairs"
"""Note on a decision that e-BH does not confirm: a sweep stops at its own threshold, which is too low for many rows."""

WITHIN = {Verdict.FOUND: Agreement.AGREES, Verdict.BELOW: Agreement.AGREES, Verdict.ABOVE: Agreement.CONTRADICTED}
"""Whether a transition is at or below the largest size. Other verdicts are undecided."""

Steps = Mapping[str, float]
"""The step at which a run was halfway on each task, infinity for never."""


@dataclass(frozen=True)
class Row:
    """A statement about ``about``, with the finding. ``comparison`` is None unless the statement compares two mixes."""

    space: str
    about: str
    claim: str
    result: str
    agreement: Agreement
    comparison: Comparison | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """Texts of the row, in the order of :data:`HEADER`."""
        evidence = "-" if self.comparison is None else odds(self.comparison.evidence)
        return self.space, self.about, self.claim, self.result or "-", evidence, str(self.agreement)


def judge(
    space: str,
    variant: str,
    expected: Sequence[Expectation],
    answer: Answer,
    runs: Sequence[Run] = (),
    entropy: Mapping[str, float] | None = None,
) -> list[Row]:
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
                judged = compare(statement, answer, mix, sides, numbers)
            if judged is not None:
                comparison = mix.comparison if statement.finds in COMPARED else None
                rows.append(Row(space, _about(mix.mix, variant), statement.claim, *judged, comparison))
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
    claim = claim_of(answer, mix)
    if comparison is None or claim is None or claim.obstacle in (Obstacle.CONTRARY, Obstacle.RARER):
        return Agreement.UNDECIDED
    claimed = Direction.MORE if expected.finds == "no fewer" else Direction.FEWER
    if claim.direction is not claimed:
        return Agreement.CONTRADICTED
    if claimed is Direction.MORE:
        return Agreement.AGREES
    if not claim.is_about_parameters:
        return Agreement.PARTLY
    return Agreement.LARGER if (comparison.at_least or 0.0) > expected.most_claimed else Agreement.AGREES


def over_table(rows: Sequence[Row]) -> list[Row]:
    """Return the rows, with decisions that e-BH does not confirm over the whole table as undecided."""
    evidence = {place: row.comparison.evidence for place, row in enumerate(rows) if row.comparison is not None}
    places = list(evidence)
    unconfirmed = evidence.keys() - {places[index] for index in e_bh(list(evidence.values()), FALSE_SHARE)}
    return [
        replace(row, result=f"{row.result}; {NOT_SIGNIFICANT}", agreement=Agreement.UNDECIDED)
        if place in unconfirmed and row.agreement is not Agreement.UNDECIDED
        else row
        for place, row in enumerate(rows)
    ]


def judge_law(space: str, expected: Expectation, compared: Sequence[LabeledAnswer]) -> list[Row]:
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
        rows.append(Row(space, mix, expected.claim, result, agreement))
    return rows


def not_run(space: str, variant: str, expected: Expectation, mixes: Sequence[str], why: str) -> list[Row]:
    """Return the rows of a statement without a sweep. ``mixes`` are the space's mixes, the baseline first."""
    about = mixes[1:] if expected.mix == "*" else [expected.mix]
    return [Row(space, _about(mix, variant), expected.claim, why, Agreement.NOT_RUN) for mix in about]


def _about(mix: str, variant: str) -> str:
    """Return a mix and its variant: ``add+prod (prime_5)``."""
    return f"{mix} ({variant})" if variant else mix


def halfway_steps(outcome: Outcome) -> Steps:
    """Return the step at which a run was halfway on each task, by its validation curve."""
    halfway = {task: floor + HALFWAY * (1 - floor) for task, floor in outcome.floor.items()}
    return {
        task: next((point.step for point in outcome.curve if point.accuracy.get(task, 0.0) >= half), math.inf)
        for task, half in halfway.items()
    }


def peaked_first(steps: Steps, entropy: Mapping[str, float]) -> float:
    """Return how far a run learned tasks of peaked answers first, as Goodman and Kruskal's gamma in [-1, 1].

    Over pairs of tasks with different steps and entropies, it is the share with the lower entropy first minus the share
    with it last, or 0 without such a pair. A task that was never learned comes last.
    """
    signs = [
        1 if (steps[one] < steps[other]) == (entropy[one] < entropy[other]) else -1
        for one, other in itertools.combinations(sorted(steps), 2)
        if steps[one] != steps[other] and abs(entropy[one] - entropy[other]) >= ALIKE
    ]
    return sum(signs) / max(len(signs), 1)


def judge_order(runs: Sequence[Steps], entropy: Mapping[str, float]) -> tuple[str, Agreement]:
    """Return the order in words, and the verdict on whether more than half of the runs learned peaked tasks first."""
    if not entropy:
        return "the family has no tables of its tasks", Agreement.UNDECIDED
    orders = [order for run in runs if (order := peaked_first(run, entropy))]
    if len(orders) < FEWEST:
        return f"{len(orders)} of {len(runs)} runs show an order; at least {FEWEST} are needed", Agreement.UNDECIDED
    from scipy.stats import binomtest

    count = sum(order > 0 for order in orders)
    interval = binomtest(count, len(orders)).proportion_ci(CONFIDENCE)
    tasks = sorted({task for run in runs for task in run}, key=lambda task: entropy[task])
    entropies = ", ".join(f"{task} {entropy[task]:.2f}" for task in tasks)
    text = (
        f"peaked tasks first in {count} of {len(orders)} runs that show an order, "
        f"{count / len(orders):.2f} [{interval.low:.2f}, {interval.high:.2f}]; entropy of the answers: {entropies}"
    )
    return text, Agreement.of(interval.low > 0.5, interval.high < 0.5)


def summary(rows: Sequence[Row]) -> str:
    """Return the counts and the error of a table: ``12 rows: 4 agree, 8 not run. Of the 3 rows decided ...``."""
    counts = Counter(row.agreement for row in rows)
    words = {Agreement.AGREES: "agrees" if counts[Agreement.AGREES] == 1 else "agree"}
    counts_text = ", ".join(f"{counts[kind]} {words.get(kind, kind)}" for kind in Agreement if counts[kind])
    text = f"{counted(len(rows), 'row')}: {counts_text}."
    decided = sum(row.comparison is not None and row.agreement is not Agreement.UNDECIDED for row in rows)
    if decided:
        share = f"at most 1 in {1 / FALSE_SHARE:.0f} is expected to be wrong (e-BH)"
        text += f" Of the {counted(decided, 'row')} decided by evidence, {share}."
    return text


def markdown(rows: Sequence[Row], cost: str) -> str:
    """Return the table for a README, with the ``cost`` in words."""
    lines = [HEADER, ("---",) * len(HEADER), *(row.cells for row in rows)]
    table = ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines]
    return "\n".join([*table, "", f"{summary(rows)} {cost}", ""])
