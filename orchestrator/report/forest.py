"""Transitions of several sweeps side by side, as a forest plot."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from orchestrator.report import style, wording
from orchestrator.report.comparison import Compared, ForestRow, forest_row
from orchestrator.report.looks import looks_of
from orchestrator.transition.types import Verdict

ROW_IN, HEAD_IN = 0.27, 1.1
EDGE = 1.25
"""Room left of the smallest and right of the largest number, as a factor."""


def forest_figure(compared: Sequence[Compared], title: str = "") -> Figure:
    """Each transition in trainable parameters with its interval; an arrow where a side is censored.

    Parameters, because sizes of different families and architectures cannot be laid on one axis.
    """
    groups = [[forest_row(each, mix) for mix in each.answer.mixes] for each in compared]
    lines = sum(len(group) + 1 for group in groups)
    figure = style.new_figure(ROW_IN * lines + HEAD_IN)
    axes = figure.subplots()
    known = [end for group in groups for row in group for end in (row.smallest, row.largest)]
    span = (min(known) / EDGE, max(known) * EDGE)
    known_looks = looks_of(row.mix for group in groups for row in group)
    ticks, labels, place = [], [], 0
    for each, group in zip(compared, groups, strict=True):
        axes.annotate(
            each.label,
            (0, place),
            xycoords=("axes fraction", "data"),
            fontsize=style.TEXT,
            va="center",
            color=style.INK,
        )
        place += 1
        for row in group:
            _draw(axes, row, place, known_looks[row.mix].colour, known_looks[row.mix].marker, span)
            ticks.append(place)
            labels.append(row.mix)
            place += 1
    axes.set_xscale("log")
    axes.set_xlim(*span)
    axes.set_ylim(place - 0.4, -0.7)
    axes.set_yticks(ticks, labels)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: wording.exact(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.grid(axis="x", color=style.FAINT, linewidth=0.5, alpha=0.6)
    axes.set_axisbelow(True)
    confidence = compared[0].answer.confidence
    axes.set_xlabel(f"trainable parameters at the transition ({confidence:.0%} interval; grey: sizes tested)")
    style.dress(axes, spines=("bottom",))
    axes.tick_params(axis="y", length=0, labelsize=style.TEXT, pad=9)
    if title:
        style.title(figure, title)
    return figure


def _draw(axes: Axes, row: ForestRow, place: int, colour: str, marker: str, span: tuple[float, float]) -> None:
    axes.plot([row.smallest, row.largest], [place, place], color=style.FAINT, linewidth=1, zorder=1)
    low, high = _ends(row)
    if low is not None and high is not None:
        axes.plot([low, high], [place, place], color=colour, linewidth=2.4, solid_capstyle="butt", zorder=2)
        for end, known, outside, arrow in (
            (low, row.parameters.low, span[0], "<"),
            (high, row.parameters.high, span[1], ">"),
        ):
            if known is not None:
                axes.plot(end, place, marker="|", color=colour, markersize=8, markeredgewidth=1.6, zorder=3)
            else:
                axes.plot([end, outside], [place, place], color=colour, linewidth=2.4, linestyle=(0, (1, 1)), zorder=2)
                axes.plot(outside, place, marker=arrow, color=colour, markersize=7, clip_on=False, zorder=3)
    if row.verdict is Verdict.FOUND and row.parameters.value is not None:
        axes.plot(row.parameters.value, place, marker=marker, color=colour, markersize=6.5, zorder=4)
    axes.annotate(
        row.size,
        (1.02, place),
        xycoords=("axes fraction", "data"),
        va="center",
        fontsize=style.SMALL + 0.5,
        color=style.INK,
    )


def _ends(row: ForestRow) -> tuple[float | None, float | None]:
    """Where a bar starts and ends; censored sides end at the last size tested."""
    levelled = row.verdict is Verdict.PLATEAU
    if not row.runs or row.verdict is Verdict.NEAR_FLOOR or (levelled and row.parameters.low is None):
        return None, None
    if row.verdict is Verdict.ABOVE or levelled:
        return row.largest, row.largest
    if row.verdict is Verdict.BELOW:
        return row.smallest, row.smallest
    return row.parameters.low or row.smallest, row.parameters.high or row.largest
