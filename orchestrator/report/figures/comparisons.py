"""Answers side by side: the recipes of a sweep, several sweeps as a forest plot; and the figure a sweep is known by."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from orchestrator.report.answer import Answer
from orchestrator.report.figures import style
from orchestrator.report.figures.bars import (
    draw_interval,
    drawn_estimate,
    mix_series,
    styles_of,
)
from orchestrator.report.figures.transitions import (
    draw_runs,
    label_sizes,
    labelled_sizes,
    size_span,
    transitions_figure,
)
from orchestrator.report.rows import Row, targets
from orchestrator.report.side_by_side import Compared
from orchestrator.report.words import numbers
from orchestrator.report.words.findings import compared_words
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import CONFIDENCE

ROW_IN, EDGES_IN = 1.6, 1.2
"""Inches: the height of a recipe's panel, and what a figure needs besides."""
BAR_DROP = 0.09
"""Distance between the bars of transitions under the curves, in accuracy."""
FOREST_ROW_IN, FOREST_HEAD_IN, FOREST_EDGE = 0.3, 1.1, 1.25
"""Inches of a row and of all besides; room outside the smallest and largest number, as a factor."""
FOREST_CHARACTERS, WIDE_CHARACTERS = 26, 72
"""Characters on a line beside the bars, and across them."""


def main_figure(spec: SweepSpec, answer: Answer, *, title: str | None = None) -> Figure:
    """Accuracy against size with the transitions, of several recipes a row each, under the question or another
    ``title``."""
    draw = recipes_figure if answer.recipes else transitions_figure
    return draw(spec, answer, title=title)


@style.own_style()
def recipes_figure(spec: SweepSpec, answer: Answer, *, title: str | None = None) -> Figure:
    """A row for each recipe of an answer of several: accuracy of the target against size, headed by what each mix's
    comparison shows."""
    figure = style.new_figure(ROW_IN * len(answer.recipes) + EDGES_IN)
    panels = figure.subplots(len(answer.recipes), 1, sharex=True, squeeze=False)[:, 0]
    for axes, recipe in zip(panels, answer.recipes, strict=True):
        _draw_recipe(axes, answer.under(recipe.name), recipe.name, size_span(answer))
    label_sizes(panels[-1], labelled_sizes(answer))
    panels[-1].set_xlabel(f"{answer.size_label} (bars: transition, {CONFIDENCE:.0%} interval)")
    figure.supylabel(f"{answer.words.final_score} of {answer.target}", fontsize=style.TEXT, color=style.INK)
    above = 1.08 + 0.1 * max(len(answer.under(answer.recipes[0].name).mixes) - 2, 0)  # Room for the comparisons.
    panels[0].legend(
        loc="lower left", bbox_to_anchor=(-0.01, above), borderpad=0, ncols=6, frameon=False, fontsize=style.TEXT
    )
    if head := spec.question if title is None else title:
        style.title(figure, head)
    return figure


def _draw_recipe(axes: Axes, answer: Answer, name: str, span: tuple[float, float]) -> None:
    """Accuracy of the target against size for every mix, with a bar under the curves for each transition."""
    series = mix_series(answer)
    draw_runs(axes, series, answer)
    for place, each in enumerate(series):
        found, (smallest, largest) = each.transition, answer.tested(each.transition)
        bar = drawn_estimate(found.relative, found.verdict, smallest.size, largest.size)
        if bar is not None and (bar.low is not None or bar.high is not None):
            draw_interval(axes, bar, -BAR_DROP * (place + 1), each.colour, span, each.marker)
    axes.set_xscale("log")
    axes.set_xlim(*span)
    axes.set_ylim(-BAR_DROP * (len(answer.mixes) + 1), 1.06)
    axes.set_yticks([0, 0.5, 1])
    axes.axhline(0, color=style.FAINT, linewidth=0.6, zorder=0)
    compared = [f"{mix.mix}: {words}" for mix in answer.mixes if (words := compared_words(answer, mix))]
    axes.set_title(name, fontsize=style.TEXT, loc="left", color=style.INK, pad=3)
    axes.set_title("\n".join(compared), fontsize=style.SMALL + 0.5, loc="right", color=style.INK, pad=3)
    style.dress(axes)


@style.own_style()
def forest_figure(compared: Sequence[Compared], title: str = "") -> Figure:
    """Return a forest plot: each transition of several sweeps in trainable parameters, and each comparison in words.

    Sizes of different families and architectures have no common axis.
    """
    groups = [targets(each.answer, each.label) for each in compared]
    ends = [end for group in groups for row in group for end in (row.smallest.total, row.largest.total)]
    span = (min(ends) / FOREST_EDGE, max(ends) * FOREST_EDGE)
    known = styles_of(row.mix for group in groups for row in group)
    lines: list[tuple[str, Row | str]] = []
    for each, group in zip(compared, groups, strict=True):
        lines.append((each.label, ""))
        lines += [(row.mix, row) for row in group]
        for mix in each.answer.mixes:
            if words := compared_words(each.answer, mix):
                lines.append((f"{mix.mix} vs {each.answer.baseline_of(mix)}", words))
    figure = style.new_figure(FOREST_ROW_IN * len(lines) + FOREST_HEAD_IN)
    axes = figure.subplots()
    for place, (name, row) in enumerate(lines):
        look: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "color": style.INK}
        if row == "":  # A sweep's name, and a comparison's words, have the row to themselves.
            axes.text(0, place, name, fontsize=style.TEXT, fontweight="bold", **look)
        elif isinstance(row, str):
            axes.text(0, place, textwrap.fill(row, WIDE_CHARACTERS), fontsize=style.SMALL + 0.5, **look)
        else:
            text = _draw_forest_row(axes, row, place, known[row.mix].colour, span)
            axes.text(1.04, place, textwrap.fill(text, FOREST_CHARACTERS), fontsize=style.SMALL + 0.5, **look)
    axes.set_xscale("log")
    axes.set_xlim(*span)
    axes.set_ylim(len(lines) - 0.4, -0.7)
    names = [textwrap.fill(name, FOREST_CHARACTERS) if row else "" for name, row in lines]
    axes.set_yticks(range(len(lines)), names)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: numbers.exact(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(f"trainable parameters at the transition ({CONFIDENCE:.0%} interval; grey: sizes tested)")
    style.dress(axes, spines=("bottom",))
    axes.tick_params(axis="y", length=0, labelsize=style.TEXT, pad=9)
    if title:
        style.title(figure, title)
    return figure


def _draw_forest_row(axes: Axes, row: Row, place: int, colour: str, span: tuple[float, float]) -> str:
    """Draw one transition; returns its words."""
    axes.plot([row.smallest.total, row.largest.total], [place, place], color=style.FAINT, linewidth=1, zorder=1)
    bar = drawn_estimate(row.found.total, row.found.transition.verdict, row.smallest.total, row.largest.total)
    if bar is not None and row.answer.runs:
        draw_interval(axes, bar, place, colour, span)
    return row.size_words if bar is None else row.count_words
