"""Transitions as small bars, one per mix, on an axis that the sweeps of a page share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from orchestrator.report.answer import Answer
from orchestrator.report.figures.bars import bar_of, styles_of
from orchestrator.report.rows import targets

Span = tuple[float, float]
"""Smallest and largest size of an axis."""


@dataclass(frozen=True)
class Interval:
    """One mix of a sweep. Places on the axis are in percent.

    Attributes:
        words: The transition, such as ``34.4 [29.5, 44]``.
        compared: The comparison with the baseline, ``""`` for the baseline.
        color: Color of the mix in every figure.
        ends: Ends of the bar, None without a bar. An open end is at the edge of the axis.
        is_open: True if an end of the bar is open.
        value: The estimate, None if unknown.
    """

    mix: str
    words: str
    compared: str
    color: str
    ends: tuple[float, float] | None
    is_open: bool
    value: float | None


def spans(answers: Iterable[Answer]) -> dict[str, Span]:
    """Return the ends of each size axis over all answers that use it."""
    sizes: dict[str, list[float]] = {}
    for answer in answers:
        sizes.setdefault(answer.size_axis, []).extend(count.size for count in answer.counts)
    return {axis: (min(values), max(values)) for axis, values in sizes.items()}


def intervals(answer: Answer, span: Span) -> tuple[Interval, ...]:
    """Return the mixes of an answer as bars on a logarithmic axis from ``span[0]`` to ``span[1]``."""
    colors = styles_of(mix.mix for mix in answer.mixes)

    def place(size: float) -> float:
        share = math.log(size / span[0]) / math.log(span[1] / span[0]) if span[1] > span[0] else 0.5
        return round(100 * min(max(share, 0.0), 1.0), 1)

    made = []
    for row in targets(answer):
        transition = row.task.transition
        bar = bar_of(transition.relative, transition.verdict, row.smallest.size, row.largest.size)
        ends, is_open, value = None, False, None
        if bar is not None and transition.points and not bar.low is bar.high is None:
            ends = (0.0 if bar.low is None else place(bar.low), 100.0 if bar.high is None else place(bar.high))
            is_open = bar.low is None or bar.high is None
            value = None if bar.value is None else place(bar.value)
        made.append(Interval(row.mix, row.size_words, row.compared, colors[row.mix][0], ends, is_open, value))
    return tuple(made)
