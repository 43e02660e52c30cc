"""Accuracy against size: every run, and the curve, band and intervals of one posterior."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from orchestrator.report.answer import Answer, Count
from orchestrator.report.figures import bars, style
from orchestrator.report.figures.bars import Series, mix_series
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import Point

TICK_GAP, WIDE_TICK_GAP = 0.055, 0.08
"""Minimum distance between size labels, and between parameter labels, as shares of the axis (in ln size)."""
CURVES_IN, NARROW_CURVES_IN = 3.2, 1.7
"""Height of the curves' panel in inches, in a wide and in a narrow figure."""
EDGE = 0.06
"""Margin outside the smallest and largest size, as a share of the axis (in ln size)."""
CURVE_SIZES = 48
"""Number of sizes at which a curve is computed."""
LABEL_GAP = 0.055
"""Minimum distance between lines of text next to the curves, in accuracy."""
DOT, ALIKE, ROOM = 0.012, 0.03, 0.5
"""Runs of a size whose accuracies differ by less than ``ALIKE`` are ``DOT`` of the axis apart, but together span at
most ``ROOM`` of the gap to the next size."""
USUAL_NAME, LETTER_IN, PANEL_IN = 15, 0.075, 4.6
"""Characters of a row name that fit, inches for each further character, and the usual width of the panel in inches."""


@style.own_style()
def transitions_figure(
    spec: SweepSpec, answer: Answer, *, title: str | None = None, width_in: float = style.WIDTH_IN
) -> Figure:
    """Draw accuracy of the target against size for every mix, under the question or another ``title``."""
    series = mix_series(answer)
    rows, narrow = bars.rows(answer, series), width_in < style.NARROW_IN
    strip, curves_in = bars.height_in(rows, narrow=narrow), NARROW_CURVES_IN if narrow else CURVES_IN
    figure = style.new_figure(curves_in + strip + (0.85 if narrow else 1.25), width_in)
    curves, below = figure.subplots(2, 1, sharex=True, height_ratios=(curves_in, strip))
    span = size_span(answer)
    draw_runs(curves, series, answer)
    if not narrow:
        _name_curves(curves, series)
    _draw_floor(curves, series)
    longest = max(len(line) for row in rows for line in bars.row_name(row, narrow=narrow).split("\n"))
    room = width_in - max(0, longest - USUAL_NAME) * LETTER_IN * style.WIDTH_IN / PANEL_IN
    y_label = f"{answer.words.final_score} of {answer.target}"
    _finish_curves(curves, labeled_sizes(answer, room, WIDE_TICK_GAP), span, y_label, answer.words.parameters)
    bars.draw_rows(below, rows, answer, span, narrow=narrow)
    label_sizes(below, labeled_sizes(answer, room))
    if head := spec.question if title is None else title:
        style.title(figure, head)
    return figure


def size_span(answer: Answer) -> tuple[float, float]:
    """Return the ends of the size axis, slightly outside the offered sizes."""
    smallest, largest = answer.counts[0].size, answer.counts[-1].size
    room = (largest / smallest) ** EDGE if largest > smallest else 1.5
    return smallest / room, largest * room


def draw_runs(axes: Axes, series: Sequence[Series], answer: Answer) -> None:
    """Draw every run as a point, and the curve and band of each transition that was found."""
    for line, places in zip(series, _side_by_side(series, size_span(answer)), strict=True):
        transition = line.transition
        axes.scatter(
            places,
            [point.accuracy for point in transition.points],
            s=30,
            marker=line.marker,
            facecolors=line.color + "66",
            edgecolors=line.color,
            linewidths=0.9,
            zorder=3,
            clip_on=False,
            label=line.label,
        )
        low, high = answer.tested(transition)
        if (curve := answer.curve(transition, np.geomspace(low.size, high.size, CURVE_SIZES).tolist())) is not None:
            axes.fill_between(curve.sizes, curve.low, curve.high, color=line.color, alpha=0.13, linewidth=0, zorder=1)
            axes.plot(curve.sizes, curve.middle, color=line.color, linewidth=1.8, zorder=2)


def _side_by_side(series: Sequence[Series], span: tuple[float, float]) -> list[list[float]]:
    """Return the place of each run on the axis: its size, shifted next to runs of about the same accuracy."""
    points = [(at, point) for at, line in enumerate(series) for point in line.transition.points]
    sizes = sorted({point.size for _, point in points})
    room = min((np.log(high / low) for low, high in pairwise(sizes)), default=np.inf)
    crowds: dict[tuple[int, int], list[tuple[int, Point]]] = {}
    for at, point in points:
        crowds.setdefault((point.size, round(point.accuracy / ALIKE)), []).append((at, point))
    step = min(DOT * np.log(span[1] / span[0]), ROOM * room / max(map(len, crowds.values()), default=1))
    places = {
        run: run[1].size * float(np.exp(step * (place - (len(crowd) - 1) / 2)))
        for crowd in crowds.values()
        for place, run in enumerate(crowd)
    }
    return [[places[at, point] for point in line.transition.points] for at, line in enumerate(series)]


def _name_curves(axes: Axes, series: Sequence[Series]) -> None:
    """Write the names right of the panel, by accuracy at the largest size. A legend inside would look like data."""
    ends = []
    for line in series:
        if points := line.transition.points:
            last = [point.accuracy for point in points if point.size == points[-1].size]
            ends.append((float(np.mean(last)), line))
    free = 1.03 - LABEL_GAP / 2
    outside = axes.get_yaxis_transform()
    for _, line in sorted(ends, key=lambda pair: -pair[0]):
        name = textwrap.fill(line.label, bars.NAME)
        half = LABEL_GAP / 2 * (name.count("\n") + 1)
        height, free = free - half, free - 2 * half
        look: dict[str, Any] = {"transform": outside, "va": "center", "fontsize": style.TEXT, "color": style.INK}
        axes.plot(
            bars.OUTSIDE,
            height,
            line.marker,
            color=line.color,
            markersize=5,
            transform=outside,
            clip_on=False,
        )
        axes.text(bars.OUTSIDE + 0.02, height, name, **look)


def _draw_floor(axes: Axes, series: Sequence[Series]) -> None:
    """Draw the score of the best constant answer, with its label below the line."""
    floors = [point.floor for line in series for point in line.transition.points]
    if floors:
        floor = float(np.mean(floors))
        axes.axhline(floor, color=style.FAINT, linewidth=0.8, zorder=0)
        axes.annotate(
            "best constant answer",
            (0.995, floor),
            xycoords=("axes fraction", "data"),
            xytext=(0, -2),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=style.SMALL,
            color=style.GRAY,
            zorder=0,
        )


def _finish_curves(axes: Axes, counts: Sequence[Count], span: tuple[float, float], y_label: str, counted: str) -> None:
    axes.set_xscale("log")
    axes.set_xlim(*span)
    axes.set_ylim(0, 1.03)
    axes.set_yticks(np.arange(0, 1.01, 0.2))
    axes.set_ylabel(y_label)
    style.dress(axes)
    above = axes.secondary_xaxis("top")
    above.xaxis.set_major_locator(FixedLocator([count.size for count in counts]))
    above.xaxis.set_minor_locator(NullLocator())
    above.set_xticklabels([_short(count.total) for count in counts])
    above.set_xlabel(counted, fontsize=style.TEXT, labelpad=4)
    above.tick_params(labelsize=style.SMALL, width=0.6, length=2, colors=style.GRAY)
    above.spines["top"].set_visible(False)


def label_sizes(axes: Axes, counts: Sequence[Count]) -> None:
    """Label these sizes and no others."""
    axes.xaxis.set_major_locator(FixedLocator([count.size for count in counts]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([str(count.size) for count in counts])


def labeled_sizes(answer: Answer, width_in: float = style.WIDTH_IN, apart: float = TICK_GAP) -> list[Count]:
    """Return the sizes to label: both ends, and others at least ``apart`` from every labeled size."""
    ends = [answer.counts[0], answer.counts[-1]] if len(answer.counts) > 1 else list(answer.counts)
    gap = apart * style.WIDTH_IN / width_in * np.log(ends[-1].size / ends[0].size)
    labeled = list(ends)
    for count in answer.counts[1:-1]:
        if all(abs(np.log(count.size / other.size)) >= gap for other in labeled):
            labeled.append(count)
    return sorted(labeled, key=lambda count: count.size)


def _short(parameters: float) -> str:
    """Return ``4.6k``, ``32k`` or ``1.2M``."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if parameters >= unit:
            scaled = parameters / unit
            return f"{scaled:.0f}{letter}" if scaled >= 10 else f"{scaled:.1f}{letter}"
    return f"{parameters:.0f}"
