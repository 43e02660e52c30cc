"""Text about transitions: estimates, censored sizes, and the number of runs that learned at each size."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.report.answer import Answer, MixAnswer, TaskAnswer
from orchestrator.search.base import BY_HAND
from orchestrator.system.text import counted, exact, listed, number, quoted
from orchestrator.transition.evidence import has_learned
from orchestrator.transition.types import Estimate, Point, SizeShare, Transition, Verdict

MOST_LISTED = 4
"""Maximum number of mixes, sizes or seeds named in one line."""
LEVEL_TOP = 0.9
"""The mean score of larger sizes is printed if it is below this level and above the floor by :data:`LEVEL_RISE`."""
LEVEL_RISE = 0.1
"""Minimum distance of a printed level above the floor."""
LOCATED = (Verdict.FOUND, Verdict.LEVELS_OFF)
"""Verdicts on transitions that have a size."""
NOT_LOCATED = "not located"
"""Text for a transition without an estimate or bounds."""
FEW = 3
"""If at most this many runs ended and none learned, the answer contains their number instead of a bound."""
LARGER = 0.5
"""Larger sizes are at least this share of the largest size."""


def called(mix: MixAnswer) -> str:
    """Return a mix's name, quoted if it has several words: ``"max, then add"``."""
    return quoted(mix.mix)


def interval_text(size: Estimate, smallest: float, largest: float, verdict: Verdict) -> str:
    """Return an estimate with its interval, or the reason why there is none.

    ``smallest`` and ``largest`` are the tested sizes in the estimate's unit. Values outside are only printed as bounds.
    """
    below, above = f"below {exact(smallest)}", f"above {exact(largest)}"
    known = {Verdict.ABOVE: above, Verdict.BELOW: below, Verdict.NEAR_FLOOR: "not measurable"}
    if verdict in known:
        return known[verdict]
    if verdict in LOCATED and size.value is not None and size.is_placed(smallest, largest):
        low = below if size.low is None else number(size.low)
        high = above if size.high is None else number(size.high)
        return f"{number(size.value)} [{low}, {high}]"
    if size.low is size.high is None and size.value is not None and smallest <= size.value <= largest:
        return f"about {number(size.value)}"
    least = None if size.low is None or size.low < smallest else number(min(size.low, largest))
    most = None if size.high is None or size.high > largest else number(max(size.high, smallest))
    if least and most:
        return f"between {least} and {most}"
    if least:
        return f"at least {least}"
    return f"at most {most}" if most else NOT_LOCATED


def size_text(answer: Answer, transition: Transition) -> str:
    """Return a transition on the size axis, or a bound on it: ``34.4 [29.5, 44]``, ``above 64``, ``learned at 8``."""
    smallest, largest = answer.tested(transition)
    text = interval_text(transition.relative, smallest.size, largest.size, transition.verdict)
    if transition.verdict is Verdict.NEAR_FLOOR:
        return f"{text} (a constant answer scores {transition.floor:.2f})"
    if transition.verdict is Verdict.LEVELS_OFF:
        return f"levels off at {asymptote_text(transition)} (transition of what it reaches: {text})"
    if few := _few_unlearned(answer, transition, smallest.size, largest.size):
        return few
    return text if text != NOT_LOCATED else _learned_at(answer, transition, smallest.size)


def asymptote_text(transition: Transition) -> str:
    """Return the mean score that large models reach, ``.8`` or ``.75``."""
    return f"{transition.asymptote or 0.0:.2g}".removeprefix("0")


def count_text(answer: Answer, task: TaskAnswer) -> str:
    """Return a transition in trainable parameters, or ``-`` for a verdict without a size."""
    if task.transition.verdict is Verdict.NEAR_FLOOR:
        return "-"
    smallest, largest = answer.tested(task.transition)
    if few := _few_unlearned(answer, task.transition, smallest.total, largest.total):
        return few
    text = interval_text(task.total, smallest.total, largest.total, task.transition.verdict)
    return text if text != NOT_LOCATED else _learned_at(answer, task.transition, smallest.total)


def _few_unlearned(answer: Answer, transition: Transition, smallest: float, largest: float) -> str:
    """Return ``not learned at 16 (1 run)`` if there are few runs and none learned, otherwise an empty string.

    ``smallest`` and ``largest`` are sizes or parameters.
    """
    # The bound from a single run, "at least 16", would read as if more were known.
    points = transition.points
    if transition.verdict is not Verdict.UNDECIDED or not are_few_unlearned(points, answer.learned):
        return ""
    where = f"at {exact(largest)}" if smallest == largest else f"from {exact(smallest)} to {exact(largest)}"
    return f"not {answer.words.learned} {where} ({counted(len(points), 'run')})"


def are_few_unlearned(points: Sequence[Point], learned: float) -> bool:
    """Return True if there are runs, at most :data:`FEW`, and none reached the share ``learned``."""
    bad = [not has_learned(point.accuracy, point.floor, point.settled, learned) for point in points]
    return 0 < len(bad) <= FEW and all(bad)


def _learned_at(answer: Answer, transition: Transition, smallest: float) -> str:
    """Return ``learned at 8`` if every run of the smallest tested size learned. ``smallest`` is that size, or its
    parameters."""
    least = answer.tested(transition)[0].size
    first = [point for point in transition.points if point.size == least]
    learned = first and all(answer.has_learned(point) for point in first)
    return f"{answer.words.learned} at {exact(smallest)}" if learned else NOT_LOCATED


def own_sentence(answer: Answer, mix: MixAnswer) -> str:
    """Return the answer to a mix's own question: ``add: transition at n_embed 14 [11, 28]``."""
    name = called(mix)
    transition = mix.target.transition
    axis = answer.size_axis
    learned = answer.words.learned
    smallest, largest = answer.tested(transition)
    if not mix.runs:
        return f"{name} has no run that ended"
    if transition.verdict is Verdict.FOUND and transition.relative.is_placed(smallest.size, largest.size):
        return f"{name}: transition at {axis} {size_text(answer, transition)}"
    if transition.verdict is Verdict.LEVELS_OFF:
        size = interval_text(transition.relative, smallest.size, largest.size, transition.verdict)
        return f"{name} levels off at {asymptote_text(transition)}: transition of what it reaches at {axis} {size}"
    if transition.verdict is Verdict.ABOVE:
        return f"{name} was {never_learned(answer, (mix,))}"
    if transition.verdict is Verdict.BELOW:
        return f"{name} was already {learned} at {axis} {exact(smallest.size)}"
    if transition.verdict is Verdict.NEAR_FLOOR:
        scores = f"always giving the most frequent answer already scores {transition.floor:.2f}"
        return f"{name} is not measurable: {scores}"
    known = size_text(answer, transition)
    return f"{name}: transition {NOT_LOCATED}{'' if known == NOT_LOCATED else f', {known}'}"


def never_learned(answer: Answer, mixes: Sequence[MixAnswer]) -> str:
    """Return ``not learned up to n_embed 64``, or ``not reliably learned ...`` if a run of these mixes learned."""
    reliably = "reliably " if any(mix.learned for mix in mixes) else ""
    return f"not {reliably}{answer.words.learned} up to {largest_tested(answer, mixes)}"


def largest_tested(answer: Answer, mixes: Sequence[MixAnswer]) -> str:
    """Return the largest size at which these mixes were tested: ``n_embed 64``."""
    return f"{answer.size_axis} {exact(max(answer.tested(mix.target.transition)[1].size for mix in mixes))}"


def verdict_lines(answer: Answer) -> tuple[str, ...]:
    """Return a line per mix with runs."""
    return tuple(verdict_line(answer, mix) for mix in answer.mixes if mix.shares)


def verdict_line(answer: Answer, mix: MixAnswer) -> str:
    """Return a mix's own answer: ``add: transition at n_embed 34 [30, 44]; models that learned: 0 of 1 at 32``."""
    transition = mix.target.transition
    runs = ""
    if mix.shares and transition.verdict is not Verdict.NEAR_FLOOR:
        runs = f"{answer.words.run}s that {answer.words.learned}: {_counts(mix.shares)}"
    stopped = BY_HAND if mix.stopped else ""
    return "; ".join(filter(None, (own_sentence(answer, mix), runs, _level(answer, transition.points), stopped)))


def _counts(shares: Sequence[SizeShare]) -> str:
    """Return the number of runs that learned, by size. Sizes at which none or all learned are summarized."""
    # One size with none and one with all stay in the list: they show where learning begins and is complete.
    start = 0
    end = len(shares)
    while start + 1 < end and not any(share.learned for share in shares[start : start + 2]):
        start += 1
    while end - 2 >= start and all(share.learned == share.tried for share in shares[end - 2 : end]):
        end -= 1
    counts = [f"{share.learned} of {share.tried} at {exact(share.size)}" for share in shares[start:end]]
    below = [f"none below {exact(shares[start].size)}"] if start else []
    above = [f"all above {exact(shares[end - 1].size)}"] if end < len(shares) else []
    return ", ".join([*below, *counts, *above])


def disagreement_text(answer: Answer) -> str:
    """Return seeds that disagree with others of their size: ``add 3/4 at 64 (not seed 3)``.

    Return an empty string if none disagree.
    """
    parts = []
    for mix in answer.mixes:
        sizes: dict[int, dict[bool, list[str]]] = {}
        for point in mix.target.transition.points:
            seeds = sizes.setdefault(point.size, {True: [], False: []})
            seeds[answer.has_learned(point)].append(str(point.seed))
        texts = []
        for size, seeds in sizes.items():
            learned = len(seeds[True])
            tried = len(seeds[True]) + len(seeds[False])
            if 0 < learned < tried:
                few, word = (seeds[True], "only") if 2 * learned <= tried else (seeds[False], "not")
                names = listed(few) if len(few) <= MOST_LISTED else f"{len(few)} of them"
                texts.append(f"{learned}/{tried} at {exact(size)} ({word} seed{'s' if len(few) > 1 else ''} {names})")
        more = f" and {len(texts) - MOST_LISTED} more sizes" if len(texts) > MOST_LISTED else ""
        if texts:
            parts.append(f"{called(mix)} {', '.join(texts[:MOST_LISTED])}{more}")
    return "; ".join(parts)


def _level(answer: Answer, points: Sequence[Point]) -> str:
    """Return the level at larger sizes: ``accuracy .71 to .76 at n_embed 18 to 28``.

    Return an empty string if the runs learned.
    """
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
