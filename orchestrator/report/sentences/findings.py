"""Sentences about findings, with evidence as odds. A sentence states a finding and its runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from orchestrator.report.answer import Answer, GivenUp, MixAnswer
from orchestrator.report.conclusions import Conclusion, Obstacle, conclusion_of, learned_by_half, unplaced
from orchestrator.report.sentences.transitions import MOST_LISTED, called, largest_tested, never_learned, own_sentence
from orchestrator.search.base import BY_HAND
from orchestrator.search.reachable_pairs import Shortfall
from orchestrator.system.text import bare, counted, exact, listed
from orchestrator.transition.comparison import Comparison, Tallies, odds, rounded_down
from orchestrator.transition.evidence import Direction
from orchestrator.transition.types import CONFIDENCE, LEVEL, Synergy, Verdict

LEAST_FACTOR = 1.1
"""Certified factors below this are not printed."""
LEANING = 2.0
"""Minimum evidence for naming the direction of an undecided comparison."""
BUDGET_TOLERANCE = 1e-4
"""Relative tolerance for equal budgets, which are written with six digits."""


def sentences(answer: Answer) -> tuple[str, ...]:
    """Return the findings of an answer: a sentence per comparison, or one about all mixes."""
    if not answer.runs:
        failed = any(mix.failed for mix in answer.mixes)
        return ("Every run so far failed." if failed else "No run has ended yet.",)
    if answer.nothing_learned:
        return (f"Nothing was {answer.words.learned} up to {largest_tested(answer, answer.mixes)}.",)
    return tuple(dict.fromkeys(sentence(answer, mix) for mix in answer.compared or answer.mixes))


def sentence(answer: Answer, mix: MixAnswer) -> str:
    """Return a sentence with the finding about a mix, and the number of its runs."""
    mix_name = called(mix)
    baseline_name = called(answer.baseline_of(mix))
    target = answer.target
    learned = answer.words.learned
    comparison = mix.comparison
    conclusion = conclusion_of(answer, mix)
    if not mix.is_compared:
        return f"{own_sentence(answer, mix)}."
    if comparison is None:
        return f"Nothing is decided: {mix_name} and {baseline_name} were not trained in pairs."
    equal = comparison.equal
    head = f"No difference between {mix_name} and {baseline_name} has been shown yet"
    if not equal.mix.tried or not equal.baseline.tried:
        failed = mix_name if equal.baseline.tried else baseline_name
        why = f"in every pair, the {failed} run failed" if equal.pairs else "no pair of equal size is complete"
        return f"{head}: {why}."
    sizes = _size_range(answer, sorted({*equal.mix.sizes, *equal.baseline.sizes}))
    models = f"{answer.words.run}s"
    counts = f"{equal.mix} {mix_name} {models} and {equal.baseline} {baseline_name} {models}"
    if conclusion is None:
        if not equal.mix.learned and not equal.baseline.learned:
            return f"{head}: at {sizes}, no {answer.words.run} of either mix {learned} {target} ({counts})."
        return f"{head}: at {sizes}, {counts} {learned} {target}."
    return " ".join((_conclusion_sentence(answer, mix, conclusion), *_contrary_sentence(answer, conclusion)))


def _conclusion_sentence(answer: Answer, mix: MixAnswer, conclusion: Conclusion) -> str:
    """Return a sentence with the result of a decided comparison, and the pairs at the sizes for which it holds."""
    mix_name = called(mix)
    baseline_name = called(answer.baseline_of(mix))
    assert mix.comparison is not None, "a conclusion has a comparison"
    words = answer.words
    models = f"{words.run}s"
    place = conclusion.place
    at = _place_text(answer, place)
    larger = _larger_text(answer, mix, conclusion)
    if conclusion.is_about_parameters:
        factor = _certified(answer, mix, " times")
        text = f"{mix_name} needs {outcome_text(answer, mix)} than {baseline_name}" + (factor and f", {factor}")
        counts = f"{place.mix} {mix_name} {models} and {place.baseline} {baseline_name} {models}"
        return f"{text}. At {at}, {counts} {words.learned} {answer.target}{larger}."
    more = "more" if conclusion.direction is Direction.MIX_AHEAD else "less"
    text = f"At {at}, {mix_name} {models} {words.learned} {answer.target} {more} often than {baseline_name} {models}"
    return f"{text}: {place.mix} against {place.baseline}{larger}."


def _contrary_sentence(answer: Answer, conclusion: Conclusion) -> tuple[str, ...]:
    """Return a sentence about the sizes at which the other side is ahead, if there are any."""
    if conclusion.contrary is None:
        return ()
    counts = f"{conclusion.contrary.mix} against {conclusion.contrary.baseline}"
    return (f"At {_place_text(answer, conclusion.contrary)} it is the other way around: {counts}.",)


def _larger_text(answer: Answer, mix: MixAnswer, conclusion: Conclusion) -> str:
    """Return the pairs with unequal sizes that certify a factor, or an empty string if the factor is close to 1."""
    comparison = mix.comparison
    if comparison is None or (comparison.at_least or 0.0) < LEAST_FACTOR:
        return ""
    other = answer.baseline_of(mix) if conclusion.direction is Direction.MIX_AHEAD else mix
    times = rounded_down(comparison.at_least or 1)
    certifying = comparison.certifying
    larger = f"with {called(other)} {answer.words.run}s at least {times} times larger"
    return f"; {larger}, {certifying.mix} against {certifying.baseline}"


def _place_text(answer: Answer, pairs: Tallies) -> str:
    """Return the range of sizes of some pairs: ``n_embed 12 to 20``."""
    return _size_range(answer, sorted({*pairs.mix.sizes, *pairs.baseline.sizes}))


def _size_range(answer: Answer, sizes: Sequence[int]) -> str:
    """Return ``n_embed 12 to 20``, or ``n_embed 12``."""
    return f"{answer.size_axis} {exact(sizes[0])}" + (f" to {exact(sizes[-1])}" if len(sizes) > 1 else "")


def compared_text(answer: Answer, mix: MixAnswer) -> str:
    """Return a mix's comparison for a table or figure: ``at least 1.5x fewer (47:1)``.

    Return an empty string if the mix has no baseline.
    """
    if not mix.is_compared:
        return ""
    comparison = mix.comparison
    outcome = outcome_text(answer, mix)
    conclusion = conclusion_of(answer, mix)
    if comparison is None or not comparison.equal.pairs:
        return outcome
    if conclusion is not None and not conclusion.is_about_parameters:
        outcome += f" at {_place_text(answer, conclusion.place).removeprefix(f'{answer.size_axis} ')}"
    return f"{_certified(answer, mix, 'x') or outcome} ({odds(_shown_evidence(comparison))})"


def outcome_text(answer: Answer, mix: MixAnswer) -> str:
    """Return the outcome of a comparison without numbers: ``fewer parameters``, ``no difference shown``."""
    comparison = mix.comparison
    words = answer.words
    conclusion = conclusion_of(answer, mix)
    if comparison is None:
        return "not compared in pairs"
    if conclusion is None:
        return "no difference shown" if comparison.equal.pairs else "no pair is complete"
    if not conclusion.is_about_parameters:
        return f"{words.learned} {'more' if conclusion.direction is Direction.MIX_AHEAD else 'less'} often"
    return f"{conclusion.direction} {words.parameters}"


def _certified(answer: Answer, mix: MixAnswer, unit: str) -> str:
    """Return the certified factor, ``at least 1.5 times fewer`` for the unit `` times``.

    Return an empty string if the factor is close to 1, or if the comparison is not about parameters. Also return an
    empty string if the side that needs more parameters was hardly learned at any size (:func:`learned_by_half`). The
    factor then only reflects the sizes tried.
    """
    comparison = mix.comparison
    conclusion = conclusion_of(answer, mix)
    if comparison is None or conclusion is None or not conclusion.is_about_parameters:
        return ""
    needs_more = answer.baseline_of(mix) if conclusion.direction is Direction.MIX_AHEAD else mix
    if (comparison.at_least or 0.0) < LEAST_FACTOR or not learned_by_half(needs_more):
        return ""
    assert comparison.at_least is not None, "it was compared with a number"
    many = "fewer" if comparison.decided is Direction.MIX_AHEAD else "as many"
    return f"at least {rounded_down(comparison.at_least)}{unit} {many}"


def _shown_evidence(comparison: Comparison) -> float:
    """Return the evidence that decided, or the current evidence if undecided."""
    return comparison.evidence if comparison.decided is None else comparison.highest


def evidence_text(answer: Answer) -> str:
    """Return the evidence of each comparison and its meaning, or an empty string if there are no pairs."""
    compared = {called(mix): mix.comparison for mix in answer.mixes}
    counts = {name: pairs for name, pairs in compared.items() if pairs is not None and pairs.equal.pairs}
    if not counts:
        return ""
    evidence = [_shown_evidence(pairs) for pairs in counts.values()]
    # A list of many comparisons would not fit a line, so print a range.
    parts = [f"{odds(min(evidence))} to {odds(max(evidence))} in {len(counts)} comparisons, from pairs"]
    if len(counts) <= MOST_LISTED:
        parts = []
        for name, pairs in counts.items():
            about = f" for {name}" if len(counts) > 1 else ""
            leans = f" (toward {pairs.leans})" if pairs.decided is None and pairs.evidence >= LEANING else ""
            parts.append(f"{odds(_shown_evidence(pairs))}{about}{leans} from {counted(pairs.equal.pairs, 'pair')}")
    threshold = next(iter(counts.values())).threshold
    needed = odds(threshold)
    strongest = evidence[0] if len(counts) == 1 else 0.0
    reached = odds(max(threshold, strongest)).removeprefix("over ")
    shown = "show evidence this strong" if reached != needed else f"reach {reached}"
    chance = f"at most 1 comparison in {reached.removesuffix(':1')} would {shown}"
    text = f"Evidence {listed(parts)} of equal size; {needed} decides. If the mixes learned equally often, {chance}."
    return " ".join(
        (text, *(out_of_reach(called(mix), needed, mix.shortfall) for mix in answer.mixes if mix.shortfall))
    )


def out_of_reach(mix: str, needed: str, shortfall: Shortfall) -> str:
    """Return a sentence that a comparison can no longer be decided within its budget, and why."""
    room = f"at most {shortfall.room}" if shortfall.room else "none"
    fewest = "1 more pair" if shortfall.needed == 1 else f"{shortfall.needed} more pairs that all agree"
    return f"{needed} is out of reach for {mix}: it takes {fewest}, but the budget has room for {room}."


def by_size_lines(answer: Answer) -> tuple[str, ...]:
    """Return a line per comparison and range of sizes: the pairs there, and their own evidence in both directions."""
    lines = []
    for mix in answer.compared:
        parts = () if mix.comparison is None else mix.comparison.parts
        mix_name = called(mix)
        baseline_name = called(answer.baseline_of(mix))
        for part in parts if len(parts) > 1 else ():
            learned = f"{part.tallies.mix} {mix_name} and {part.tallies.baseline} {baseline_name} {answer.words.run}s"
            evidence = f"{odds(part.mix_ahead)} for more often, {odds(part.baseline_ahead)} for less often"
            line = f"{_size_range(answer, part.sizes)}: {learned} {answer.words.learned}; {evidence}"
            lines.append(line + difference_text(answer, mix, part.sizes))
    return tuple(lines)


def difference_text(answer: Answer, mix: MixAnswer, sizes: Sequence[int]) -> str:
    """Return the mean difference of scores in the pairs of these sizes: ``; accuracy .12 higher on average``.

    It is more informative than the number of runs that learned if nearly all or nearly none of them learned.
    """
    of_mix, of_baseline = (
        {(point.size, point.seed): point.accuracy for point in side.target.transition.points if point.size in sizes}
        for side in (mix, answer.baseline_of(mix))
    )
    both = of_mix.keys() & of_baseline.keys()
    if not both:
        return ""
    mean = sum(of_mix[run] - of_baseline[run] for run in both) / len(both)
    size = f"{abs(mean):.2f}".removeprefix("0")
    return f"; {answer.words.score} {size} {'higher' if mean >= 0 else 'lower'} on average"


def factor_estimate_text(answer: Answer, *, decided: bool = False) -> str:
    """Return the estimated factors, or an empty string if none is known.

    With ``decided``, only factors of decided comparisons are returned.
    """
    parts = []
    for mix in answer.compared:
        ratio = mix.synergy
        if ratio is not None and ratio.value is not None and (mix.is_decided or not decided):
            ends = [None if end is None else bare(end) for end in (ratio.low, ratio.high)]
            if not any(ends):
                continue
            interval = f"{CONFIDENCE:.0%} interval {ends[0] or 'open'} to {ends[1] or 'open'}"
            many = f"{bare(ratio.value)} times as many {answer.words.parameters} as {called(mix)}"
            parts.append(f"{called(answer.baseline_of(mix))} needs {many} ({interval})")
    return f"Best estimate (not tested by pairs): {'; '.join(parts)}." if parts else ""


def factor_text(ratio: Synergy | None) -> str:
    """Return an estimated factor with its interval: ``1.2x fewer [1.5x more, 2.1x fewer]``.

    Return an empty string if the factor is unknown.
    """
    if ratio is None or ratio.value is None:
        return ""
    ends = [ratio.low, ratio.high] if ratio.value >= 1 else [ratio.high, ratio.low]
    texts = ["open" if end is None else _factor(end) for end in ends]
    # If both ends are on the side of the estimate, "more" or "fewer" is written only once.
    if all((end >= 1) == (ratio.value >= 1) for end in ends if end is not None):
        texts = [text.partition("x")[0] for text in texts]
    return f"{_factor(ratio.value)} [{', '.join(texts)}]"


def _factor(ratio: float) -> str:
    return f"{bare(ratio)}x fewer" if ratio >= 1 else f"{bare(1 / ratio)}x more"


def caveats(answer: Answer) -> tuple[str, ...]:
    """Return all qualifications of the findings, one line each: settings, conditions, diverged and failed runs."""
    lines = [*answer.cautions, *two_levels(answer), *conditions(answer)]
    paired = any(mix.comparison is not None and mix.comparison.equal.pairs for mix in answer.compared)
    failed_means = "as the less favorable outcome of their pairs" if paired else "as no evidence"
    for status, means in (("diverged", f"as not {answer.words.learned}"), ("failed", failed_means)):
        if count := sum(getattr(mix, status) for mix in answer.mixes):
            lines.append(f"{counted(count, 'run')} {status} and count{'s' if count == 1 else ''} {means}.")
    lines += [late_text(called(mix), mix.given_up, answer.words.learned) for mix in answer.mixes if mix.given_up]
    return tuple(lines)


def late_text(name: str, given_up: GivenUp, learned: str) -> str:
    """Return how many runs of a mix were given up, how many of these trained to the end, and how many learned then."""
    text = f"{counted(given_up.runs, 'run')} of {name} {'was' if given_up.runs == 1 else 'were'} given up early"
    if not given_up.whole:
        return f"{text}, and none of them was trained to the end to see whether it {learned} late."
    as_given_up = f"; still, {'it counts' if given_up.late == 1 else 'they count'} as given up" if given_up.late else ""
    return f"{text}. {given_up.whole} of them trained to the end, and {given_up.late} {learned} late{as_given_up}."


def looks_text(mix: str, baseline: str, looks: int) -> str:
    """Return how many earlier sweeps analyzed runs of a comparison, and how this changes its odds."""
    many = "an earlier sweep has" if looks == 1 else f"{looks} earlier sweeps have"
    runs = f"some of these runs of {mix} and {baseline}"
    return f"{many[0].upper()}{many[1:]} compared {runs}, so the odds are divided by {looks + 1}"


def conditions(answer: Answer) -> tuple[str, ...]:
    """Return the qualifications printed with the answer.

    They are about runs that earlier sweeps had analyzed, mixes that were never learned although their comparison is
    decided, unequal budgets, and mixes stopped by hand.
    """
    both = (side for mix in answer.compared if mix.is_decided for side in (answer.baseline_of(mix), mix))
    decided = dict.fromkeys(both)
    caution = "The answer may differ under a recipe with which it is learned"
    unlearned = [f"{called(mix)} was {never_learned(answer, (mix,))}. {caution}." for mix in decided if not mix.learned]
    unequal = [f"{called(mix)} {words}." for mix in answer.mixes if (words := confounded(answer, mix))]
    open_questions = dict.fromkeys(line for mix in answer.compared if (line := open_text(answer, mix)))
    seen = [
        f"{looks_text(called(mix), called(answer.baseline_of(mix)), mix.comparison.looks)}."
        for mix in answer.compared
        if mix.comparison is not None and mix.comparison.looks
    ]
    return (
        *seen,
        *open_questions,
        *unlearned,
        *unequal,
        *(f"{called(mix)} was {BY_HAND}." for mix in answer.mixes if mix.stopped),
    )


def two_levels(answer: Answer) -> tuple[str, ...]:
    """Return why a mix has a transition although none of its runs learned, a line per such mix.

    This explains the wording. It is not one of the :func:`conditions`, so answer files do not contain it.
    """
    return tuple(line for mix in answer.mixes if (line := _two_levels_text(answer, mix)))


def _two_levels_text(answer: Answer, mix: MixAnswer) -> str:
    transition = mix.target.transition
    if mix.learned or not transition.is_located or transition.verdict is Verdict.LEVELS_OFF:
        return ""
    runs = f"{answer.words.run}s"
    learned = answer.words.learned
    reached = f"{LEVEL:.0%} of the {answer.words.score} that the largest {runs} reach"
    perfect = f"{answer.learned:.0%} of the way from the best constant answer to a perfect {answer.words.score}"
    return f"{called(mix)} has a transition, at {reached}, but no {answer.words.run} {learned}, which takes {perfect}."


def open_text(answer: Answer, mix: MixAnswer) -> str:
    """Return why a decided comparison is not about parameters, or an empty string if it is."""
    conclusion = conclusion_of(answer, mix)
    if conclusion is None or conclusion.obstacle is None:
        return ""
    mix_name = called(mix)
    baseline_name = called(answer.baseline_of(mix))
    why = {
        Obstacle.CONTRARY: "which mix is ahead depends on the size",
        Obstacle.RARER: f"larger {answer.words.run}s learn less often",
        Obstacle.UNPLACED: _unplaced_text(list(map(called, unplaced(answer, mix, conclusion.direction)))),
        Obstacle.OVERLAP: "the intervals of their transitions overlap",
    }[conclusion.obstacle]
    needs = f"needs {conclusion.direction} {answer.words.parameters} than {baseline_name}"
    return f"Whether {mix_name} {needs} is open: {why}."


def _unplaced_text(names: list[str]) -> str:
    if len(names) == 1:
        return f"the transition of {names[0]} is not located"
    return f"the transitions of {listed(names)} are not located" if names else ""


def confounded(answer: Answer, mix: MixAnswer) -> str:
    """Return the unequal budget of a mix that needs more parameters: ``saw 50% of add's examples of add``.

    Return an empty string if the budgets are equal or the mix does not need more.
    """
    baseline = answer.baseline_of(mix)
    same_seen = math.isclose(mix.seen, baseline.seen, rel_tol=BUDGET_TOLERANCE)
    same = same_seen and math.isclose(mix.budget, baseline.budget, rel_tol=BUDGET_TOLERANCE)
    if same or mix.comparison is None or mix.comparison.decided is not Direction.BASELINE_AHEAD:
        return ""
    if same_seen:
        had = f"trained for {bare(mix.budget / baseline.budget)} times the steps of {called(baseline)}"
    else:
        had = f"saw {mix.seen / baseline.seen:.0%} of {called(baseline)}'s examples of {answer.target}"
    others = [other for other in answer.mixes if (other.composition, other.recipe) == (mix.composition, mix.recipe)]
    return had if len(others) > 1 else f"{had}; budget=both would show whether that matters"
