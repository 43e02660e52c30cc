"""Verdicts on the order in which a model learns its tasks.

A task is *peaked* if some of its answers are much more frequent than others: the entropy of its answers is low. A claim
that peaked tasks are learned first agrees if more than half of all runs show that order, by Clopper and Pearson's
interval.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from orchestrator.report.verdicts.agreement import Agreement, Judgment
from orchestrator.transition.types import CONFIDENCE
from trainables.base import Outcome

HALFWAY = 0.5
"""A task is halfway learned at this share of the way from its constant answer's score to 1."""
ALIKE = 0.01
"""Entropies (in nats) that differ by less count as equal."""
FEWEST_RUNS = 5
"""Minimum number of runs with an order. With fewer, even a unanimous order could be chance at the 90% level."""

Steps = Mapping[str, float]
"""The step at which a run was halfway on each task, infinity for never."""


def halfway_steps(outcome: Outcome) -> Steps:
    """Return the step at which a run was halfway on each task, by its validation curve."""
    halfway = {task: floor + HALFWAY * (1 - floor) for task, floor in outcome.floor.items()}
    return {
        task: next((point.step for point in outcome.curve if point.accuracy.get(task, 0.0) >= half), math.inf)
        for task, half in halfway.items()
    }


def peaked_first(steps: Steps, entropy: Mapping[str, float]) -> float:
    """Return how far a run learned tasks of peaked answers first, as Goodman and Kruskal's gamma in [-1, 1].

    Take all pairs of tasks with different steps and entropies. The result is the share of pairs in which the task with
    the lower entropy was learned first, minus the share of the other pairs. It is 0 if there are no such pairs. A task
    that was never learned comes last.
    """
    signs = [
        1 if (steps[first] < steps[second]) == (entropy[first] < entropy[second]) else -1
        for first, second in itertools.combinations(sorted(steps), 2)
        if steps[first] != steps[second] and abs(entropy[first] - entropy[second]) >= ALIKE
    ]
    return sum(signs) / max(len(signs), 1)


def judge_order(runs: Sequence[Steps], entropy: Mapping[str, float]) -> Judgment:
    """Return the order as text, and the verdict on whether more than half of the runs learned peaked tasks first."""
    if not entropy:
        return "the family has no tables of its tasks", Agreement.UNDECIDED
    orders = [order for run in runs if (order := peaked_first(run, entropy))]
    if len(orders) < FEWEST_RUNS:
        return (
            f"{len(orders)} of {len(runs)} runs show an order; at least {FEWEST_RUNS} are needed",
            Agreement.UNDECIDED,
        )
    from scipy.stats import binomtest  # Takes most of a second to import.

    count = sum(order > 0 for order in orders)
    interval = binomtest(count, len(orders)).proportion_ci(CONFIDENCE)
    tasks = sorted({task for run in runs for task in run}, key=lambda task: entropy[task])
    entropies = ", ".join(f"{task} {entropy[task]:.2f}" for task in tasks)
    text = (
        f"peaked tasks first in {count} of {len(orders)} runs that show an order, "
        f"{count / len(orders):.2f} [{interval.low:.2f}, {interval.high:.2f}]; entropy of the answers: {entropies}"
    )
    return text, Agreement.of(interval.low > 0.5, interval.high < 0.5)
