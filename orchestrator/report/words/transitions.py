"""Transitions in words: estimates, censored sizes, and how many runs learned at each size."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.report.answer import Answer, MixAnswer, TaskAnswer
from orchestrator.report.words.numbers import exact, number
from orchestrator.search.base import BY_HAND
from orchestrator.transition.types import Estimate, Point, SizeShare, Transition, Verdict

NO_SIZE = (Verdict.NEAR_FLOOR,)
"""Verdicts that name no size, and so no count of parameters."""
MOST_LISTED = 4
"""Most mixes named in one line."""
LEVEL_TOP, LEVEL_RISE = 0.9, 0.1
"""A curve levels off if the mean score at each larger size is below the first and above the floor by the second."""
LARGER = 0.5
"""Larger sizes are those from this share of the largest on."""


def called(mix: MixAnswer) -> str:
    """Return a mix's name, in quotation marks if it has several words: ``"max, then add"``."""
    return f'"{mix.mix}"' if " " in mix.mix else mix.mix


def estimate(found: Estimate, smallest: float, largest: float, verdict: Verdict) -> str:
    """Return an estimate with its interval, or the reason why there is none.

    Args:
        found: The estimate.
        smallest: Smallest size tested, in the estimate's unit.
        largest: Largest size tested. A value outside the two is not printed.
        verdict: The verdict on the transition.
    """
    if verdict is Verdict.ABOVE:
        return f"above {exact(largest)}"
    if verdict is Verdict.BELOW:
        return f"below {exact(smallest)}"
    if verdict is Verdict.NEAR_FLOOR:
        return "not measurable"
    if verdict is Verdict.FOUND and found.value is not None and found.is_placed(smallest, largest):
        low = f"below {exact(smallest)}" if found.low is None else number(found.low)
        high = f"above {exact(largest)}" if found.high is None else number(found.high)
        return f"{number(found.value)} [{low}, {high}]"
    if found.low is found.high is None and found.value is not None and smallest <= found.value <= largest:
        return f"undecided, about {number(found.value)}"
    # A median outside the tested sizes is not a finding: only its bounds are printed.
    least = None if found.low is None or found.low < smallest else min(found.low, largest)
    most = None if found.high is None or found.high > largest else max(found.high, smallest)
    return f"undecided{_bounds(Estimate(None, least, most))}"


def _bounds(found: Estimate) -> str:
    if found.low is not None and found.high is not None:
        return f" [{number(found.low)}, {number(found.high)}]"
    if found.low is not None:
        return f", at least {number(found.low)}"
    return "" if found.high is None else f", at most {number(found.high)}"


def size_words(answer: Answer, found: Transition) -> str:
    """Return a transition on the axis of sizes, or why there is none: ``34.4 [29.5, 44]``, ``above 64``."""
    smallest, largest = answer.tested(found)
    words = estimate(found.relative, smallest.size, largest.size, found.verdict)
    if found.verdict is Verdict.NEAR_FLOOR and found.floor is not None:
        return f"{words} (a constant answer scores {found.floor:.2f})"
    return words


def count_words(answer: Answer, task: TaskAnswer) -> str:
    """Return a transition in trainable parameters; ``-`` for a verdict that names no size."""
    found = task.transition
    if found.verdict in NO_SIZE:
        return "-"
    smallest, largest = answer.tested(found)
    return estimate(task.total, smallest.total, largest.total, found.verdict)


def own_sentence(answer: Answer, mix: MixAnswer) -> str:
    """Return the answer to a mix's own question: ``add is learned from n_embed 14 [11, 28] on``."""
    found, axis = mix.target.transition, answer.size_axis
    smallest, largest = answer.tested(found)
    if not mix.runs:
        return f"{called(mix)} has no run that ended"
    if found.verdict is Verdict.FOUND and found.relative.is_placed(smallest.size, largest.size):
        return f"{called(mix)} is {answer.words.learned} from {axis} {size_words(answer, found)} on"
    if found.verdict is Verdict.ABOVE:
        return f"{called(mix)} was {never_learned(answer, (mix,))}"
    if found.verdict is Verdict.BELOW:
        return f"{called(mix)} was {answer.words.learned} already at {axis} {exact(smallest.size)}"
    if found.verdict is Verdict.NEAR_FLOOR:
        floor = f" already scores {found.floor:.2f}" if found.floor is not None else " scores nearly enough"
        return f"{called(mix)} is not measurable: always giving the commonest answer{floor}"
    return f"{called(mix)}: transition {size_words(answer, found)}"


def never_learned(answer: Answer, mixes: Sequence[MixAnswer]) -> str:
    """Return ``not learned up to n_embed 64``, or ``not reliably learned ...`` if some run of these mixes learned."""
    reliably = "reliably " if any(mix.learned for mix in mixes) else ""
    return f"not {reliably}{answer.words.learned} up to {largest_tested(answer, mixes)}"


def largest_tested(answer: Answer, mixes: Sequence[MixAnswer]) -> str:
    """Return the largest size at which any of these mixes was tested: ``n_embed 64``."""
    return f"{answer.size_axis} {exact(max(answer.tested(mix.target.transition)[1].size for mix in mixes))}"


def verdict_lines(answer: Answer) -> tuple[str, ...]:
    """Return the line of each mix that has runs."""
    return tuple(verdict_line(answer, mix) for mix in answer.mixes if mix.shares)


def verdict_line(answer: Answer, mix: MixAnswer) -> str:
    """Return the answer to a mix's own question with the runs that learned, size by size.

    ``add is learned from n_embed 34.4 [29.5, 44] on; learned by 0/1 at 32, 4/4 at 36``.
    """
    found = mix.target.transition
    parts = [own_sentence(answer, mix)]
    if mix.shares and found.verdict is not Verdict.NEAR_FLOOR:
        parts.append(f"{answer.words.learned} by {_counts(mix.shares)}")
    if level := level_words(answer, found.points):
        parts.append(level)
    return "; ".join([*parts, *([BY_HAND] if mix.stopped else [])])


def _counts(shares: Sequence[SizeShare]) -> str:
    """Runs that learned, from the last size at which none did to the first from which all do."""
    shown = _telling(shares)
    counts = [f"{share.learned}/{share.tried} at {exact(share.size)}" for share in shown]
    counts[0] += "" if shown[0] is shares[0] else " (none below)"
    counts[-1] += "" if shown[-1] is shares[-1] else " (all above)"
    return ", ".join(counts)


def _telling(shares: Sequence[SizeShare]) -> Sequence[SizeShare]:
    """The sizes between the last one, from below, that no run learned and the first one, from above, that all did."""
    start, end = 0, len(shares)
    while start + 1 < end and not any(share.learned for share in shares[start : start + 2]):
        start += 1
    while end - 2 >= start and all(share.learned == share.tried for share in shares[end - 2 : end]):
        end -= 1
    return shares[start:end]


def level_words(answer: Answer, points: Sequence[Point]) -> str:
    """Return the level of the larger sizes: ``accuracy .71 to .76 at n_embed 18 to 28``; ``""`` if they learned."""
    largest = max((point.size for point in points), default=0)
    scores: dict[int, list[float]] = {}
    for point in points:
        if point.size >= LARGER * largest:
            scores.setdefault(point.size, []).append(point.accuracy)
    means = [sum(values) / len(values) for _, values in sorted(scores.items())]
    floor = max((point.floor for point in points), default=0.0)
    if len(means) < 2 or max(means) >= LEVEL_TOP or min(means) <= floor + LEVEL_RISE:
        return ""
    low, high = (f"{mean:.2f}".removeprefix("0") for mean in (min(means), max(means)))
    scored = f"{answer.words.score} {low}" + (f" to {high}" if high != low else "")
    return f"{scored} at {answer.size_axis} {exact(min(scores))} to {exact(max(scores))}"
