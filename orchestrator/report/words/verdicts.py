"""Verdicts in words: estimates, plateaus and censored sizes, comparisons, and the caveats under them.

A sentence claims no more than the runs show, and never mixes sizes with parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from orchestrator.report.answer import Answer, MixAnswer, TaskAnswer
from orchestrator.report.words.numbers import bare, counted, exact, listed, number, times
from orchestrator.search.base import BY_HAND
from orchestrator.transition.types import CONFIDENCE, Doubt, Estimate, SizeShare, Synergy, Transition, Verdict
from trainables.contract.runs import Words

NO_SIZE = (Verdict.PLATEAU, Verdict.NEAR_FLOOR)
"""Verdicts that name no size, and so no count of parameters."""
SAME = 1e-4
"""Relative error of budgets, which are written with six digits."""
MOST_LISTED = 4
"""Most sizes or mixes named in one line."""


def called(mix: MixAnswer) -> str:
    """A mix's name, in quotation marks if it has several words: ``"max, then add"``."""
    return f'"{mix.mix}"' if " " in mix.mix else mix.mix


def estimate(found: Estimate, smallest: float, largest: float, verdict: Verdict, asymptote: float | None) -> str:
    """An estimate with its interval, or the reason for having none.

    ``smallest`` and ``largest`` are the ends of what was tested, in the estimate's unit. A value outside them is
    not printed.
    """
    if verdict is Verdict.ABOVE:
        return f"above {exact(largest)}"
    if verdict is Verdict.BELOW:
        return f"below {exact(smallest)}"
    if verdict is Verdict.PLATEAU:
        return "plateau" if asymptote is None else f"plateau at {asymptote:.2f}"
    if verdict is Verdict.NEAR_FLOOR:
        return "not measurable"
    if verdict is Verdict.FALLS:
        return f"{estimate(found, smallest, largest, Verdict.FOUND, asymptote)}, falls again"
    if verdict is Verdict.FOUND and found.value is not None and found.is_placed(smallest, largest):
        low = f"below {exact(smallest)}" if found.low is None else number(found.low)
        high = f"above {exact(largest)}" if found.high is None else number(found.high)
        return f"{number(found.value)} [{low}, {high}]"
    if found.low is found.high is None and found.value is not None and smallest <= found.value <= largest:
        return f"undecided, about {number(found.value)}"
    # A median outside what was tested is no finding: the runs give the bounds alone.
    least = None if found.low is None or found.low < smallest else min(found.low, largest)
    most = None if found.high is None or found.high > largest else max(found.high, smallest)
    return f"undecided{_bounds(Estimate(None, least, most))}"


def _bounds(found: Estimate) -> str:
    if found.low is not None and found.high is not None:
        return f" [{number(found.low)}, {number(found.high)}]"
    if found.low is not None:
        return f", at least {number(found.low)}"
    return "" if found.high is None else f", at most {number(found.high)}"


def between(found: Transition, smallest: float, largest: float) -> str:
    """A transition tested from ``smallest`` to ``largest``, on the axis of sizes."""
    asymptote = found.fit.asymptote if found.fit else None
    return estimate(found.relative, smallest, largest, found.verdict, asymptote)


def size_words(answer: Answer, found: Transition) -> str:
    """``34.4 [29.5, 44]``, ``above 64``, ``plateau at 0.75``: a transition on the axis of sizes, or the reason for
    none."""
    smallest, largest = answer.tested(found)
    words = between(found, smallest.size, largest.size)
    if found.verdict is Verdict.NEAR_FLOOR and found.floor is not None:
        return f"{words} (a constant answer scores {found.floor:.2f})"
    return words


def count_words(answer: Answer, task: TaskAnswer) -> str:
    """The same in trainable parameters; ``-`` for a verdict that names no size."""
    found = task.transition
    if found.verdict in NO_SIZE:
        return "-"
    smallest, largest = answer.tested(found)
    return estimate(task.total, smallest.total, largest.total, found.verdict, None)


def verdict_line(answer: Answer, mix: MixAnswer) -> str:
    """A mix's verdict on the target with the seeds that learned: ``add: n_embed 34.4 [29.5, 44]; learned by 0/1 at 32,
    4/4 at 36; half of all seeds learn at 34 [28.9, 41.5]``."""
    found, where = mix.target.transition, size_words(answer, mix.target.transition)
    if found.verdict in (Verdict.FOUND, Verdict.ABOVE, Verdict.BELOW, Verdict.FALLS):
        where = f"{answer.size_axis} {where}"
    by_hand = [BY_HAND] if mix.stopped else []
    return "; ".join([f"{mix.mix}: {where}", *_seeds(found, answer.words), *by_hand])


def verdict_lines(answer: Answer) -> tuple[str, ...]:
    """The verdicts of all mixes with runs at some size."""
    return tuple(verdict_line(answer, mix) for mix in answer.mixes if mix.target.transition.shares)


def _seeds(found: Transition, words: Words) -> list[str]:
    """Seeds that learned, from the last size at which none did to the first from which all do; and the size at which
    half of all seeds learn, if it is one of those tested."""
    if not found.shares:
        return []
    told = _telling(found.shares)
    tried = [f"{each.learned}/{each.tried} at {exact(each.size)}" for each in told]
    tried[0] += "" if told[0] is found.shares[0] else " (none below)"
    tried[-1] += "" if told[-1] is found.shares[-1] else " (all above)"
    half = found.half
    within = half.value is not None and found.shares[0].size <= half.value <= found.shares[-1].size
    said = [f"{words.learned} by {', '.join(tried)}"]
    if within and half.value is not None and half.low is not None and half.high is not None:
        interval = f"[{number(half.low)}, {number(half.high)}]"
        said.append(f"half of all seeds {words.learn} at {number(half.value)} {interval}")
    return [*said, f"where seeds disagree, most {words.learn} fully or not at all"] if found.bimodal else said


def _telling(shares: Sequence[SizeShare]) -> Sequence[SizeShare]:
    """The sizes between the last one, from below, that no seed learned and the first one, from above, that all did."""
    start, end = 0, len(shares)
    while start + 1 < end and not any(share.learned for share in shares[start : start + 2]):
        start += 1
    while end - 2 >= start and all(share.learned == share.tried for share in shares[end - 2 : end]):
        end -= 1
    return shares[start:end]


def saving(found: Synergy) -> str:
    """A comparison whose mixes are named elsewhere: ``2.9x fewer [2.0, 4.9]``, ``undecided: between 2.0x fewer
    and 1.9x more``, with the reason for a doubt."""
    doubt = "" if found.decided else _doubt(found)
    return f"{short_saving(found)}{f'; {doubt}' if doubt else ''}"


def short_saving(found: Synergy) -> str:
    """The same for a figure: with a reason only where no side is bounded."""
    times_so, interval = _decided(found)
    if times_so:
        return f"{times_so}{interval}"
    if span := _span(found) or (found.doubt if found.doubt is not Doubt.INTERVAL else ""):
        return f"undecided: {span}"
    return "undecided"


def sentence(answer: Answer, mix: MixAnswer) -> str:
    """The comparison of a mix with its baseline; of a mix that is compared with none its verdict."""
    synergy = mix.synergy_total
    if synergy is None:
        return f"{_verdict(answer, mix)}."
    baseline = answer.mix(answer.baseline_of(mix))
    here, there, kind = called(mix), called(baseline), answer.words.parameters
    times_so, interval = _decided(synergy)
    if times_so:
        said = f", {CONFIDENCE:.0%} interval{interval}" if interval else ""
        return f"{here} needs {times_so} {kind} than {there}{said}."
    if span := _span(synergy):
        doubt, low, high = _doubt(synergy), synergy.low, synergy.high
        said = f"{here} needs {span} {kind} than {there}"
        if low is not None and high is not None:
            said = f"for {here} anything from {_side(high)} to {_side(low)} {kind} than {there} fits the runs"
        return f"Undecided: {said}{f', but {doubt}' if doubt else ''}."
    if synergy.value is not None:
        return f"Undecided: the runs do not bound what {here} needs against {there}."
    both = (baseline, mix)
    if unmeasurable := [_verdict(answer, each) for each in both if _is(each, Verdict.NEAR_FLOOR)]:
        return f"{unmeasurable[0]}."
    if all(_is(each, Verdict.ABOVE) for each in both) and len({never(answer, (each,)) for each in both}) == 1:
        return f"{there} and {here} were {never(answer, both)} up to {_largest(answer, both)}."
    open_ones = [called(each) for each in both if not each.runs or _is(each, Verdict.UNDECIDED)]
    if open_ones:
        return f"Undecided: the runs of {listed(open_ones)} tell too little."
    return f"Not comparable: {'; '.join(_verdict(answer, each) for each in both)}."


def sentences(answer: Answer) -> tuple[str, ...]:
    """The finding: one sentence a comparison; one in all if no run learned anything up to the largest size."""
    if not any(mix.runs for mix in answer.mixes):
        return ("Every run so far failed." if any(mix.failed for mix in answer.mixes) else "No run has ended yet.",)
    if nothing_learned(answer):
        return (f"Nothing was {answer.words.learned} up to {_largest(answer, answer.mixes)}.",)
    compared = [mix for mix in answer.mixes if mix.synergy_total is not None]
    return tuple(dict.fromkeys(sentence(answer, mix) for mix in compared or answer.mixes))


def nothing_learned(answer: Answer) -> bool:
    """True if every mix was tried at its largest size and no run of any mix learned."""
    return all(
        _is(mix, Verdict.ABOVE, Verdict.PLATEAU) and not any(each.learned for each in mix.target.transition.shares)
        for mix in answer.mixes
    )


def never(answer: Answer, mixes: Sequence[MixAnswer]) -> str:
    """``not learned``, or ``not reliably learned`` if some seed of these mixes learned."""
    some = any(share.learned for mix in mixes for share in mix.target.transition.shares)
    return f"not {'reliably ' if some else ''}{answer.words.learned}"


def _largest(answer: Answer, mixes: Sequence[MixAnswer]) -> str:
    return f"{answer.size_axis} {exact(max(answer.tested(mix.target.transition)[1].size for mix in mixes))}"


def _verdict(answer: Answer, mix: MixAnswer) -> str:
    """One mix's verdict as a sentence without its full stop."""
    found, won = mix.target.transition, answer.words.learned
    axis, words = answer.size_axis, size_words(answer, mix.target.transition)
    smallest, largest = answer.tested(found)
    if not mix.runs:
        return f"no run of {called(mix)} has ended"
    placed = found.relative.is_placed(smallest.size, largest.size)
    if found.verdict is Verdict.FOUND and placed:
        return f"{called(mix)} is {won} from {axis} {words} on"
    if found.verdict is Verdict.ABOVE:
        return f"{called(mix)} was {never(answer, (mix,))} up to {axis} {exact(largest.size)}"
    if found.verdict is Verdict.BELOW:
        return f"{called(mix)} was {won} already at {axis} {exact(smallest.size)}"
    if found.verdict is Verdict.PLATEAU:
        level = f" at {found.fit.asymptote:.2f}" if found.fit else ""
        return f"{called(mix)} levels off{level}, short of what counts as {won}"
    if found.verdict is Verdict.FALLS and placed:
        return f"{called(mix)} is {won} from {axis} {words.removesuffix(', falls again')} on and fails again above"
    if found.verdict is Verdict.NEAR_FLOOR:
        floor = f" already scores {found.floor:.2f}" if found.floor is not None else " scores nearly enough"
        return f"Not measurable: always giving the commonest answer{floor}"
    return f"{called(mix)} is {words}"


def _decided(found: Synergy) -> tuple[str, str]:
    """``2.9x fewer`` and `` [2.0, 4.9]``; the interval is ``""`` if a side is open, both are if nothing is decided."""
    if found.decided and found.low is not None and found.low >= 1:
        if found.value is None or found.high is None:
            return f"at least {times(found.low)} fewer", ""
        return f"{times(found.value)} fewer", f" [{bare(found.low)}, {bare(found.high)}]"
    if found.decided and found.high is not None and found.high <= 1:
        if found.value is None or found.low is None:
            return f"at least {times(1 / found.high)} more", ""
        return f"{times(1 / found.value)} more", f" [{bare(1 / found.high)}, {bare(1 / found.low)}]"
    return "", ""


def _span(found: Synergy) -> str:
    """What an interval that decides nothing leaves open: ``between 2.0x fewer and 1.9x more``; ``""`` if no side is
    bounded."""
    low, high = found.low, found.high
    if low is not None and high is not None:
        return f"between {_side(high)} and {_side(low)}"
    if high is not None:
        return f"at {'most' if high >= 1 else 'least'} {_side(high)}"
    return "" if low is None else f"at {'least' if low >= 1 else 'most'} {_side(low)}"


def _side(bound: float) -> str:
    return f"{times(bound)} fewer" if bound >= 1 else f"{times(1 / bound)} more"


def _doubt(found: Synergy) -> str:
    """The reason why an interval without 1 decides nothing; ``""`` for one that holds it."""
    one_sided = (found.low is not None and found.low > 1) or (found.high is not None and found.high < 1)
    return str(found.doubt or Doubt.CRITERION) if one_sided and found.doubt is not Doubt.INTERVAL else ""


def certainty(found: Synergy) -> str:
    """``holds 1 (no difference)``, ``is open on both sides`` and the like: the interval of a ratio, in words."""
    if found.decided:
        return "excludes 1 (no difference)"
    if found.low is None and found.high is None:
        return "is open on both sides"
    doubt = _doubt(found)
    return f"excludes 1, but {doubt}" if doubt else "holds 1 (no difference)"


def _is(mix: MixAnswer, *verdicts: Verdict) -> bool:
    return bool(mix.runs) and mix.target.transition.verdict in verdicts


def caveats(answer: Answer) -> tuple[str, ...]:
    """Qualifications of the finding, a short line each: flaws of the data, thin evidence, seeds that disagree."""
    said = list(answer.cautions)
    for mix in answer.mixes:
        if unequal := confounded(answer, mix):
            said.append(f"{called(mix)} {unequal}.")
    split = [f"{called(mix)}: seeds disagree at {at}." for mix in answer.mixes if (at := disagreement(answer, mix))]
    many = len(split) > MOST_LISTED
    said += [f"Seeds disagree at some sizes in {len(split)} of {len(answer.mixes)} mixes."] if many else split
    said += [f"{called(mix)} was {BY_HAND}." for mix in answer.mixes if mix.stopped]
    for status in ("diverged", "failed"):
        if count := sum(getattr(mix, status) for mix in answer.mixes):
            means = f"as not {answer.words.learned}" if status == "diverged" else "as no evidence"
            said.append(f"{counted(count, 'run')} {status} and count{'s' if count == 1 else ''} {means}.")
    return tuple(said)


def disagreement(answer: Answer, mix: MixAnswer) -> str:
    """Sizes at which some seeds learned and others did not, or at which none did although a smaller size was learned:
    ``n_embed 12 (3 of 5 learned), 14 (0 of 1, unlike 13)``."""
    split, below = list[str](), 0.0
    for share in mix.target.transition.shares:
        fails = below > 0 and not share.learned
        if fails or 0 < share.learned < share.tried:
            unlike = f", unlike {exact(below)}" if fails else ""
            split.append(f"{exact(share.size)} ({share.learned} of {share.tried} {answer.words.learned}{unlike})")
        below = share.size if share.learned else below
    said = f"{answer.size_axis} {', '.join(split[-MOST_LISTED:])}" if split else ""
    rest = len(split) - MOST_LISTED
    return f"{said} and {counted(rest, 'smaller size')}" if rest > 0 else said


def confounded(answer: Answer, mix: MixAnswer) -> str:
    """The unequal budget of a mix that needs a larger model: ``saw 50% as many examples of add as add``; ``""`` if the
    budgets are equal."""
    found, baseline = mix.synergy_total, answer.mix(answer.baseline_of(mix))
    needs_more = found is not None and found.decided and found.high is not None and found.high <= 1
    if not needs_more or (_close(mix.budget, baseline.budget) and _close(mix.seen, baseline.seen)):
        return ""
    if _close(mix.seen, baseline.seen):
        had = f"trained for {bare(mix.budget / baseline.budget)} times the steps of {called(baseline)}"
    else:
        had = f"saw {mix.seen / baseline.seen:.0%} as many examples of {answer.target} as {called(baseline)}"
    same = (mix.composition, mix.recipe)
    both = sum((other.composition, other.recipe) == same for other in answer.mixes) > 1
    return had if both else f"{had}: budget=both would tell that apart"


def _close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=SAME)
