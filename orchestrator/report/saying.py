"""A mix's verdict in words, the same wherever a person reads it: live view, status, answer, figure, page and record.

Also the searches stopped by hand that a comparison rests on.
"""

from __future__ import annotations

from orchestrator.report import wording
from orchestrator.report.answer import Answer, MixAnswer, TaskAnswer
from orchestrator.report.panel import Finding, sentence
from orchestrator.search.base import BY_HAND
from orchestrator.transition.types import Transition, Verdict
from trainables.words import Words


def size_words(answer: Answer, found: Transition) -> str:
    """``34.4 [29.5, 44]``, ``above 64``, ``plateau at 0.75``: where a transition lies on the axis of sizes."""
    smallest, largest = answer.tested(found)
    return between(found, smallest.size, largest.size)


def between(found: Transition, smallest: float, largest: float) -> str:
    """The same for a transition tested from ``smallest`` to ``largest``."""
    asymptote = found.fit.asymptote if found.fit else None
    return wording.estimate(found.relative, smallest, largest, found.verdict, asymptote)


def count_words(answer: Answer, task: TaskAnswer) -> str:
    """The same in trainable parameters, ``-`` where the verdict names no size."""
    found = task.transition
    if found.verdict in wording.NO_SIZE:
        return "-"
    smallest, largest = answer.tested(found)
    asymptote = found.fit.asymptote if found.fit else None
    return wording.estimate(task.total, smallest.total, largest.total, found.verdict, asymptote)


def verdict_line(answer: Answer, mix: MixAnswer) -> str:
    """A mix's verdict on the target, with how many seeds learned at which sizes, and whether somebody stopped it."""
    said = line(
        mix.mix, answer.size_axis, size_words(answer, mix.target.transition), mix.target.transition, answer.words
    )
    return f"{said}; {BY_HAND}" if mix.stopped else said


def line(name: str, size_axis: str, where: str, found: Transition, words: Words = wording.COMMON) -> str:
    """``add: n_embed 34.4 [29.5, 44]; learned by 0/1 at 32, 4/4 at 36; half of all seeds learn at 34 [28.9, 41.5]``."""
    if found.verdict in (Verdict.FOUND, Verdict.ABOVE, Verdict.BELOW):
        where = f"{size_axis} {where}"
    counted = wording.learned(name, found, words).removeprefix(f"{name}: ")
    return f"{name}: {where}; {counted}" if counted else f"{name}: {where}"


def rests_on(answer: Answer, mix: MixAnswer) -> str:
    """The searches stopped by hand that a decided comparison of a mix with its baseline rests on; ``""`` for none.

    Plateaus, curves that fall again and lucky seeds decide nothing (``synergy`` in transition/transition.py).
    """
    if mix.synergy_total is None or not mix.synergy_total.decided:
        return ""
    stopped = [each.mix for each in (answer.mix(answer.baseline_of(mix)), mix) if each.stopped]
    return " and ".join(f"a search {BY_HAND} ({name})" for name in stopped)


def finding_line(answer: Answer, finding: Finding) -> str:
    """What a mix saves under each recipe, in one sentence; first the recipes under which a search was stopped."""
    under_each = {recipe: answer.under(recipe) for recipe in finding.by_recipe}
    weak = {recipe: rests_on(under, under.mix(finding.mix)) for recipe, under in under_each.items()}
    named = [f"{recipe}: {what}" for recipe, what in weak.items() if what]
    head = f"resting on less than it looks under {len(named)} ({'; '.join(named)}): " if named else ""
    return head + sentence(finding)
