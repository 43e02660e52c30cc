"""A mix's verdict in words, the same wherever a person reads it: live view, status, answer, figure, page and record.

And what a comparison rests on, where that is less than it looks: a plateau, seeds that were lucky, a search that was
stopped by hand.
"""

from __future__ import annotations

from orchestrator.report import wording
from orchestrator.report.answer import Answer, MixAnswer, TaskAnswer
from orchestrator.report.panel import Finding, sentence
from orchestrator.search.base import BY_HAND
from orchestrator.transition.types import LEVEL, SizeShare, Transition, Verdict
from trainables.words import Words

FEW = 2
"""Runs that have to have learned above a transition before a comparison rests on more than one of them."""


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
    """What a decided comparison of a mix with its baseline rests on, where that is a plateau, lucky seeds or a
    search that was stopped; ``""`` where it rests on transitions that were seen."""
    return " and ".join(f"{what} ({why})" for what, why in _weaknesses(answer, mix))


def finding_line(answer: Answer, finding: Finding) -> str:
    """What a mix saves under each recipe, in one sentence that begins with the recipes under which that rests on less
    than it looks, and on what."""
    under_each = {recipe: answer.under(recipe) for recipe in finding.by_recipe}
    weak = {recipe: _weaknesses(under, under.mix(finding.mix)) for recipe, under in under_each.items()}
    named = [f"{recipe}: {' and '.join(what for what, _ in found)}" for recipe, found in weak.items() if found]
    head = f"resting on less than it looks under {len(named)} ({'; '.join(named)}): " if named else ""
    return head + sentence(finding)


def _weaknesses(answer: Answer, mix: MixAnswer) -> list[tuple[str, str]]:
    """What a decided comparison rests on, and why that is little."""
    if mix.synergy_total is None or not mix.synergy_total.decided:
        return []
    compared = (answer.mix(answer.baseline_of(mix)), mix)
    weak = [_weakness(each.mix, each.target.transition, answer.words.learned) for each in compared]
    weak += [(f"a search {BY_HAND}", each.mix) for each in compared if each.stopped]
    return [each for each in weak if each is not None]


def _weakness(name: str, found: Transition, word: str) -> tuple[str, str] | None:
    learned, tried = _counts(found.shares)
    said = f"{learned} of {tried} seeds {word}" if tried else "no counts of seeds are kept"
    if found.verdict is Verdict.PLATEAU:
        return "a plateau", f"{name}: {said}"
    if found.verdict is Verdict.ABOVE:
        return ("lucky seeds", f"{name}: {said}, yet it counts as not {word}") if learned else None
    if found.verdict is not Verdict.FOUND or found.relative.value is None or not found.shares:
        return None
    beyond = tuple(share for share in found.shares if share.size >= found.relative.value)
    learned, tried = _counts(beyond)
    if tried < FEW:
        return "a single seed above the transition", f"{name}: {learned} of {tried} {word} there"
    if learned < LEVEL * tried:
        return "lucky seeds", f"{name}: {learned} of {tried} {word} above its transition"
    return None


def _counts(shares: tuple[SizeShare, ...]) -> tuple[int, int]:
    return sum(share.learned for share in shares), sum(share.tried for share in shares)
