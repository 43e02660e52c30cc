"""Series of a figure in their colors, and transitions as bars with their intervals."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes

from orchestrator.report.answer import Answer
from orchestrator.report.figures import style
from orchestrator.report.words.findings import compared_words
from orchestrator.report.words.transitions import size_words
from orchestrator.transition.types import CONFIDENCE, LEVEL, Estimate, Transition, Verdict

SHADE = 0.26
"""Half the height of the highest posterior, as a share of a row."""
ABOVE = 0.42
"""Distance from a bar to the words above it in a narrow figure, as a share of a row."""
OUTSIDE = 1.03
"""Left edge of the words, in panel widths. It leaves room for the arrow of an open end."""
NAME, NARROW_NAME = 22, 14
"""Characters per line of a row's name, in a wide and in a narrow figure."""


class Series(NamedTuple):
    """The target's transition in a mix, with the color and marker of the mix in every figure of a sweep."""

    label: str
    transition: Transition
    color: str
    marker: str


class Row(NamedTuple):
    """A transition or, with two series, a decided comparison: an arrow from the baseline's transition to the mix's."""

    name: str
    words: str
    series: tuple[Series, ...]


def mix_series(answer: Answer) -> dict[str, Series]:
    """Return the target's curve in each mix."""
    styles = styles_of(mix.mix for mix in answer.mixes)
    return {mix.mix: Series(mix.mix, mix.target.transition, *styles[mix.mix]) for mix in answer.mixes}


def styles_of(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return a color and a marker for each name, in the order of first appearance."""
    return dict(zip(dict.fromkeys(names), zip(cycle(style.COLORS), cycle(style.MARKERS), strict=False), strict=False))


def bar_of(estimate: Estimate, verdict: Verdict, smallest: float, largest: float) -> Estimate | None:
    """Return the bar of a transition within the tested sizes, None for a verdict without a size. Open ends are None."""
    if verdict is Verdict.NEAR_FLOOR:
        return None
    if verdict is Verdict.ABOVE:
        return Estimate(None, largest, None)
    if verdict is Verdict.BELOW:
        return Estimate(None, None, smallest)
    return Estimate(estimate.value if verdict is Verdict.FOUND else None, estimate.low, estimate.high)


def draw_bar(
    axes: Axes, bar: Estimate, height: float, color: str, span: tuple[float, float], marker: str = "o"
) -> None:
    """Draw a bar and its value. Open ends are arrows at the edges of ``span``; with both open, the value is hollow."""
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


def rows(answer: Answer, *, narrow: bool) -> list[Row]:
    """Return a row per mix, then one per decided comparison. Names are wrapped to the width of their column."""
    series, width = mix_series(answer), NARROW_NAME if narrow else NAME
    made = [Row(mix, size_words(answer, curve.transition), (curve,)) for mix, curve in series.items()]
    for mix in answer.mixes:
        if mix.is_decided:
            baseline = answer.baseline_of(mix).mix
            name = f"{mix.mix} vs\N{NO-BREAK SPACE}{baseline}"
            made.append(Row(name, compared_words(answer, mix), (series[baseline], series[mix.mix])))
    return [row._replace(name=textwrap.fill(row.name, width)) for row in made]


def draw_rows(axes: Axes, rows: Sequence[Row], answer: Answer, span: tuple[float, float], *, narrow: bool) -> None:
    """Draw rows into a panel with a logarithmic size axis, their words on the right or, if narrow, above the bars."""
    look: dict[str, Any] = {"va": "center", "fontsize": style.SMALL + 0.5, "color": style.INK}
    for place, row in enumerate(rows):
        if len(row.series) > 1:
            _draw_arrow(axes, row, answer, place)
        else:
            (series,) = row.series
            _draw_posterior(axes, series, place)
            smallest, largest = answer.tested(series.transition)
            bar = bar_of(series.transition.relative, series.transition.verdict, smallest.size, largest.size)
            if bar is not None and series.transition.points:
                draw_bar(axes, bar, place, series.color, span, series.marker)
        at, side = ((1.0, place - ABOVE), "right") if narrow else ((OUTSIDE, place), "left")
        axes.annotate(row.words, at, xycoords=("axes fraction", "data"), ha=side, **look)
    axes.set_ylim(len(rows) - 0.4, -0.75 if narrow else -0.55)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    about = f"\nbars: transition at {LEVEL:.0%} of the asymptote, {CONFIDENCE:.0%} interval; shade: posterior"
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
    look: dict[str, Any] = {"color": series.color, "alpha": 0.16, "linewidth": 0, "zorder": 1}
    axes.fill_between(density.sizes, row - height, row + height, where=height > 0.01 * SHADE, **look)


def _draw_arrow(axes: Axes, row: Row, answer: Answer, place: int) -> None:
    """Draw an arrow from the baseline's transition to the mix's, if both are known or beyond the tested sizes."""
    ends, color = [], row.series[-1].color
    for transition in (series.transition for series in row.series):
        smallest, largest = answer.tested(transition)
        beyond = {Verdict.ABOVE: largest.size, Verdict.BELOW: smallest.size}.get(transition.verdict)
        ends.append(beyond if transition.relative.value is None else transition.relative.value)
    start, end = ends
    if start is not None and end is not None and start != end:
        arrow = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "mutation_scale": 12, "linewidth": 1.8}
        axes.annotate("", xy=(end, place), xytext=(start, place), arrowprops={"color": color, **arrow})
        axes.plot(start, place, marker="|", color=color, markersize=8, markeredgewidth=1.6, zorder=3)
