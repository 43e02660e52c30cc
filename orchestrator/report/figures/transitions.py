"""Accuracy against size: every run, and the curve, band and intervals of one posterior."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from orchestrator.report.answer import Answer, Count
from orchestrator.report.figures import bars, style
from orchestrator.report.figures.bars import Series
from orchestrator.report.words.numbers import scaled
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import Point

TICK_GAP, WIDE_TICK_GAP = 0.055, 0.08
"""Minimum distance between size labels, and between parameter labels, as shares of the axis (in ln size)."""
HEIGHTS_IN, NARROW_HEIGHTS_IN = (3.2, 0.4, 1.25), (1.7, 0.46, 0.85)
"""Heights in inches of the curves' panel, of a row below it, and of the words around them. A narrow figure has a row's
words above its bar."""
ROWS_EDGES_IN = 0.12
"""Margins of the panel of rows in inches."""
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
    narrow = width_in < style.NARROW_IN
    series, rows = list(bars.mix_series(answer).values()), bars.rows(answer, narrow=narrow)
    curves_in, row_in, words_in = NARROW_HEIGHTS_IN if narrow else HEIGHTS_IN
    strip = ROWS_EDGES_IN + row_in * len(rows)
    figure = style.new_figure(curves_in + strip + words_in, width_in)
    curves, below = figure.subplots(2, 1, sharex=True, height_ratios=(curves_in, strip))
    span = size_span(answer)
    _draw_runs(curves, series, answer)
    if not narrow:
        _name_curves(curves, series)
    _draw_floor(curves, series)
    longest = max(len(line) for row in rows for line in row.name.split("\n"))
    room = width_in - max(0, longest - USUAL_NAME) * LETTER_IN * style.WIDTH_IN / PANEL_IN
    _finish_curves(curves, labeled_sizes(answer, room, WIDE_TICK_GAP), span, answer)
    bars.draw_rows(below, rows, answer, span, narrow=narrow)
    shown = labeled_sizes(answer, room)
    style.label_ticks(below.xaxis, {count.size: str(count.size) for count in shown})
    if head := spec.question if title is None else title:
        style.title(figure, head)
    return figure


def size_span(answer: Answer) -> tuple[float, float]:
    """Return the ends of the size axis, slightly outside the offered sizes."""
    smallest, largest = answer.counts[0].size, answer.counts[-1].size
    room = (largest / smallest) ** EDGE if largest > smallest else 1.5
    return smallest / room, largest * room


def _draw_runs(axes: Axes, series: Sequence[Series], answer: Answer) -> None:
    """Draw every run as a point, and the curve and band of each transition that was found."""
    for line, places in zip(series, _side_by_side(series, size_span(answer)), strict=True):
        scores = [point.accuracy for point in line.transition.points]
        edge: dict[str, Any] = {"edgecolors": line.color, "linewidths": 0.9, "zorder": 3, "clip_on": False}
        axes.scatter(places, scores, s=30, marker=line.marker, facecolors=line.color + "66", label=line.label, **edge)
        low, high = answer.tested(line.transition)
        sizes = np.geomspace(low.size, high.size, CURVE_SIZES).tolist()
        if (curve := answer.curve(line.transition, sizes)) is not None:
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
    free, outside = 1.03 - LABEL_GAP / 2, axes.get_yaxis_transform()
    look: dict[str, Any] = {"transform": outside, "va": "center", "fontsize": style.TEXT, "color": style.INK}
    for _, line in sorted(ends, key=lambda pair: -pair[0]):
        name = textwrap.fill(line.label, bars.NAME)
        half = LABEL_GAP / 2 * (name.count("\n") + 1)
        height, free = free - half, free - 2 * half
        mark: dict[str, Any] = {"color": line.color, "markersize": 5, "transform": outside, "clip_on": False}
        axes.plot(bars.OUTSIDE, height, line.marker, **mark)
        axes.text(bars.OUTSIDE + 0.02, height, name, **look)


def _draw_floor(axes: Axes, series: Sequence[Series]) -> None:
    """Draw the score of the best constant answer, with its label below the line."""
    floors = [point.floor for line in series for point in line.transition.points]
    if floors:
        floor = float(np.mean(floors))
        axes.axhline(floor, color=style.FAINT, linewidth=0.8, zorder=0)
        at: dict[str, Any] = {"xycoords": ("axes fraction", "data"), "xytext": (0, -2), "textcoords": "offset points"}
        look: dict[str, Any] = {"ha": "right", "va": "top", "fontsize": style.SMALL, "color": style.GRAY, "zorder": 0}
        axes.annotate("best constant answer", (0.995, floor), **at, **look)


def _finish_curves(axes: Axes, counts: Sequence[Count], span: tuple[float, float], answer: Answer) -> None:
    axes.set(xscale="log", xlim=span, ylim=(0, 1.03), yticks=np.arange(0, 1.01, 0.2))
    axes.set_ylabel(f"{answer.words.final_score} of {answer.target}")
    style.dress(axes)
    above = axes.secondary_xaxis("top")
    units = {"G": 1e9, "M": 1e6, "k": 1e3}
    style.label_ticks(above.xaxis, {count.size: scaled(count.total, units, f"{count.total:.0f}") for count in counts})
    above.set_xlabel(answer.words.parameters, fontsize=style.TEXT, labelpad=4)
    above.tick_params(labelsize=style.SMALL, width=0.6, length=2, colors=style.GRAY)
    above.spines["top"].set_visible(False)


def labeled_sizes(answer: Answer, width_in: float = style.WIDTH_IN, apart: float = TICK_GAP) -> list[Count]:
    """Return the sizes to label: both ends, and others at least ``apart`` from every labeled size."""
    labeled = list(dict.fromkeys((answer.counts[0], answer.counts[-1])))
    gap = apart * style.WIDTH_IN / width_in * np.log(labeled[-1].size / labeled[0].size)
    for count in answer.counts[1:-1]:
        if all(abs(np.log(count.size / other.size)) >= gap for other in labeled):
            labeled.append(count)
    return sorted(labeled, key=lambda count: count.size)
