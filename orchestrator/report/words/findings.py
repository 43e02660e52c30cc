"""Findings in words, and evidence as odds. A sentence states a finding and its runs in either sizes or parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.findings import Finding, Kind, Side, finding_of, findings, sides
from orchestrator.report.words.numbers import bare, counted, exact, listed, times
from orchestrator.report.words.transitions import MOST_LISTED, called, largest_tested, own_sentence
from orchestrator.search.base import BY_HAND
from orchestrator.transition.evidence import Comparison, Direction
from orchestrator.transition.types import CONFIDENCE, Synergy

ALIKE = 0.2
"""Shares of runs that learned are about the same if they differ by at most this."""
SHOWN = 1.1
"""Certified factors below this are not printed."""
LEANING = 2.0
"""Minimum evidence for naming the direction of an undecided comparison."""
SAME = 1e-4
"""Relative tolerance for equal budgets, which are written with six digits."""
MOST_ODDS = 1e6
"""Odds above this are printed as ``over 1,000,000:1``."""


def sentences(answer: Answer) -> tuple[str, ...]:
    """Return the findings of an answer, one sentence each."""
    return tuple(dict.fromkeys(sentence(answer, finding) for finding in findings(answer)))


def sentence(answer: Answer, finding: Finding) -> str:
    """Return a sentence with a finding and the runs behind it."""
    if finding.kind is Kind.NO_RUNS:
        return "No run has ended yet."
    if finding.kind is Kind.ALL_FAILED:
        return "Every run so far failed."
    if finding.kind is Kind.NOTHING_LEARNED:
        return f"Nothing was {answer.words.learned} up to {largest_tested(answer, answer.mixes)}."
    mix, baseline = finding.mix, finding.baseline
    assert mix is not None
    if baseline is None:
        return f"{own_sentence(answer, mix)}."
    if finding.comparison is None:
        names = f"{called(mix)} and {called(baseline)}"
        return f"Nothing is decided: {names} were not trained in pairs."
    if finding.kind is Kind.OPEN:
        return _open_sentence(answer, mix, baseline, finding.comparison)
    return _decided_sentence(answer, finding, mix, baseline, finding.comparison)


def _decided_sentence(
    answer: Answer, finding: Finding, mix: MixAnswer, baseline: MixAnswer, comparison: Comparison
) -> str:
    """Return ``add+prod needs fewer parameters than add, at least 1.5 times fewer: at n_embed 12 to 20 ...``."""
    here, there, words = called(mix), called(baseline), answer.words
    own, other = sides(comparison.tallies)
    is_fewer = comparison.decided is Direction.FEWER
    if finding.is_rarer:
        where = _size_range(answer, sorted({*own.sizes, *other.sizes}))
        how = "more" if is_fewer else "less"
        return (
            f"{here} is {words.learned} {how} often than {there} at {where}: in {_share(own)} runs against "
            f"{_share(other)}."
        )
    head = f"{here} needs {comparison.decided} {words.parameters} than {there}"
    if comparison.at_least is not None and comparison.at_least >= SHOWN:
        head += f", at least {rounded_down(comparison.at_least)} times {'fewer' if is_fewer else 'as many'}"
    where, elsewhere = _size_range(answer, own.sizes), _size_range(answer, other.sizes)
    if where == elsewhere:
        return f"{head}: at {where} it was {words.learned} in {_share(own)} runs, {there} in {_share(other)}."
    at = f"it was {words.learned} in {_share(own)} runs at {where}"
    return f"{head}: {at}, {there} in {_share(other)} at {elsewhere}."


def _open_sentence(answer: Answer, mix: MixAnswer, baseline: MixAnswer, comparison: Comparison) -> str:
    """Return ``No difference between add+prod and add has been shown yet: neither was learned (0 of 3 and 0 of 3).``"""
    here, there, learned = called(mix), called(baseline), answer.words.learned
    own, other = sides(comparison.tallies)
    head = f"No difference between {here} and {there} has been shown yet"
    if not own.tried or not other.tried:
        return f"{head}: no pair of their runs is complete."
    if abs(own.learned / own.tried - other.learned / other.tried) <= ALIKE and own.sizes == other.sizes:
        neither = own.learned == other.learned == 0
        alike = f"neither was {learned}" if neither else f"both were {learned} about as often at the same sizes"
        return f"{head}: {alike} ({_share(own)} and {_share(other)})."
    at = _size_range(answer, sorted({*own.sizes, *other.sizes}))
    return f"{head}: at {at} {here} was {learned} in {_share(own)} runs, {there} in {_share(other)}."


def _share(side: Side) -> str:
    return f"{side.learned} of {side.tried}"


def _size_range(answer: Answer, sizes: Sequence[int]) -> str:
    """Return ``n_embed 12 to 20``, or ``n_embed 12``."""
    return f"{answer.size_axis} {exact(sizes[0])}" + (f" to {exact(sizes[-1])}" if len(sizes) > 1 else "")


def compared_words(answer: Answer, mix: MixAnswer) -> str:
    """Return a mix's comparison for a table or figure, ``at least 1.5x fewer (47:1)``, or ``""`` without a baseline."""
    finding = finding_of(answer, mix)
    if finding.kind is Kind.TRANSITION:
        return ""
    comparison, outcome = finding.comparison, outcome_words(answer, finding)
    if comparison is None or not comparison.pairs:
        return outcome
    certified = comparison.at_least
    if not finding.is_rarer and certified is not None and certified >= SHOWN:
        many = "fewer" if comparison.decided is Direction.FEWER else "as many"
        outcome = f"at least {rounded_down(certified)}x {many}"
    return f"{outcome} ({odds(_shown_evidence(comparison))})"


def outcome_words(answer: Answer, finding: Finding) -> str:
    """Return the outcome of a comparison without numbers: ``fewer parameters``, ``no difference shown``."""
    comparison, words = finding.comparison, answer.words
    if comparison is None:
        return "not compared in pairs"
    if comparison.decided is None:
        return "no difference shown" if comparison.pairs else "no pair is complete"
    if finding.is_rarer:
        return f"{words.learned} {'more' if comparison.decided is Direction.FEWER else 'less'} often"
    return f"{comparison.decided} {words.parameters}"


def _shown_evidence(comparison: Comparison) -> float:
    """Return the evidence that decided, or the current evidence if undecided."""
    return comparison.evidence if comparison.decided is None else comparison.highest


def odds(evidence: float) -> str:
    """Return evidence as odds, ``47:1`` or ``1:3``, rounded down so that undecided comparisons look undecided."""
    if evidence > MOST_ODDS:
        return f"over {MOST_ODDS:,.0f}:1"
    if evidence >= 10:
        return f"{math.floor(evidence):,}:1"
    if evidence >= 1:
        return f"{rounded_down(evidence).removesuffix('.0')}:1"
    return f"1:{min(1 / evidence, MOST_ODDS):.2g}" if evidence > 0 else f"1:{MOST_ODDS:,.0f}"


def rounded_down(bound: float) -> str:
    """Return a lower bound of at least 1 rounded down: to one decimal (``1.9``), from 10 on to an integer."""
    return f"{math.floor(bound)}" if bound >= 10 else f"{math.floor(10 * bound) / 10:.1f}"


def _leaning(comparison: Comparison) -> str:
    """Return the direction of undecided evidence, `` (toward fewer)``, or ``""`` if decided or weak."""
    shown = comparison.decided is None and comparison.evidence >= LEANING
    return f" (toward {comparison.leans})" if shown else ""


def evidence_words(answer: Answer) -> str:
    """Return the evidence of each comparison and its meaning, or ``""`` without pairs."""
    compared = [(mix, mix.comparison) for mix in answer.mixes if mix.comparison is not None and mix.comparison.pairs]
    if not compared:
        return ""
    several = len(compared) > 1
    parts = [
        f"{odds(_shown_evidence(pairs))}{f' for {called(mix)}' if several else ''}{_leaning(pairs)} "
        f"from {counted(pairs.pairs, 'pair')}"
        for mix, pairs in compared
    ]
    if len(parts) > MOST_LISTED:
        evidence = [_shown_evidence(comparison) for _, comparison in compared]
        parts = [f"{odds(min(evidence))} to {odds(max(evidence))} in {len(parts)} comparisons"]
    needed = compared[0][1].threshold
    meaning = f"If the mixes were equally good, at most 1 comparison in {needed:.0f} would reach {needed:.0f}:1."
    return f"Evidence {listed(parts)}. {meaning}"


def estimate_words(answer: Answer) -> str:
    """Return the estimated factors, which do not decide anything, or ``""`` if none is known."""
    known = [(mix, mix.synergy) for mix in answer.mixes if mix.synergy is not None]
    parts = [
        f"{called(mix)} {text}" if len(known) > 1 else text for mix, ratio in known if (text := factor_words(ratio))
    ]
    return f"Estimated from the two transitions ({CONFIDENCE:.0%} intervals): {'; '.join(parts)}." if parts else ""


def factor_words(ratio: Synergy) -> str:
    """Return an estimated factor with its interval, ``1.2x fewer [1.5x more, 2.1x fewer]``, or ``""`` if unknown."""
    if ratio.value is None:
        return ""
    ends = [ratio.low, ratio.high] if ratio.value >= 1 else [ratio.high, ratio.low]
    texts = ["open" if end is None else _factor(end) for end in ends]
    known = [end for end in ends if end is not None]
    if all((end >= 1) == (ratio.value >= 1) for end in known):
        texts = ["open" if end is None else bare(max(end, 1 / end)) for end in ends]
    return f"{_factor(ratio.value)} [{', '.join(texts)}]"


def _factor(ratio: float) -> str:
    return f"{times(ratio)} fewer" if ratio >= 1 else f"{times(1 / ratio)} more"


def caveats(answer: Answer) -> tuple[str, ...]:
    """Return everything that qualifies the findings, one line each: settings, conditions, diverged and failed runs."""
    lines = [*answer.cautions, *conditions(answer)]
    for status in ("diverged", "failed"):
        if count := sum(getattr(mix, status) for mix in answer.mixes):
            means = f"as not {answer.words.learned}" if status == "diverged" else "as no evidence"
            lines.append(f"{counted(count, 'run')} {status} and count{'s' if count == 1 else ''} {means}.")
    return tuple(lines)


def conditions(answer: Answer) -> tuple[str, ...]:
    """Return the qualifications printed with the answer: unequal budgets, and mixes stopped by hand."""
    unequal = [f"{called(mix)} {words}." for mix in answer.mixes if (words := confounded(answer, mix))]
    return (*unequal, *(f"{called(mix)} was {BY_HAND}." for mix in answer.mixes if mix.stopped))


def confounded(answer: Answer, mix: MixAnswer) -> str:
    """Return the unequal budget of a mix that needs more, ``saw 50% of add's examples of add``, or ``""``."""
    needs_more = mix.comparison is not None and mix.comparison.decided is Direction.MORE
    baseline = answer.mix(answer.baseline_of(mix))
    same_seen = math.isclose(mix.seen, baseline.seen, rel_tol=SAME)
    if not needs_more or (same_seen and math.isclose(mix.budget, baseline.budget, rel_tol=SAME)):
        return ""
    if same_seen:
        had = f"trained for {bare(mix.budget / baseline.budget)} times the steps of {called(baseline)}"
    else:
        had = f"saw {mix.seen / baseline.seen:.0%} of {called(baseline)}'s examples of {answer.target}"
    same = (mix.composition, mix.recipe)
    both = sum((other.composition, other.recipe) == same for other in answer.mixes) > 1
    return had if both else f"{had}; budget=both would show whether that matters"
