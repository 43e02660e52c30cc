"""Statements on the order of learning (tasks of peaked answers before those of evenly spread ones), judged. Pure:
learning curves of runs in, rows out."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy import stats

from orchestrator.report.answer import Answer
from orchestrator.report.verdicts import Agreement, Row, about_words
from orchestrator.space.expected import ORDER, Expectation
from trainables.base import Outcome

HALFWAY = 0.5
"""A task counts as learned from the evaluation on at which it has come so far from its constant answer's score to 1."""
ALIKE = 0.01
"""Entropies (in nats) that differ by less are called the same."""
FEWEST = 5
"""Runs in which an order shows: with fewer, not even one order in all of them excludes chance at 90 %."""


@dataclass(frozen=True)
class Learned:
    """When one run learned each of its tasks, in steps; None for those that it never did."""

    steps: Mapping[str, int | None]


def learned_at(outcome: Outcome) -> Learned:
    """From the learning curve on validation examples, as finely as it was evaluated."""
    steps: dict[str, int | None] = {}
    for task, floor in outcome.floor.items():
        wanted = floor + HALFWAY * (1 - floor)
        reached = (point.step for point in outcome.curve if point.accuracy.get(task, 0.0) >= wanted)
        steps[task] = next(reached, None)
    return Learned(steps)


def peaked_first(run: Learned, entropy: Mapping[str, float]) -> float | None:
    """Of the pairs of tasks that a run learned one after the other and whose entropies differ, the share with the
    peaked one (of the lower entropy) first, less the share with it last: Goodman and Kruskal's gamma, in [-1, 1]. A
    task that was never learned comes after one that was. None where no pair tells."""
    told = []
    for one, other in itertools.combinations(sorted(run.steps), 2):
        first, second = (run.steps[task] for task in (one, other))
        if first == second or abs(entropy[one] - entropy[other]) < ALIKE:
            continue
        one_first = second is None or (first is not None and first < second)
        told.append(1 if one_first == (entropy[one] < entropy[other]) else -1)
    return sum(told) / len(told) if told else None


def judge_order(
    space: str,
    variant: str,
    expected: Sequence[Expectation],
    answer: Answer,
    runs: Mapping[str, Sequence[Learned]],
    entropy: Mapping[str, float],
    sweep: str,
) -> list[Row]:
    """The statements about the order of learning, a row for each mix of several tasks they are about. ``runs`` has the
    finished runs of each mix, ``entropy`` the entropy of every task's answers in nats, empty where it is not known."""
    rows = []
    for each in expected:
        if each.finds not in ORDER:
            continue
        for mix in answer.mixes:
            seen = [run for run in runs.get(mix.mix, ()) if len(run.steps) > 1]
            if each.mix in ("*", mix.mix, mix.plain) and (seen or each.mix != "*"):
                found, agreement = _judged(seen, entropy, answer.confidence)
                about = about_words(mix.mix, variant)
                rows.append(Row(space, about, each.claim, each.source, found, agreement, (sweep,)))
    return rows


def _judged(runs: Sequence[Learned], entropy: Mapping[str, float], confidence: float) -> tuple[str, Agreement]:
    """The order in words, and its agreement: the share of runs with the peaked tasks first, with Clopper and
    Pearson's interval against one half."""
    if not entropy:
        return "the family has no tables of its tasks", Agreement.UNDECIDED
    orders = [order for run in runs if (order := peaked_first(run, entropy)) is not None and order != 0]
    if len(orders) < FEWEST:
        return f"an order shows in {len(orders)} of {len(runs)} runs: {FEWEST} are needed", Agreement.UNDECIDED
    count = sum(order > 0 for order in orders)
    interval = stats.binomtest(count, len(orders)).proportion_ci(confidence)
    tasks = sorted({task for run in runs for task in run.steps}, key=lambda task: entropy[task])
    entropies = ", ".join(f"{task} {entropy[task]:.2f}" for task in tasks)
    said = (
        f"peaked tasks first in {count} of {len(orders)} runs in which an order shows, "
        f"{count / len(orders):.2f} [{interval.low:.2f}, {interval.high:.2f}]; entropy of the answers: {entropies}"
    )
    if interval.low > 0.5:
        return said, Agreement.AGREES
    return said, Agreement.CONTRADICTED if interval.high < 0.5 else Agreement.UNDECIDED
