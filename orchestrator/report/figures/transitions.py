"""Accuracy against size: every run, the posterior's curve with its band, and the transitions below.

All of a picture comes from one estimator: curve, band and intervals are the posterior's.
"""

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
from orchestrator.report.figures.bars import GREYS, Series, mix_series, mix_styles
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.posterior import PosteriorCurve, posterior_curve
from orchestrator.transition.types import Point, Transition, Verdict

TICK_GAP, WIDE_TICK_GAP = 0.055, 0.08
"""Least distance between labelled sizes, as a share of the axis (of ln size); the second between counts of parameters,
which are wider."""
CURVES_IN, NARROW_CURVES_IN = 3.2, 1.7
"""Heights of the curves' panel in inches, the second in a narrow figure."""
EDGE = 0.06
"""Room outside the smallest and the largest size, as a share of the axis (of ln size)."""
CURVE_SIZES = 48
"""Sizes at which a curve is computed."""
LABEL_GAP = 0.055
"""Least distance between lines of the names of two curves, in accuracy."""
DOT, ALIKE, ROOM = 0.012, 0.03, 0.5
"""Runs of a size whose accuracies are within the second of each other stand side by side, the first of the axis apart;
all of them within the third of the way to the next size."""
USUAL_NAME, LETTER_IN, PANEL_IN = 15, 0.075, 4.6
"""Characters of a row's name that fit a figure, the width of one more in inches, and the usual width of the panel."""


@style.own_style()
def transitions_figure(
    spec: SweepSpec, answer: Answer, *, title: str | None = None, width_in: float = style.WIDTH_IN
) -> Figure:
    """Accuracy of the target against size for every mix, each in its own colour, under the question or another
    ``title``."""
    head = spec.question if title is None else title
    label = f"{answer.words.final_score} of {answer.target}"
    return _figure(answer, mix_series(answer), head, label, ratios=True, width_in=width_in)


@style.own_style()
def curve_figure(spec: SweepSpec, answer: Answer, mix: str) -> Figure:
    """Accuracy of every task of one mix, the target in the mix's own colour. ``KeyError`` for an unknown mix."""
    found = answer.mix(mix)
    kept = [mix_styles(answer)[mix], *(GREYS[place % len(GREYS)] for place in range(len(found.tasks) - 1))]
    series = [Series(task.task, task, *look) for task, look in zip(found.tasks, kept, strict=True)]
    return _figure(answer, series, f"{spec.name}: every task of {mix}", answer.words.final_score)


def _figure(
    answer: Answer,
    series: Sequence[Series],
    title: str,
    y_label: str,
    *,
    ratios: bool = False,
    width_in: float = style.WIDTH_IN,
) -> Figure:
    shown, narrow = bars.rows(answer, series, ratios=ratios), width_in < style.NARROW_IN
    strip, curves_in = bars.height_in(shown, narrow=narrow), NARROW_CURVES_IN if narrow else CURVES_IN
    figure = style.new_figure(curves_in + strip + (0.85 if narrow else 1.1), width_in)
    curves, below = figure.subplots(2, 1, sharex=True, height_ratios=(curves_in, strip))
    span = size_span(answer)
    draw_runs(curves, series, answer)
    if not narrow:
        _name_curves(curves, series)
    _draw_floors(curves, series)
    longest = max(len(line) for row in shown for line in bars.row_name(row, narrow=narrow).split("\n"))
    room = width_in - max(0, longest - USUAL_NAME) * LETTER_IN * style.WIDTH_IN / PANEL_IN
    _finish_curves(curves, labelled_sizes(answer, room, WIDE_TICK_GAP), span, y_label, answer.words.parameters)
    bars.draw_rows(below, shown, answer, span, narrow=narrow)
    label_sizes(below, labelled_sizes(answer, room))
    if title:
        style.title(figure, title)
    return figure


def size_span(answer: Answer) -> tuple[float, float]:
    """The ends of the size axis, a little outside the sizes on offer."""
    smallest, largest = answer.counts[0].size, answer.counts[-1].size
    room = (largest / smallest) ** EDGE if largest > smallest else 1.5
    return smallest / room, largest * room


def draw_runs(axes: Axes, series: Sequence[Series], answer: Answer) -> None:
    """Every run as a point, each series in the order of its transition's points; and the curve with its band of each
    that has a transition."""
    for each, places in zip(series, _side_by_side(series, size_span(answer)), strict=True):
        found = each.transition
        axes.scatter(
            places,
            [point.accuracy for point in found.points],
            s=30,
            marker=each.marker,
            facecolors=each.colour + "66",
            edgecolors=each.colour,
            linewidths=0.9,
            zorder=3,
            clip_on=False,
            label=each.label,
            gid=each.id or None,
        )
        if (curve := curve_of(answer, found)) is not None:
            axes.fill_between(curve.sizes, curve.low, curve.high, color=each.colour, alpha=0.13, linewidth=0, zorder=1)
            axes.plot(curve.sizes, curve.middle, color=each.colour, linewidth=1.8, zorder=2)


def _side_by_side(series: Sequence[Series], span: tuple[float, float]) -> list[list[float]]:
    """The place of each run along the axis: its size, side by side with others that are as accurate."""
    points = [(at, point) for at, each in enumerate(series) for point in each.transition.points]
    sizes = sorted({point.size for _, point in points})
    room = min((np.log(high / low) for low, high in pairwise(sizes)), default=np.inf)
    crowds: dict[tuple[int, int], list[tuple[int, Point]]] = {}
    for at, point in points:
        crowds.setdefault((point.size, round(point.accuracy / ALIKE)), []).append((at, point))
    step = min(DOT * np.log(span[1] / span[0]), ROOM * room / max(map(len, crowds.values()), default=1))
    places = {
        each: each[1].size * float(np.exp(step * (place - (len(crowd) - 1) / 2)))
        for crowd in crowds.values()
        for place, each in enumerate(crowd)
    }
    return [[places[at, point] for point in each.transition.points] for at, each in enumerate(series)]


def curve_of(answer: Answer, found: Transition) -> PosteriorCurve | None:
    """The curve a transition is read from, over the sizes tested; None if no transition was found."""
    if found.verdict is not Verdict.FOUND or found.relative.value is None:
        return None
    low, high = answer.tested(found)
    at = np.geomspace(low.size, high.size, CURVE_SIZES).tolist()
    return posterior_curve(found.points, [count.size for count in answer.counts], sorted(set(at)))


def _name_curves(axes: Axes, series: Sequence[Series]) -> None:
    """The names with their markers to the right of the panel, in the order of the runs at the largest size: a legend
    inside would look like data."""
    ends = []
    for each in series:
        if points := each.transition.points:
            last = [point.accuracy for point in points if point.size == points[-1].size]
            ends.append((float(np.mean(last)), each))
    free = 1.03 - LABEL_GAP / 2
    outside = axes.get_yaxis_transform()
    for _, each in sorted(ends, key=lambda pair: -pair[0]):
        name = textwrap.fill(each.label, bars.NAME)
        half = LABEL_GAP / 2 * (name.count("\n") + 1)
        height, free = free - half, free - 2 * half
        at: dict[str, Any] = {"transform": outside, "va": "center", "fontsize": style.TEXT, "color": style.INK}
        axes.plot(bars.OUTSIDE, height, each.marker, color=each.colour, markersize=5, transform=outside, clip_on=False)
        axes.text(bars.OUTSIDE + 0.02, height, name, **at)


def _draw_floors(axes: Axes, series: Sequence[Series]) -> None:
    """The accuracy of the best constant answer, once for every task shown."""
    floors: dict[str, list[float]] = {}
    for each in series:
        floors.setdefault(each.answer.task, []).extend(point.floor for point in each.transition.points)
    for task, values in floors.items():
        if not values:
            continue
        floor = float(np.mean(values))
        axes.axhline(floor, color=style.FAINT, linewidth=0.8, zorder=0)
        axes.annotate(
            f"best constant answer{f' to {task}' if len(floors) > 1 else ''}",
            (0.995, floor),
            xycoords=("axes fraction", "data"),
            xytext=(0, -2),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=style.SMALL,
            color=style.GREY,
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
    above.tick_params(labelsize=style.SMALL, width=0.6, length=2, colors=style.GREY)
    above.spines["top"].set_visible(False)


def label_sizes(axes: Axes, counts: Sequence[Count]) -> None:
    """Label these sizes and no others."""
    axes.xaxis.set_major_locator(FixedLocator([count.size for count in counts]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([str(count.size) for count in counts])


def labelled_sizes(answer: Answer, width_in: float = style.WIDTH_IN, apart: float = TICK_GAP) -> list[Count]:
    """The sizes to label in a figure of this width: the ends, and those between that leave room for each other, this
    share of the usual width."""
    ends = [answer.counts[0], answer.counts[-1]] if len(answer.counts) > 1 else list(answer.counts)
    gap = apart * style.WIDTH_IN / width_in * np.log(ends[-1].size / ends[0].size)
    kept = list(ends)
    for count in answer.counts[1:-1]:
        if all(abs(np.log(count.size / other.size)) >= gap for other in kept):
            kept.append(count)
    return sorted(kept, key=lambda count: count.size)


def _short(parameters: float) -> str:
    """``4.6k``, ``32k``, ``1.2M``."""
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if parameters >= unit:
            scaled = parameters / unit
            return f"{scaled:.0f}{letter}" if scaled >= 10 else f"{scaled:.1f}{letter}"
    return f"{parameters:.0f}"
