"""Forest plots of several sweeps or of a sweep's recipes, and a sweep's main figure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from orchestrator.report.answer import Answer
from orchestrator.report.figures import style
from orchestrator.report.figures.bars import bar_of, draw_bar, styles_of
from orchestrator.report.figures.transitions import transitions_figure
from orchestrator.report.rows import Row, targets
from orchestrator.report.side_by_side import Compared, recipes_of
from orchestrator.report.words import numbers
from orchestrator.report.words.findings import compared_words
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import CONFIDENCE

ROW_IN, HEAD_IN, EDGE = 0.3, 1.1, 1.25
"""Heights in inches of a row and of the rest of the figure; margin around the range of numbers, as a factor."""
NARROW_SPAN = 30
"""Axes that span less than this ratio also have labels between powers of ten."""
CHARACTERS, WIDE_CHARACTERS = 26, 72
"""Characters per line: next to the bars, and across the whole panel."""


def main_figure(spec: SweepSpec, answer: Answer, *, title: str | None = None) -> Figure:
    """Draw accuracy against size, or a forest plot of several recipes, under the question or another ``title``."""
    if answer.recipes:
        return forest_figure(recipes_of(answer), spec.question if title is None else title)
    return transitions_figure(spec, answer, title=title)


@style.own_style()
def forest_figure(compared: Sequence[Compared], title: str = "") -> Figure:
    """Draw transitions in parameters, since sizes of different families share no axis, and comparisons in words."""
    groups = [targets(entry.answer, entry.label) for entry in compared]
    ends = [end for group in groups for row in group for end in (row.smallest.total, row.largest.total)]
    span = (min(ends) / EDGE, max(ends) * EDGE)
    styles = styles_of(row.mix for group in groups for row in group)
    lines: list[tuple[str, Row | str]] = []
    for entry, group in zip(compared, groups, strict=True):
        lines.append((entry.label, ""))
        lines += [(row.mix, row) for row in group]
        for mix in entry.answer.mixes:
            if words := compared_words(entry.answer, mix):
                lines.append((f"{mix.mix} vs {entry.answer.baseline_of(mix)}", words))
    figure = style.new_figure(ROW_IN * len(lines) + HEAD_IN)
    axes = figure.subplots()
    for place, (name, row) in enumerate(lines):
        look: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "color": style.INK}
        if row == "":  # Sweep names and comparisons have no bar, so their text spans the row.
            axes.text(0, place, name, fontsize=style.TEXT, fontweight="bold", **look)
        elif isinstance(row, str):
            axes.text(0, place, textwrap.fill(row, WIDE_CHARACTERS), fontsize=style.SMALL + 0.5, **look)
        else:
            text = _draw_row(axes, row, place, styles[row.mix].color, span)
            axes.text(1.04, place, textwrap.fill(text, CHARACTERS), fontsize=style.SMALL + 0.5, **look)
    axes.set_xscale("log")
    axes.set_xlim(*span)
    axes.set_ylim(len(lines) - 0.4, -0.7)
    axes.set_yticks(range(len(lines)), [textwrap.fill(name, CHARACTERS) if row else "" for name, row in lines])
    if span[1] < NARROW_SPAN * span[0]:  # Such a short axis contains few powers of ten, or none.
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: numbers.exact(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(f"trainable parameters at the transition ({CONFIDENCE:.0%} interval; gray: sizes tested)")
    style.dress(axes, spines=("bottom",))
    axes.tick_params(axis="y", length=0, labelsize=style.TEXT, pad=9)
    if title:
        style.title(figure, title)
    return figure


def _draw_row(axes: Axes, row: Row, place: int, color: str, span: tuple[float, float]) -> str:
    """Draw one transition and return its words."""
    axes.plot([row.smallest.total, row.largest.total], [place, place], color=style.FAINT, linewidth=1, zorder=1)
    bar = bar_of(row.task.total, row.task.transition.verdict, row.smallest.total, row.largest.total)
    if bar is not None and row.answer.runs:
        draw_bar(axes, bar, place, color, span)
    return row.size_words if bar is None else row.count_words
