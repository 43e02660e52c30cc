"""Accuracy against size: every run, the posterior's curve with its band, and where the transitions lie.

One estimator a picture: curve, band, the mark at 80 % and the intervals below all come from the posterior.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from orchestrator.report import strips, style, wording
from orchestrator.report.answer import Answer, Count
from orchestrator.report.looks import GREYS, Series, looks, series_of
from orchestrator.report.similarity import similarity_figure
from orchestrator.report.style import save, save_both
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.posterior import PosteriorCurve, posterior_curve
from orchestrator.transition.types import LEVEL, Point, Transition, Verdict

__all__ = ["curve_figure", "save", "save_both", "similarity_figure", "transitions_figure"]

TICK_GAP, WIDE_TICK_GAP = 0.055, 0.08
"""The least distance between labelled sizes, as a share of the axis (of ln size); the second between counts of
parameters, which are wider."""
CURVES_IN = 3.2
NARROW_CURVES_IN = 1.9
"""Heights of the curves' panel in inches, the second in a narrow figure."""
EDGE = 0.06
"""Room left of the smallest and right of the largest size, as a share of the axis (of ln size)."""


CURVE_SIZES = 48
"""Sizes at which a curve is worked out."""
MARK_GAP = 0.2
"""The least distance between marks that are named, as a share of the axis (of ln size)."""
LABEL_GAP = 0.055
"""Least distance between lines of the names of two curves, in accuracy."""
DOT, ALIKE, ROOM = 0.012, 0.03, 0.5
"""Runs of a size whose accuracies are within the second of each other stand side by side, so far apart as a share of
the axis (of ln size); all of them within the third of the way to the next size."""
USUAL_NAME, LETTER_IN, PANEL_IN = 15, 0.075, 4.6
"""Characters of a row's name for which figures have room, the width of one more in inches, and what is left for the
panel in inches."""


def transitions_figure(
    spec: SweepSpec, answer: Answer, *, title: str | None = None, width_in: float = style.WIDTH_IN
) -> Figure:
    """Accuracy of the target against size for every mix, each in its own colour; above it the question, or another
    ``title``."""
    known = looks(answer)
    series = [series_of(mix.mix, mix.target, known[mix.mix]) for mix in answer.mixes]
    head = spec.question if title is None else title
    return _figure(
        answer, series, head, f"{answer.words.final_score} of {answer.target}", ratios=True, width_in=width_in
    )


def curve_figure(spec: SweepSpec, answer: Answer, mix: str) -> Figure:
    """Accuracy of every task of one mix, the target in the mix's own colour. ``KeyError`` for an unknown mix."""
    found = answer.mix(mix)
    kept = [looks(answer)[mix], *(GREYS[place % len(GREYS)] for place in range(len(found.tasks) - 1))]
    series = [series_of(task.task, task, look) for task, look in zip(found.tasks, kept, strict=True)]
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
    rows = strips.rows(answer, series, ratios=ratios)
    room = _room_in(rows, width_in)
    strip = strips.height_in(rows, width_in)
    narrow = width_in < style.NARROW_IN
    curves_in = NARROW_CURVES_IN if narrow else CURVES_IN
    figure = style.new_figure(curves_in + strip + 1.1, width_in)
    curves, below = figure.subplots(2, 1, sharex=True, height_ratios=(curves_in, strip))
    span = size_span(answer)
    named = not narrow and _apart(series, span)
    for each in series:
        draw_runs(curves, each, answer, named=named)
    if not narrow:
        _name_curves(curves, series)
    _draw_floors(curves, series)
    counts = labelled_sizes(answer, room)
    _finish_curves(curves, labelled_sizes(answer, room, WIDE_TICK_GAP), span, y_label, answer.words.parameters)
    strips.draw(below, rows, answer, span, width_in, room)
    below.xaxis.set_major_locator(FixedLocator([count.size for count in counts]))
    below.xaxis.set_minor_locator(NullLocator())
    below.set_xticklabels([str(count.size) for count in counts])
    if title:
        style.title(figure, title)
    return figure


def _room_in(rows: Sequence[strips.Row], width_in: float) -> float:
    """The width of a figure of short names whose panel is as wide as in this one."""
    names = [strips.name(row, narrow=width_in < style.NARROW_IN) for row in rows]
    longest = max(len(line) for name in names for line in name.split("\n"))
    return width_in - max(0, longest - USUAL_NAME) * LETTER_IN * style.WIDTH_IN / PANEL_IN


def size_span(answer: Answer) -> tuple[float, float]:
    """The ends of the size axis, a little outside the sizes on offer."""
    smallest, largest = answer.counts[0].size, answer.counts[-1].size
    room = (largest / smallest) ** EDGE if largest > smallest else 1.5
    return smallest / room, largest * room


def draw_runs(axes: Axes, series: Series, answer: Answer, *, named: bool = False) -> None:
    """Every run as a point; where there is a transition, the curve it is read from, with its band and the mark at 80 %
    of its asymptote, ``named`` with its size."""
    found = series.transition
    axes.scatter(
        _beside(found.points, size_span(answer)),
        [point.accuracy for point in found.points],
        s=30,
        marker=series.marker,
        facecolors=series.colour + "66",
        edgecolors=series.colour,
        linewidths=0.9,
        zorder=3,
        clip_on=False,
        label=series.label,
    )
    value = found.relative.value
    if (curve := curve_of(answer, found)) is None or value is None:
        return
    axes.fill_between(curve.sizes, curve.low, curve.high, color=series.colour, alpha=0.13, linewidth=0, zorder=1)
    axes.plot(curve.sizes, curve.middle, color=series.colour, linewidth=1.8, zorder=2)
    height = curve.at(value)
    axes.vlines(value, 0, height, color=series.colour, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
    axes.plot(value, height, marker="o", markersize=8, markerfacecolor="white", markeredgecolor=series.colour, zorder=4)
    if named:
        axes.annotate(
            f"{LEVEL:.0%} at {wording.number(value)}",
            (value, height),
            xytext=(8, -3),
            textcoords="offset points",
            fontsize=style.SMALL,
            color=series.colour,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6, "alpha": 0.8},
            zorder=5,
        )


def _beside(points: Sequence[Point], span: tuple[float, float]) -> list[float]:
    """Where along the axis each run is drawn: at its size, and side by side where several are as accurate."""
    sizes = sorted({point.size for point in points})
    room = min((np.log(high / low) for low, high in pairwise(sizes)), default=np.inf)
    crowds: dict[tuple[int, int], list[Point]] = {}
    for point in points:
        crowds.setdefault((point.size, round(point.accuracy / ALIKE)), []).append(point)
    step = min(DOT * np.log(span[1] / span[0]), ROOM * room / max(map(len, crowds.values()), default=1))
    places = {
        point: point.size * float(np.exp(step * (place - (len(crowd) - 1) / 2)))
        for crowd in crowds.values()
        for place, point in enumerate(crowd)
    }
    return [places[point] for point in points]


def _apart(series: Sequence[Series], span: tuple[float, float]) -> bool:
    """Whether marks have room for their sizes beside them; where not, the rows below say them alone."""
    values = sorted(each.transition.relative.value for each in series if each.transition.relative.value is not None)
    gap = MARK_GAP * np.log(span[1] / span[0])
    return all(np.log(high / low) >= gap for low, high in pairwise(values))


def curve_of(answer: Answer, found: Transition) -> PosteriorCurve | None:
    """The curve a transition is read from, over the sizes tested; None where no transition was found."""
    if found.verdict is not Verdict.FOUND or found.relative.value is None:
        return None
    low, high = answer.tested(found)
    at = {*np.geomspace(low.size, high.size, CURVE_SIZES).tolist(), found.relative.value}
    return posterior_curve(found.points, [count.size for count in answer.counts], sorted(at), found.confidence)


def _name_curves(axes: Axes, series: Sequence[Series]) -> None:
    """Each name beside the panel, at the height of its runs at the largest size, pushed apart: a legend inside would
    look like data."""
    ends = []
    for each in series:
        if points := each.transition.points:
            last = [point.accuracy for point in points if point.size == points[-1].size]
            ends.append((float(np.mean(last)), each))
    free = 1.03 - LABEL_GAP / 2
    for end, each in sorted(ends, key=lambda pair: -pair[0]):
        name = textwrap.fill(each.label, strips.NAME)
        half = LABEL_GAP / 2 * (name.count("\n") + 1)
        height = min(end, free - half)
        free = height - half
        axes.annotate(
            name,
            (strips.BESIDE, height),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=style.TEXT,
            color=each.colour,
        )


def _draw_floors(axes: Axes, series: Sequence[Series]) -> None:
    """The accuracy of the best constant answer, once for every task shown."""
    floors: dict[str, list[float]] = {}
    for each in series:
        floors.setdefault(each.answer.task, []).extend(point.floor for point in each.transition.points)
    for task, values in floors.items():
        if not values:
            continue
        floor = float(np.mean(values))
        axes.axhline(floor, color=style.GREY, linewidth=0.8, linestyle=(0, (1, 2)), zorder=0)
        axes.annotate(
            f"best constant answer to {task}",
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
    axes.grid(axis="y", color=style.FAINT, linewidth=0.5, alpha=0.6)
    axes.set_axisbelow(True)
    axes.set_ylabel(y_label)
    style.dress(axes)
    above = axes.secondary_xaxis("top")
    above.xaxis.set_major_locator(FixedLocator([count.size for count in counts]))
    above.xaxis.set_minor_locator(NullLocator())
    above.set_xticklabels([_short(count.total) for count in counts])
    above.set_xlabel(counted, fontsize=style.TEXT, labelpad=4)
    above.tick_params(labelsize=style.SMALL, width=0.6, length=2, colors=style.GREY)
    above.spines["top"].set_visible(False)


def labelled_sizes(answer: Answer, width_in: float = style.WIDTH_IN, apart: float = TICK_GAP) -> list[Count]:
    """The sizes to label: the ends, and between them those that leave room for each other in a figure so wide, this
    share of its usual width."""
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
