"""Accuracy against size: every run and the curve of its posterior, and transitions as bars with their intervals."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from itertools import cycle, pairwise
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from orchestrator.report.answer import Answer, Count
from orchestrator.report.conclusions import Conclusion, conclusion_of
from orchestrator.report.figures import style
from orchestrator.report.sentences.findings import compared_text
from orchestrator.report.sentences.transitions import LOCATED, size_text
from orchestrator.system.text import scaled
from orchestrator.transition.types import CONFIDENCE, LEVEL, Estimate, Point, Transition, Verdict

TICK_GAP = 0.055
"""Minimum distance between labels of sizes, as a share of the axis (in ln size)."""
WIDE_TICK_GAP = 0.08
"""Minimum distance between labels of parameters, which are longer."""
HEIGHTS_IN = (3.2, 0.4, 1.25)
"""Heights in inches of the curves' panel, of a row below it, and of the text around them."""
NARROW_HEIGHTS_IN = (1.7, 0.46, 0.85)
"""The same heights in a narrow figure, in which the text of a row is above its bar."""
ROWS_EDGES_IN = 0.12
"""Margins of the panel of rows in inches."""
EDGE = 0.06
"""Margin outside the sizes, as a share of the axis (in ln size)."""
CURVE_SIZES = 48
"""Number of sizes at which a curve is computed."""
LABEL_GAP = 0.055
"""Minimum distance between lines of text next to the curves, in accuracy."""
DOT = 0.012
"""Distance between the dots of runs of a size with nearly equal accuracies, as a share of the axis."""
ALIKE = 0.03
"""Difference of accuracies below which dots would cover each other."""
ROOM = 0.5
"""Maximum share of the gap to the next size that such dots span together."""
USUAL_NAME = 15
"""Characters of a row's name that fit without a wider margin."""
LETTER_IN = 0.075
"""Inches for each further character of a row's name."""
PANEL_IN = 4.6
"""Usual width of the panel in inches."""
SHADE = 0.26
"""Half the height of the highest posterior, as a share of a row."""
ABOVE = 0.42
"""Distance from a bar to the text above it, as a share of a row."""
RIGHT_OF_AXES = 1.03
"""Left edge of the text, in panel widths. It leaves room for the arrow of an open end."""
WORDS = 32
"""Characters per line of a row's text in a wide figure. Only a transition that levels off needs more."""
NAME_CHARACTERS = 22
"""Characters per line of a row's name."""
NARROW_NAME_CHARACTERS = 14
"""Characters per line of a row's name in a narrow figure."""


class Series(NamedTuple):
    """The target's transition in a mix, with the color and marker of the mix in every figure of a sweep."""

    label: str
    transition: Transition
    color: str
    marker: str


class FigureRow(NamedTuple):
    """A transition or, with two series and a conclusion, a decided comparison of a baseline and a mix."""

    name: str
    words: str
    series: tuple[Series, ...]
    conclusion: Conclusion | None = None


def styles_of(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return a color and a marker for each name, in the order of first appearance."""
    return dict(zip(dict.fromkeys(names), zip(cycle(style.COLORS), cycle(style.MARKERS), strict=False), strict=False))


@style.own_style()
def transitions_figure(answer: Answer, title: str = "", width_in: float = style.WIDTH_IN) -> Figure:
    """Draw accuracy of the target against size for every mix, and below it the transitions as bars."""
    narrow = width_in < style.NARROW_IN
    rows = _rows(answer, narrow=narrow)
    series = [row.series[0] for row in rows if len(row.series) == 1]
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
    _draw_rows(below, rows, answer, span, narrow=narrow)
    style.label_ticks(below.xaxis, {count.size: str(count.size) for count in labeled_sizes(answer, room)})
    style.title(figure, title)
    return figure


def _shown(answer: Answer) -> list[Count]:
    """Return the sizes between the smallest and the largest size with a run or an end of an interval.

    Without runs, return all sizes.
    """
    transitions = [mix.target.transition for mix in answer.mixes]
    sizes: list[float] = [point.size for transition in transitions for point in transition.points]
    intervals = [transition.relative for transition in transitions]
    ends = [end for interval in intervals for end in (interval.low, interval.high) if end is not None]
    inside = [end for end in ends if answer.counts[0].size <= end <= answer.counts[-1].size]
    low = min([*sizes, *inside], default=0)
    high = max([*sizes, *inside], default=math.inf)
    above = [count.size for count in answer.counts if count.size >= high]
    below = [count.size for count in answer.counts if count.size <= low]
    low = below[-1] if below else low
    high = above[0] if above else high
    return [count for count in answer.counts if low <= count.size <= high]


def size_span(answer: Answer) -> tuple[float, float]:
    """Return the ends of the size axis, slightly outside the sizes to show."""
    shown = _shown(answer)
    smallest = shown[0].size
    largest = shown[-1].size
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
    """Return the position of each run on the axis: its size, shifted so that runs with similar accuracies do not cover
    each other."""
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
    text_style: dict[str, Any] = {"transform": outside, "va": "center", "fontsize": style.TEXT, "color": style.INK}
    for _, line in sorted(ends, key=lambda pair: -pair[0]):
        name = textwrap.fill(line.label, NAME_CHARACTERS)
        half = LABEL_GAP / 2 * (name.count("\n") + 1)
        height, free = free - half, free - 2 * half
        mark: dict[str, Any] = {"color": line.color, "markersize": 5, "transform": outside, "clip_on": False}
        axes.plot(RIGHT_OF_AXES, height, line.marker, **mark)
        axes.text(RIGHT_OF_AXES + 0.02, height, name, **text_style)


def _draw_floor(axes: Axes, series: Sequence[Series]) -> None:
    floors = [point.floor for line in series for point in line.transition.points]
    if floors:
        floor = float(np.mean(floors))
        axes.axhline(floor, color=style.FAINT, linewidth=0.8, zorder=0)
        text_style: dict[str, Any] = {"va": "center", "fontsize": style.SMALL, "color": style.GRAY}
        axes.text(RIGHT_OF_AXES, floor, "best constant answer", transform=axes.get_yaxis_transform(), **text_style)


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
    shown = _shown(answer)
    labeled = list(dict.fromkeys((shown[0], shown[-1])))
    gap = apart * style.WIDTH_IN / width_in * np.log(labeled[-1].size / labeled[0].size)
    for count in shown[1:-1]:
        if all(abs(np.log(count.size / other.size)) >= gap for other in labeled):
            labeled.append(count)
    return sorted(labeled, key=lambda count: count.size)


def bar_of(estimate: Estimate, verdict: Verdict, smallest: float, largest: float) -> Estimate | None:
    """Return the bar of a transition within the tested sizes, or None for a verdict without a size. Open ends are
    None."""
    if verdict is Verdict.NEAR_FLOOR:
        return None
    if verdict is Verdict.ABOVE:
        return Estimate(None, largest, None)
    if verdict is Verdict.BELOW:
        return Estimate(None, None, smallest)
    return Estimate(estimate.value if verdict in LOCATED else None, estimate.low, estimate.high)


def draw_bar(
    axes: Axes, bar: Estimate, height: float, color: str, span: tuple[float, float], marker: str = "o"
) -> None:
    """Draw a bar and its value. Open ends are arrows at the edges of ``span``. If both are open, the value is
    hollow."""
    known = [end for end in (bar.low, bar.high) if end is not None]
    if len(known) == 2:
        axes.plot(known, [height] * 2, color=color, linewidth=2.2, solid_capstyle="butt", zorder=2)
    for end, edge, far, arrow in ((bar.low, span[0], span[1], "<"), (bar.high, span[1], span[0], ">")):
        if end is not None:
            axes.plot(end, height, marker="|", color=color, markersize=8, markeredgewidth=1.6, zorder=3)
            continue
        start = known[0] if known else far
        axes.plot([start, edge], [height] * 2, color=color, linewidth=1.8, linestyle=(0, (1, 1)), zorder=2)
        axes.plot(edge, height, marker=arrow, color=color, markersize=6, clip_on=False, zorder=3)
    if bar.value is not None:
        fill = color if known else "white"
        axes.plot(bar.value, height, marker=marker, color=color, markerfacecolor=fill, markersize=6.5, zorder=4)


def _rows(answer: Answer, *, narrow: bool) -> list[FigureRow]:
    """Return a row per mix, then one per decided comparison. Names are wrapped to the width of their column."""
    styles = styles_of(mix.mix for mix in answer.mixes)
    width = NARROW_NAME_CHARACTERS if narrow else NAME_CHARACTERS
    series = {mix.mix: Series(mix.mix, mix.target.transition, *styles[mix.mix]) for mix in answer.mixes}
    made = [FigureRow(mix, size_text(answer, curve.transition), (curve,)) for mix, curve in series.items()]
    for mix in answer.mixes:
        conclusion = conclusion_of(answer, mix)
        if conclusion is not None:
            baseline = answer.baseline_of(mix).mix
            name = f"{mix.mix} vs\N{NO-BREAK SPACE}{baseline}"
            made.append(FigureRow(name, compared_text(answer, mix), (series[baseline], series[mix.mix]), conclusion))
    return [row._replace(name=textwrap.fill(row.name, width)) for row in made]


def _draw_rows(
    axes: Axes, rows: Sequence[FigureRow], answer: Answer, span: tuple[float, float], *, narrow: bool
) -> None:
    """Draw rows into a panel with a logarithmic size axis. Their text is on the right or, if narrow, above the bars."""
    text_style: dict[str, Any] = {"va": "center", "fontsize": style.SMALL + 0.5, "color": style.INK}
    for place, row in enumerate(rows):
        if row.conclusion is not None and not row.conclusion.is_about_parameters:
            _draw_place(axes, row, row.conclusion, place)
        elif row.conclusion is not None:
            _draw_arrow(axes, row, answer, place)
        else:
            (series,) = row.series
            _draw_posterior(axes, series, place)
            smallest, largest = answer.tested(series.transition)
            bar = bar_of(series.transition.relative, series.transition.verdict, smallest.size, largest.size)
            if bar is not None and series.transition.points:
                draw_bar(axes, bar, place, series.color, span, series.marker)
        words = row.words if narrow else textwrap.fill(row.words, WORDS)
        at = (1.0, place - ABOVE) if narrow else (RIGHT_OF_AXES, place)
        side = "right" if narrow else "left"
        axes.annotate(words, at, xycoords=("axes fraction", "data"), ha=side, **text_style)
    axes.set_ylim(len(rows) - 0.4, -0.75 if narrow else -0.55)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    about = f"\nbars: transition at {LEVEL:.0%} of the asymptote, {CONFIDENCE:.0%} interval; shading: its probability"
    axes.set_xlabel(f"{answer.words.size} ({answer.size_axis})" + ("" if narrow else about))
    style.dress(axes, spines=("bottom",))
    axes.tick_params(axis="y", length=0, labelsize=style.TEXT)


def _draw_posterior(axes: Axes, series: Series, row: int) -> None:
    """Shade the posterior density in ln size, unless the transition is outside: its visible end would mislead."""
    density = series.transition.density
    beyond = series.transition.verdict in (Verdict.ABOVE, Verdict.BELOW)
    if density is None or beyond or max(density.weights) <= 0:
        return
    height = SHADE * np.array(density.weights) / max(density.weights)
    band_style: dict[str, Any] = {"color": series.color, "alpha": 0.16, "linewidth": 0, "zorder": 1}
    axes.fill_between(density.sizes, row - height, row + height, where=height > 0.01 * SHADE, **band_style)


def _draw_place(axes: Axes, row: FigureRow, conclusion: Conclusion, place: int) -> None:
    """Draw a band over the sizes at which the mix was learned more often, or less often, than its baseline."""
    sizes = (*conclusion.place.mix.sizes, *conclusion.place.baseline.sizes)
    color = row.series[-1].color
    ends = [min(sizes), max(sizes)]
    axes.plot(ends, [place] * 2, color=color, linewidth=7, alpha=0.3, solid_capstyle="butt", zorder=2)
    axes.plot(ends, [place] * 2, linestyle="", marker="|", color=color, markersize=10, markeredgewidth=1.6, zorder=3)


def _draw_arrow(axes: Axes, row: FigureRow, answer: Answer, place: int) -> None:
    """Draw an arrow from the baseline's transition to the mix's, if both are known or beyond the tested sizes."""
    ends = []
    color = row.series[-1].color
    for transition in (series.transition for series in row.series):
        smallest, largest = answer.tested(transition)
        beyond = {Verdict.ABOVE: largest.size, Verdict.BELOW: smallest.size}.get(transition.verdict)
        ends.append(beyond if transition.relative.value is None else transition.relative.value)
    start, end = ends
    if start is not None and end is not None and start != end:
        arrow = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "mutation_scale": 12, "linewidth": 1.8}
        axes.annotate("", xy=(end, place), xytext=(start, place), arrowprops={"color": color, **arrow})
        axes.plot(start, place, marker="|", color=color, markersize=8, markeredgewidth=1.6, zorder=3)
