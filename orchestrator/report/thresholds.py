"""Where transitions would lie if another accuracy counted as learned: how much of an answer hangs on that choice."""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.words import findings, numbers
from orchestrator.report.words.findings import size_words
from orchestrator.transition.posterior import Threshold, under
from orchestrator.transition.types import LEVEL, Estimate, Verdict
from trainables.base import Family

THRESHOLDS = (
    Threshold(LEVEL, absolute=False),
    *(Threshold(level, absolute=False) for level in (0.6, 0.7, 0.9)),
    *(Threshold(level, absolute=True) for level in (0.5, 0.7, 0.8, 0.9)),
)
"""What might count: the sweep's own choice first."""

SAME = "as many"
"""In the place of a ratio that rounds to one."""


@dataclass(frozen=True)
class ThresholdRow:
    """One threshold. ``lead`` is the one the answer uses."""

    cells: tuple[str, ...]
    lead: bool


@dataclass(frozen=True)
class ThresholdTable:
    """A row a threshold: each mix's transition, and how many times more or fewer parameters than the baseline it needs
    where both are known. ``reported`` says where the answer has them: its intervals hold tested sizes on both sides."""

    header: tuple[str, ...]
    rows: tuple[ThresholdRow, ...]
    reported: tuple[str, ...]


def threshold_table(answer: Answer, family: Family) -> ThresholdTable | None:
    """The table of an answer; None where no transition was found, for then there is nothing to move."""
    if not any(mix.target.transition.verdict is Verdict.FOUND for mix in answer.mixes):
        return None
    candidates = [count.size for count in answer.counts]
    moved = {
        mix.mix: under(mix.target.transition.points, candidates, THRESHOLDS, answer.confidence) for mix in answer.mixes
    }
    compared = [mix for mix in answer.mixes if mix.synergy_total is not None]
    counted = answer.words.parameters
    header = (f"counts as {answer.words.learned}", *moved, *(f"{mix.mix}, {counted}" for mix in compared))
    rows = []
    for place, threshold in enumerate(THRESHOLDS):
        at = {mix: found[place] for mix, found in moved.items()}
        sizes = [_size(answer, mix, at[mix.mix]) for mix in answer.mixes]
        ratios = [_ratio(family, at[answer.baseline_of(mix)], at[mix.mix]) for mix in compared]
        rows.append(ThresholdRow((_words(threshold, answer.words.score), *sizes, *ratios), place == 0))
    return ThresholdTable(header, tuple(rows), _reported(answer))


def _reported(answer: Answer) -> tuple[str, ...]:
    """The transitions of the answer itself: ``add 12.5 [10.5, 28]``."""
    found = [(mix.mix, mix.target.transition) for mix in answer.mixes]
    return tuple(f"{name} {size_words(answer, each)}" for name, each in found if each.verdict is Verdict.FOUND)


def _words(threshold: Threshold, score: str) -> str:
    return f"{score} {threshold.level:.1f}" if threshold.absolute else f"{threshold.level:.0%} of the asymptote"


def _size(answer: Answer, mix: MixAnswer, found: Estimate) -> str:
    """An estimate of the posterior alone, which knows the candidate sizes and no verdicts."""
    if mix.target.transition.verdict in (Verdict.PLATEAU, Verdict.NEAR_FLOOR) or not mix.runs:
        return "-"
    if found.value is None:
        return "outside the sizes"
    smallest, largest = answer.counts[0].size, answer.counts[-1].size
    return findings.estimate(found, smallest, largest, Verdict.FOUND, None)


def _ratio(family: Family, baseline: Estimate, mix: Estimate) -> str:
    if baseline.value is None or mix.value is None:
        return "-"
    ratio = family.parameters(baseline.value).total / family.parameters(mix.value).total
    return SAME if numbers.bare(max(ratio, 1 / ratio)) == "1.0" else numbers.compared(ratio)
