"""Whether a mix that needs a larger model would also need one if it saw as much of the target: a comparison at equal
totals of steps and examples is confounded, since the target has only its share of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.transition.types import Synergy

SAME = 1e-4
"""Budgets are written with six digits."""


@dataclass(frozen=True)
class Standing:
    """What may be said of a mix that needs more: "no reduction" only where ``agreed``, and under which budget."""

    agreed: bool
    budget: str


def standing(answer: Answer, mix: MixAnswer, synergy: Callable[[MixAnswer], Synergy | None]) -> Standing:
    """How far a finding that ``mix`` needs a larger model than the baseline carries. ``synergy`` picks the ratio."""
    baseline = answer.mix(answer.baseline)
    in_total = _close(mix.budget, baseline.budget)
    in_target = _close(mix.seen, baseline.seen)
    if in_total and in_target:
        return Standing(True, "at this budget")
    seen = f"{mix.seen / baseline.seen:.0%} as many"
    here = "with as many" if in_target else f"with {seen}"
    others = [other for other in answer.mixes if other is not mix and _is_other_budget(other, mix, baseline)]
    if not others:
        confounded = "" if in_target else ", so this is confounded with the budget (budget=both would tell)"
        return Standing(False, f"{here} examples of {answer.target} as {answer.baseline}{confounded}")
    if all(_more(synergy(other)) for other in others):
        return Standing(True, "under either budget")
    return Standing(False, f"{here} examples of {answer.target} as {answer.baseline}, but not shown by {others[0].mix}")


def _is_other_budget(other: MixAnswer, mine: MixAnswer, baseline: MixAnswer) -> bool:
    """Whether a mix is the same one at the budget that is equal to the baseline's in the other respect."""
    if other.composition != mine.composition:
        return False
    if _close(mine.budget, baseline.budget):
        return _close(other.seen, baseline.seen)
    return _close(other.budget, baseline.budget)


def _more(found: Synergy | None) -> bool:
    """Whether a larger model is certainly needed."""
    return found is not None and found.decided and found.high is not None and found.high <= 1


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=SAME)
