"""Transitions of several sweeps as rows, for a table or a figure. Draws nothing itself, so that tables come at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.report import wording
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.saying import count_words, size_words
from orchestrator.transition.types import Estimate, Verdict


@dataclass(frozen=True)
class Compared:
    """One sweep to compare. ``label`` tells it from the others.

    ``along`` is the setting in which the variants of its space differ and ``place`` its value, where it is a number;
    ``""`` and None otherwise. ``space`` and ``variant`` are the names of both.
    """

    label: str
    answer: Answer
    space: str = ""
    variant: str = ""
    along: str = ""
    place: float | None = None


@dataclass(frozen=True)
class ForestRow:
    """One mix of one sweep: what was found, in parameters, and the tested ends; ``size`` and ``count`` say it in words,
    ``saving`` what the mix saves against its own sweep's baseline."""

    label: str
    mix: str
    verdict: Verdict
    parameters: Estimate
    smallest: float
    largest: float
    size: str
    count: str
    saving: str
    runs: int


def forest_rows(compared: Sequence[Compared]) -> list[ForestRow]:
    """A row for each mix of each sweep, in the order given."""
    return [forest_row(each, mix) for each in compared for mix in each.answer.mixes]


def forest_row(each: Compared, mix: MixAnswer) -> ForestRow:
    """One mix of one sweep as a row."""
    found, answer = mix.target.transition, each.answer
    smallest, largest = answer.tested(found)
    size = size_words(answer, found)
    counted, against = answer.words.parameters, answer.baseline_of(mix)
    saving = "" if mix.synergy_total is None else wording.synergy(mix.mix, against, mix.synergy_total, counted)
    return ForestRow(
        label=each.label,
        mix=mix.mix,
        verdict=found.verdict,
        parameters=mix.target.total,
        smallest=smallest.total,
        largest=largest.total,
        size=size if found.verdict in wording.NO_SIZE else f"{answer.size_axis} {size}",
        count=count_words(answer, mix.target),
        saving=saving,
        runs=mix.runs,
    )
