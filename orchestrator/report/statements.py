"""Statements of sources, held against what sweeps found, and the table of verdicts.

The rule, for every statement about what a mix saves, at 90 %:

* *undecided*: the comparison is. The ratio's interval holds 1 (and savings of 1.3x), or a curve levels off or falls
  again, or fewer than four runs a side stand between the two transitions, or they differ no more than by chance.
* A claim of N times fewer parameters *agrees* if the interval excludes 1 and holds N. The saving is *smaller than
  claimed*, or *larger*, if the interval excludes 1 and ends below N, or begins above it. The claim is *contradicted*
  if the mix needs more, or if the interval holds 1 and ends below 1.3.
* A claim of fewer parameters without a number is one of any factor of 1.3 or more.
* A claim of no effect *agrees* if the interval ends below 1.3, and is *contradicted* if it begins there.
* A statement with a control is undecided unless the control is learned: what fails there says nothing of the mix.

A claim about a number of a probe: probe_statements.py. A claim that tasks of peaked answers are learned before those of
evenly spread ones agrees if that order shows in more than half of all runs, by Clopper and Pearson's interval.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.home.sweeps import RunRecord
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.probe_statements import Agreement, Judged, Seen, compare
from orchestrator.report.side_by_side import Compared, mix_scalings
from orchestrator.report.words.numbers import counted
from orchestrator.report.words.verdicts import saving, size_words
from orchestrator.space.evidence import stands_for_its_size
from orchestrator.space.expected import INSIDE, NO_FEWER, ORDER, Expectation
from orchestrator.transition.types import CONFIDENCE, Doubt, Synergy, Verdict
from trainables.base import Outcome

HALFWAY = 0.5
"""A task's order counts from the evaluation that is so far between its constant answer's score and 1."""
ALIKE = 0.01
"""Entropies (in nats) that differ by less are called the same."""
FEWEST = 5
"""Runs in which an order shows: with fewer, not even one order in all of them excludes chance at 90 %."""
HEADER = ("experiment", "about", "statement", "found", "verdict")

Steps = Mapping[str, int | None]
"""The step at which one run was halfway on each task; None for never."""


@dataclass(frozen=True)
class Row:
    """One statement; ``about`` names its mix and variant, ``found`` is the finding with its interval."""

    space: str
    about: str
    claim: str
    found: str
    agreement: Agreement

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """The row as the table shows it."""
        return self.space, self.about, self.claim, self.found or "-", str(self.agreement)


def judge(
    space: str,
    variant: str,
    expected: Sequence[Expectation],
    answer: Answer,
    runs: Sequence[RunRecord] = (),
    entropy: Mapping[str, float] | None = None,
) -> list[Row]:
    """The statements about one sweep, a row for each mix they are about. ``runs`` are the sweep's; ``entropy`` of every
    task's answers in nats, empty if unknown."""
    kept = [run for run in runs if stands_for_its_size(run.config, run.outcome)]
    by_mix = {mix.mix: [run for run in kept if run.config.label == mix.mix] for mix in answer.mixes}
    rows = []
    for each in expected:
        if each.finds in INSIDE:
            seen = {mix.mix: [Seen.of(run, mix, answer.target) for run in by_mix[mix.mix]] for mix in answer.mixes}
            judged = compare(each, answer, seen)
        elif each.finds in ORDER:
            steps = {mix: [halfway_steps(run.outcome) for run in mine] for mix, mine in by_mix.items()}
            judged = _orders(each, answer, steps, entropy or {})
        else:
            judged = _savings(each, answer)
        rows += [
            Row(space, about_words(mix, variant), each.claim, found, agreement) for mix, found, agreement in judged
        ]
    return rows


def judge_law(space: str, expected: Expectation, compared: Sequence[Compared]) -> list[Row]:
    """A statement about an exponent over all variants, a row for each mix it is about."""
    rows = []
    for mix, law in mix_scalings(compared).items():
        if expected.mix not in ("*", mix, compared[0].answer.mix(mix).plain):
            continue
        found, agreement = "too few transitions are within the sizes", Agreement.UNDECIDED
        if law is not None:
            found = f"exponent {law.exponent:.2f} [{law.low:.2f}, {law.high:.2f}]"
            if law.bounded:
                found += ", transitions beyond the sizes counted at the largest"
            elif law.high < expected.limit:
                agreement = Agreement.AGREES
            elif law.low > expected.limit:
                agreement = Agreement.CONTRADICTED
        rows.append(Row(space, mix, expected.claim, found, agreement))
    return rows


def not_run(space: str, variant: str, expected: Expectation, mixes: Sequence[str], why: str) -> list[Row]:
    """The rows of a statement without a sweep. ``mixes`` are the space's, the baseline first."""
    named = mixes[1:] if expected.mix == "*" else [expected.mix]
    return [Row(space, about_words(mix, variant), expected.claim, why, Agreement.NOT_RUN) for mix in named]


def about_words(mix: str, variant: str) -> str:
    """A mix and the variant it was asked in."""
    return f"{mix} ({variant})" if variant else mix


def _savings(expected: Expectation, answer: Answer) -> list[Judged]:
    """A statement about a transition or a saving."""
    judged = []
    is_size = expected.finds == "transition"
    for mix in answer.mixes:
        is_baseline = mix.mix == answer.baseline_of(mix)
        if expected.mix not in (mix.mix, mix.plain) and (expected.mix != "*" or is_baseline):
            continue
        if not (is_size or mix.synergy_total):
            continue
        failed = _failed_control(expected, answer, mix.recipe)
        transition = mix.target.transition
        if is_size:
            found, agreement = f"{answer.size_axis} {size_words(answer, transition)}", _within(transition.verdict)
        else:
            assert mix.synergy_total is not None
            found, agreement = _saving(answer, mix, mix.synergy_total), _agreement(expected, mix.synergy_total)
        judged.append((mix.mix, found + failed, Agreement.UNDECIDED if failed else agreement))
    return judged


def _agreement(expected: Expectation, found: Synergy) -> Agreement:
    """The verdict on what a mix saves, by the rule above."""
    low, high = found.low or 0.0, math.inf if found.high is None else found.high
    if _in_doubt(found):
        return Agreement.UNDECIDED
    if expected.finds == "no fewer":
        if high < NO_FEWER:
            return Agreement.AGREES
        return Agreement.CONTRADICTED if found.decided and low >= NO_FEWER else Agreement.UNDECIDED
    least, most = expected.claimed
    if found.decided and low >= 1:
        return Agreement.SMALLER if high < least else Agreement.LARGER if low > most else Agreement.AGREES
    return Agreement.CONTRADICTED if high < NO_FEWER else Agreement.UNDECIDED


def _in_doubt(found: Synergy) -> bool:
    """True if a comparison is undecided whatever its interval holds."""
    return found.doubt not in (Doubt.NONE, Doubt.INTERVAL)


def _failed_control(expected: Expectation, answer: Answer, recipe: str) -> str:
    """The control, under this recipe, that was not learned, in words; ``""`` if it was, or if there is none."""
    for mix in answer.mixes:
        is_control = expected.control == mix.mix or (expected.control, recipe) == (mix.plain, mix.recipe)
        if is_control and _within(mix.target.transition.verdict) is not Agreement.AGREES:
            return f"; its control, {mix.mix}, is not learned: {size_words(answer, mix.target.transition)}"
    return ""


def _within(verdict: Verdict) -> Agreement:
    """The verdict on a transition at or below the largest size."""
    if verdict in (Verdict.FOUND, Verdict.BELOW):
        return Agreement.AGREES
    return Agreement.CONTRADICTED if verdict in (Verdict.ABOVE, Verdict.PLATEAU) else Agreement.UNDECIDED


def _saving(answer: Answer, mix: MixAnswer, found: Synergy) -> str:
    """``13.9 against 13.8: undecided: 1.8x fewer to 1.8x more``."""
    baseline = answer.mix(answer.baseline_of(mix))
    here, there = (size_words(answer, each.target.transition) for each in (mix, baseline))
    said = saving(found)
    if not (found.decided or _in_doubt(found)) and found.high is not None and found.high < NO_FEWER:
        # It may need more; that it helps is excluded.
        said = said.replace("undecided", f"fewer by less than {NO_FEWER:g}x if at all")
    return f"{answer.size_axis} {here} against {there}: {said}"


def halfway_steps(outcome: Outcome) -> Steps:
    """The step at which a run was halfway on each task, by its validation curve."""
    steps: dict[str, int | None] = {}
    for task, floor in outcome.floor.items():
        wanted = floor + HALFWAY * (1 - floor)
        steps[task] = next((point.step for point in outcome.curve if point.accuracy.get(task, 0.0) >= wanted), None)
    return steps


def peaked_first(steps: Steps, entropy: Mapping[str, float]) -> float | None:
    """Goodman and Kruskal's gamma in [-1, 1] over pairs of tasks that a run learned one after the other and whose
    entropies differ: the share with the task of lower entropy first, less the share with it last. A task that was never
    learned comes last. None if no pair tells."""
    told = []
    for one, other in itertools.combinations(sorted(steps), 2):
        first, second = steps[one], steps[other]
        if first == second or abs(entropy[one] - entropy[other]) < ALIKE:
            continue
        one_first = second is None or (first is not None and first < second)
        told.append(1 if one_first == (entropy[one] < entropy[other]) else -1)
    return sum(told) / len(told) if told else None


def _orders(
    expected: Expectation, answer: Answer, steps: Mapping[str, Sequence[Steps]], entropy: Mapping[str, float]
) -> list[Judged]:
    """A statement about the order of learning, for each mix of several tasks it is about."""
    judged = []
    for mix in answer.mixes:
        several = [run for run in steps[mix.mix] if len(run) > 1]
        if expected.mix in ("*", mix.mix, mix.plain) and (several or expected.mix != "*"):
            judged.append((mix.mix, *judge_order(several, entropy)))
    return judged


def judge_order(runs: Sequence[Steps], entropy: Mapping[str, float]) -> tuple[str, Agreement]:
    """The order in words, and its agreement: the share of runs with the peaked tasks first, against one half."""
    if not entropy:
        return "the family has no tables of its tasks", Agreement.UNDECIDED
    orders = [order for run in runs if (order := peaked_first(run, entropy)) is not None and order != 0]
    if len(orders) < FEWEST:
        return f"an order shows in {len(orders)} of {len(runs)} runs: {FEWEST} are needed", Agreement.UNDECIDED
    from scipy.stats import binomtest

    count = sum(order > 0 for order in orders)
    interval = binomtest(count, len(orders)).proportion_ci(CONFIDENCE)
    tasks = sorted({task for run in runs for task in run}, key=lambda task: entropy[task])
    entropies = ", ".join(f"{task} {entropy[task]:.2f}" for task in tasks)
    said = (
        f"peaked tasks first in {count} of {len(orders)} runs in which an order shows, "
        f"{count / len(orders):.2f} [{interval.low:.2f}, {interval.high:.2f}]; entropy of the answers: {entropies}"
    )
    if interval.low > 0.5:
        return said, Agreement.AGREES
    return said, Agreement.CONTRADICTED if interval.high < 0.5 else Agreement.UNDECIDED


def summary(rows: Sequence[Row]) -> str:
    """``12 rows: 4 agree, 1 contradicted, 5 undecided at this scale, 2 not run; at 90 % chance would make 1.0 of the 10
    that were run``."""
    counts = Counter(row.agreement for row in rows)
    words = {each: "agree" if each is Agreement.AGREES and counts[each] > 1 else str(each) for each in Agreement}
    said = ", ".join(f"{counts[each]} {words[each]}" for each in Agreement if counts[each])
    asked = len(rows) - counts[Agreement.NOT_RUN]
    chance = f"; at {CONFIDENCE:.0%} chance would make up to {(1 - CONFIDENCE) * asked:.1f} of the {asked} verdicts"
    return f"{counted(len(rows), 'row')}: {said}{chance if asked else ''}"


def markdown(rows: Sequence[Row], cost: str) -> str:
    """The table for a README; ``cost`` is what was spent, in words."""
    lines = [HEADER, ("---",) * len(HEADER), *(row.cells for row in rows)]
    table = ["| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines]
    return "\n".join([*table, "", f"{summary(rows)}. {cost}", ""])
