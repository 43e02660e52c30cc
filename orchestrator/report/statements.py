"""Statements of sources compared with the findings of sweeps, and the table of verdicts.

Only the evidence of pairs (transition/evidence.py) decides a statement about the parameters that a mix needs, compared
with its baseline:

* *undecided*: the evidence did not decide, or learning becomes rarer with size, so that learning more often does not
  mean needing fewer parameters.
* A claim of fewer parameters *agrees* if fewer was decided, and is *contradicted* if more was. It is *larger than
  claimed* if the certified factor exceeds the claimed factor. Pairs do not certify an upper bound, so no claimed
  factor is too large to agree.
* A claim of no effect is *contradicted* if fewer was decided, and *agrees* if more was.
* A statement with a control is undecided unless the control is learned.

Over a whole table, e-BH (Wang and Ramdas 2022, JRSS B 84, 822) keeps the expected share of wrong decisions at or below
:data:`FALSE_SHARE`, for any dependence between the comparisons. Unconfirmed decisions become undecided.

For claims about numbers of probes see probe_statements.py. A claim that tasks of peaked answers are learned before
tasks of evenly spread answers agrees if more than half of all runs show that order, by Clopper and Pearson's interval.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.home.sweeps import RunRecord
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.findings import Finding, finding_of
from orchestrator.report.probe_statements import Agreement, Judged, Seen, compare
from orchestrator.report.side_by_side import Compared, mix_scalings
from orchestrator.report.words.findings import compared_words, factor_words, odds
from orchestrator.report.words.numbers import counted
from orchestrator.report.words.transitions import size_words
from orchestrator.space.evidence import stands_for_its_size
from orchestrator.space.expected import COMPARED, INSIDE, ORDER, Expectation
from orchestrator.transition.e_bh import e_bh
from orchestrator.transition.evidence import Comparison, Direction
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

Steps = Mapping[str, int | None]
"""The step at which a run was halfway on each task, None for never."""


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
    runs: Sequence[RunRecord] = (),
    entropy: Mapping[str, float] | None = None,
) -> list[Row]:
    """Return the verdicts on the statements about one sweep, one row per mix.

    ``entropy`` contains the entropy of every task's answers in nats, and is empty if unknown.
    """
    finished = [run for run in runs if stands_for_its_size(run.config, run.outcome)]
    by_mix = {mix.mix: [run for run in finished if run.config.label == mix.mix] for mix in answer.mixes}
    rows = []
    for statement in expected:
        if statement.finds in INSIDE:
            seen = {mix: [Seen.of(run, answer) for run in own] for mix, own in by_mix.items()}
            judged = compare(statement, answer, seen)
        elif statement.finds in ORDER:
            steps = {mix: [halfway_steps(run.outcome) for run in own] for mix, own in by_mix.items()}
            judged = _orders(statement, answer, steps, entropy or {})
        else:
            judged = _comparisons(statement, answer)
        rows += [
            Row(
                *(space, about_words(mix, variant), statement.claim, result, agreement),
                answer.mix(mix).comparison if statement.finds in COMPARED else None,
            )
            for mix, result, agreement in judged
        ]
    return rows


def over_table(rows: Sequence[Row]) -> list[Row]:
    """Return the rows, with decisions that e-BH does not confirm over the whole table as undecided."""
    compared = [place for place, row in enumerate(rows) if row.comparison is not None]
    evidence = [row.comparison.evidence for row in rows if row.comparison is not None]
    significant = {compared[place] for place in e_bh(evidence, FALSE_SHARE)}
    decided = (Agreement.AGREES, Agreement.LARGER, Agreement.CONTRADICTED)
    return [
        replace(row, result=f"{row.result}; {NOT_SIGNIFICANT}", agreement=Agreement.UNDECIDED)
        if row.comparison is not None and row.agreement in decided and place not in significant
        else row
        for place, row in enumerate(rows)
    ]


def judge_law(space: str, expected: Expectation, compared: Sequence[Compared]) -> list[Row]:
    """Return the verdicts on a statement about an exponent over all variants, one row per mix."""
    rows = []
    for mix, law in mix_scalings(compared).items():
        if expected.mix not in ("*", mix, compared[0].answer.mix(mix).plain):
            continue
        result, agreement = "too few transitions are within the tested sizes", Agreement.UNDECIDED
        if law is not None:
            result = f"exponent {law.exponent:.2f} [{law.low:.2f}, {law.high:.2f}]"
            if law.bounded:
                result += ", transitions beyond the tested sizes count as the largest"
            elif law.high < expected.limit:
                agreement = Agreement.AGREES
            elif law.low > expected.limit:
                agreement = Agreement.CONTRADICTED
        rows.append(Row(space, mix, expected.claim, result, agreement))
    return rows


def not_run(space: str, variant: str, expected: Expectation, mixes: Sequence[str], why: str) -> list[Row]:
    """Return the rows of a statement without a sweep. ``mixes`` are the space's mixes, the baseline first."""
    about = mixes[1:] if expected.mix == "*" else [expected.mix]
    return [Row(space, about_words(mix, variant), expected.claim, why, Agreement.NOT_RUN) for mix in about]


def about_words(mix: str, variant: str) -> str:
    """Return a mix and its variant: ``add+prod (prime_5)``."""
    return f"{mix} ({variant})" if variant else mix


def _comparisons(expected: Expectation, answer: Answer) -> list[Judged]:
    """Judge a statement about a transition, or about a mix compared with its baseline."""
    judged = []
    for mix in answer.mixes:
        is_baseline = mix.mix == answer.baseline_of(mix)
        if expected.mix not in (mix.mix, mix.plain) and (expected.mix != "*" or is_baseline):
            continue
        if expected.finds == "transition":
            result = f"{answer.size_axis} {size_words(answer, mix.target.transition)}"
            agreement = _within(mix.target.transition.verdict)
        elif mix.is_compared:
            result, agreement = _compared(answer, mix), _agreement(expected, finding_of(answer, mix))
        else:
            continue
        failed = _failed_control(expected, answer, mix.recipe)
        judged.append((mix.mix, result + failed, Agreement.UNDECIDED if failed else agreement))
    return judged


def _agreement(expected: Expectation, finding: Finding) -> Agreement:
    """Return the verdict on the parameters that a mix needs, by the rules of this module."""
    comparison = finding.comparison
    if comparison is None or comparison.decided is None or finding.is_rarer:
        return Agreement.UNDECIDED
    claimed = Direction.MORE if expected.finds == "no fewer" else Direction.FEWER
    if comparison.decided is not claimed:
        return Agreement.CONTRADICTED
    is_larger = claimed is Direction.FEWER and (comparison.at_least or 0.0) > expected.most_claimed
    return Agreement.LARGER if is_larger else Agreement.AGREES


def _failed_control(expected: Expectation, answer: Answer, recipe: str) -> str:
    """Return a clause about a control that was not learned under this recipe, else ``""``."""
    for mix in answer.mixes:
        is_control = expected.control == mix.mix or (expected.control, recipe) == (mix.plain, mix.recipe)
        if is_control and _within(mix.target.transition.verdict) is not Agreement.AGREES:
            return f"; its control, {mix.mix}, was not learned: {size_words(answer, mix.target.transition)}"
    return ""


def _within(verdict: Verdict) -> Agreement:
    """Return whether a transition is at or below the largest size, as a verdict."""
    if verdict in (Verdict.FOUND, Verdict.BELOW):
        return Agreement.AGREES
    return Agreement.CONTRADICTED if verdict is Verdict.ABOVE else Agreement.UNDECIDED


def _compared(answer: Answer, mix: MixAnswer) -> str:
    """Return ``n_embed 13.9 [12, 15] against 20 [18, 23]: at least 1.5x fewer (47:1), estimate 2.1x fewer [...]``."""
    baseline = answer.mix(answer.baseline_of(mix))
    here, there = (size_words(answer, other.target.transition) for other in (mix, baseline))
    estimate = factor_words(mix.synergy) if mix.synergy is not None else ""
    result = f"{answer.size_axis} {here} against {there}: {compared_words(answer, mix)}"
    return f"{result}, estimate {estimate}" if estimate else result


def halfway_steps(outcome: Outcome) -> Steps:
    """Return the step at which a run was halfway on each task, by its validation curve."""
    steps: dict[str, int | None] = {}
    for task, floor in outcome.floor.items():
        halfway = floor + HALFWAY * (1 - floor)
        steps[task] = next((point.step for point in outcome.curve if point.accuracy.get(task, 0.0) >= halfway), None)
    return steps


def peaked_first(steps: Steps, entropy: Mapping[str, float]) -> float | None:
    """Return how far a run learned tasks of peaked answers first, as Goodman and Kruskal's gamma in [-1, 1].

    Over pairs of tasks with different steps and entropies, it is the share with the lower entropy first minus the share
    with it last. A task that was never learned comes last. Return None without such a pair.
    """
    signs = []
    for one, other in itertools.combinations(sorted(steps), 2):
        first, second = steps[one], steps[other]
        if first == second or abs(entropy[one] - entropy[other]) < ALIKE:
            continue
        one_first = second is None or (first is not None and first < second)
        signs.append(1 if one_first == (entropy[one] < entropy[other]) else -1)
    return sum(signs) / len(signs) if signs else None


def _orders(
    expected: Expectation, answer: Answer, steps: Mapping[str, Sequence[Steps]], entropy: Mapping[str, float]
) -> list[Judged]:
    """Judge a statement about the order of learning, for each of its mixes with several tasks."""
    judged = []
    for mix in answer.mixes:
        several = [run for run in steps[mix.mix] if len(run) > 1]
        if expected.mix in ("*", mix.mix, mix.plain) and (several or expected.mix != "*"):
            judged.append((mix.mix, *judge_order(several, entropy)))
    return judged


def judge_order(runs: Sequence[Steps], entropy: Mapping[str, float]) -> tuple[str, Agreement]:
    """Return the order in words, and the verdict on whether more than half of the runs learned peaked tasks first."""
    if not entropy:
        return "the family has no tables of its tasks", Agreement.UNDECIDED
    orders = [order for run in runs if (order := peaked_first(run, entropy)) is not None and order != 0]
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
    if interval.low > 0.5:
        return text, Agreement.AGREES
    return text, Agreement.CONTRADICTED if interval.high < 0.5 else Agreement.UNDECIDED


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
