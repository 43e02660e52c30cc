"""Series of a figure in their colors, and transitions as bars with their intervals."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from orchestrator.report.answer import Answer, TaskAnswer
from orchestrator.report.figures import style
from orchestrator.report.words.findings import compared_words
from orchestrator.report.words.transitions import NO_SIZE, size_words
from orchestrator.transition.types import CONFIDENCE, LEVEL, Estimate, Transition, Verdict

ROW_IN, NARROW_ROW_IN, EDGES_IN = 0.4, 0.46, 0.12
"""Heights in inches: a row, a row of a narrow figure (with its words above the bar), and the panel's margins."""
SHADE = 0.26
"""Half the height of the highest posterior, as a share of a row."""
ABOVE = 0.42
"""Distance from a bar to the words above it in a narrow figure, as a share of a row."""
OUTSIDE = 1.03
"""Left edge of the words, in panel widths. It leaves room for the arrow of an open end."""
NAME, NARROW_NAME = 22, 14
"""Characters per line of a row's name, in a wide and in a narrow figure."""


class SeriesStyle(NamedTuple):
    """Color and marker of a mix in every figure of a sweep."""

    color: str
    marker: str


@dataclass(frozen=True)
class Series:
    """One curve of a figure: the target in a mix."""

    label: str
    answer: TaskAnswer
    color: str
    marker: str

    @property
    def transition(self) -> Transition:
        return self.answer.transition


def mix_series(answer: Answer) -> list[Series]:
    """Return the target's curve in each mix."""
    styles = styles_of(mix.mix for mix in answer.mixes)
    return [Series(mix.mix, mix.target, *styles[mix.mix]) for mix in answer.mixes]


def styles_of(names: Iterable[str]) -> dict[str, SeriesStyle]:
    """Return a style for each name, in the order of first appearance."""
    return {
        name: SeriesStyle(style.COLORS[place % len(style.COLORS)], style.MARKERS[place % len(style.MARKERS)])
        for place, name in enumerate(dict.fromkeys(names))
    }


def bar_of(estimate: Estimate, verdict: Verdict, smallest: float, largest: float) -> Estimate | None:
    """Return the bar of a transition within the tested sizes, None for a verdict without a size. Open ends are None."""
    if verdict in NO_SIZE:
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


@dataclass(frozen=True)
class Ratio:
    """A decided comparison: its two series, and the result in words."""

    baseline: Series
    mix: Series
    words: str


Row = Series | Ratio


def rows(answer: Answer, series: Sequence[Series]) -> list[Row]:
    """Return a row per mix, then one per decided comparison."""
    by_mix = {curve.label: curve for curve in series}
    ratios = [
        Ratio(by_mix[answer.baseline_of(mix)], by_mix[mix.mix], compared_words(answer, mix))
        for mix in answer.mixes
        if mix.comparison is not None and mix.comparison.decided is not None
    ]
    return [*series, *ratios]


def height_in(rows: Sequence[Row], *, narrow: bool) -> float:
    """Return the height of the panel in inches."""
    return EDGES_IN + (NARROW_ROW_IN if narrow else ROW_IN) * len(rows)


def draw_rows(axes: Axes, rows: Sequence[Row], answer: Answer, span: tuple[float, float], *, narrow: bool) -> None:
    """Draw rows into a panel with a logarithmic size axis, their words on the right or, if narrow, above the bars."""
    for place, row in enumerate(rows):
        if isinstance(row, Ratio):
            _draw_ratio(axes, row, answer, place)
            text = row.words
        else:
            transition, (smallest, largest) = row.transition, answer.tested(row.transition)
            _draw_posterior(axes, row, place)
            bar = bar_of(transition.relative, transition.verdict, smallest.size, largest.size)
            if bar is not None and transition.points:
                draw_bar(axes, bar, place, row.color, span, row.marker)
            text = size_words(answer, transition)
        axes.annotate(
            text,
            (1.0, place - ABOVE) if narrow else (OUTSIDE, place),
            xycoords=("axes fraction", "data"),
            va="center",
            ha="right" if narrow else "left",
            fontsize=style.SMALL + 0.5,
            color=style.INK,
        )
    axes.set_ylim(len(rows) - 0.4, -0.75 if narrow else -0.55)
    axes.set_yticks(range(len(rows)), [row_name(row, narrow=narrow) for row in rows])
    about = f"bars: transition at {LEVEL:.0%} of the asymptote, {CONFIDENCE:.0%} interval; shade: posterior"
    axes.set_xlabel(answer.size_label if narrow else f"{answer.size_label}\n{about}")
    style.dress(axes, spines=("bottom",))
    axes.tick_params(axis="y", length=0, labelsize=style.TEXT)


def row_name(row: Row, *, narrow: bool) -> str:
    """Return the name of a row, wrapped to the width of its column."""
    text = f"{row.mix.label} vs\N{NO-BREAK SPACE}{row.baseline.label}" if isinstance(row, Ratio) else row.label
    return textwrap.fill(text, NARROW_NAME if narrow else NAME)


def _draw_posterior(axes: Axes, series: Series, row: int) -> None:
    """Shade the posterior density in ln size, unless the transition is outside: its visible end would mislead."""
    transition = series.transition
    beyond = transition.verdict in (Verdict.ABOVE, Verdict.BELOW)
    if transition.density is None or beyond or max(transition.density.weights) <= 0:
        return
    sizes, weights = np.array(transition.density.sizes), np.array(transition.density.weights)
    height = SHADE * weights / weights.max()
    visible = height > 0.01 * SHADE
    axes.fill_between(
        sizes, row - height, row + height, where=visible, color=series.color, alpha=0.16, linewidth=0, zorder=1
    )


def _draw_ratio(axes: Axes, row: Ratio, answer: Answer, place: int) -> None:
    """Draw an arrow from the baseline's transition to the mix's, if both are known."""
    start, end = (_place(series.transition, answer) for series in (row.baseline, row.mix))
    if start is not None and end is not None and start != end:
        arrow = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "mutation_scale": 12, "linewidth": 1.8}
        axes.annotate("", xy=(end, place), xytext=(start, place), arrowprops={"color": row.mix.color, **arrow})
        axes.plot(start, place, marker="|", color=row.mix.color, markersize=8, markeredgewidth=1.6, zorder=3)


def _place(transition: Transition, answer: Answer) -> float | None:
    """Return the size at the transition, or the nearest tested size if the transition is outside."""
    if transition.relative.value is not None:
        return transition.relative.value
    smallest, largest = answer.tested(transition)
    if transition.verdict is Verdict.ABOVE:
        return float(largest.size)
    return float(smallest.size) if transition.verdict is Verdict.BELOW else None
