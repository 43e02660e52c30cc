"""Series of a figure in their colours, transitions as bars with their intervals, and the rows of bars under the
curves."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from orchestrator.report.answer import Answer, MixAnswer, TaskAnswer
from orchestrator.report.figures import style
from orchestrator.report.words.findings import compared_words
from orchestrator.report.words.transitions import NO_SIZE, size_words
from orchestrator.transition.types import CONFIDENCE, LEVEL, Estimate, Transition, Verdict

ROW_IN, NARROW_ROW_IN, EDGES_IN = 0.4, 0.46, 0.12
"""Inches: the height of a row, of one in a narrow figure (whose words stand over the bar), and what all rows need
besides."""
SHADE = 0.26
"""Half the height of the highest posterior, as a share of a row."""
ABOVE = 0.42
"""Distance of a row's words from its bar in a narrow figure, as a share of a row."""
OUTSIDE = 1.03
"""Left end of the words to the right of a panel, in its widths: past the arrow of an open side."""
NAME, NARROW_NAME = 22, 14
"""Characters of a line of a row's name; the second in a narrow figure."""


class SeriesStyle(NamedTuple):
    """Colour and marker of a mix in every figure of a sweep."""

    colour: str
    marker: str


GREYS = tuple(map(SeriesStyle, ("#6E6E6E", "#9A9A9A", "#4A4A4A"), "^Dv"))
"""Styles of tasks that are not the target: no mix has them."""


@dataclass(frozen=True)
class Series:
    """One curve of a figure. ``id`` names its points in an SVG, ``""`` for none."""

    label: str
    answer: TaskAnswer
    colour: str
    marker: str
    id: str = ""

    @property
    def transition(self) -> Transition:
        return self.answer.transition


def mix_series(answer: Answer) -> list[Series]:
    """The curve of the target in each mix, in the style of the mix."""
    known = mix_styles(answer)
    return [Series(mix.mix, mix.target, *known[mix.mix], points_id(mix)) for mix in answer.mixes]


def points_id(mix: MixAnswer) -> str:
    """The id of a mix's points in an SVG."""
    return f"runs-{mix.recipe}-{mix.plain}".replace(" ", "_")


def mix_styles(answer: Answer) -> dict[str, SeriesStyle]:
    """The style of each mix of an answer by its name, alike under every recipe."""
    known = styles_of(mix.plain for mix in answer.mixes)
    return {mix.mix: known[mix.plain] for mix in answer.mixes}


def styles_of(names: Iterable[str]) -> dict[str, SeriesStyle]:
    """The styles of mixes of these names, in the order in which they come first."""
    return {
        name: SeriesStyle(style.COLOURS[place % len(style.COLOURS)], style.MARKERS[place % len(style.MARKERS)])
        for place, name in enumerate(dict.fromkeys(names))
    }


def drawn_estimate(found: Estimate, verdict: Verdict, smallest: float, largest: float) -> Estimate | None:
    """Value and ends of a bar for a transition tested from ``smallest`` to ``largest``; an end is None if it is open.
    None for a verdict without a size."""
    if verdict in NO_SIZE:
        return None
    if verdict is Verdict.ABOVE:
        return Estimate(None, largest, None)
    if verdict is Verdict.BELOW:
        return Estimate(None, None, smallest)
    return Estimate(found.value if verdict is Verdict.FOUND else None, found.low, found.high)


def draw_interval(
    axes: Axes, found: Estimate, height: float, colour: str, span: tuple[float, float], marker: str = "o"
) -> None:
    """A bar between the known ends, dotted to an arrow at the edge of ``span`` where an end is open. The value is a
    marker, hollow if both ends are open."""
    known = [end for end in (found.low, found.high) if end is not None]
    if len(known) == 2:
        axes.plot(known, [height] * 2, color=colour, linewidth=2.2, solid_capstyle="butt", zorder=2)
    for end, edge, far, arrow in ((found.low, span[0], span[1], "<"), (found.high, span[1], span[0], ">")):
        if end is not None:
            axes.plot(end, height, marker="|", color=colour, markersize=8, markeredgewidth=1.6, zorder=3)
            continue
        start = known[0] if known else far
        axes.plot([start, edge], [height] * 2, color=colour, linewidth=1.8, linestyle=(0, (1, 1)), zorder=2)
        axes.plot(edge, height, marker=arrow, color=colour, markersize=6, clip_on=False, zorder=3)
    if found.value is not None:
        inside = colour if known else "white"
        axes.plot(*(found.value, height), marker=marker, color=colour, markerfacecolor=inside, markersize=6.5, zorder=4)


@dataclass(frozen=True)
class Ratio:
    """A row for a decided comparison: the two series, and the comparison in words."""

    baseline: Series
    mix: Series
    words: str


Row = Series | Ratio


def rows(answer: Answer, series: Sequence[Series], *, ratios: bool) -> list[Row]:
    """The rows of a figure of these series; with ``ratios``, of a series a mix, a row for each decided comparison."""
    found: list[Row] = list(series)
    if ratios:
        drawn = {mix.mix: each for mix, each in zip(answer.mixes, series, strict=True)}
        for mix in answer.mixes:
            if mix.comparison is not None and mix.comparison.decided is not None:
                found.append(Ratio(drawn[answer.baseline_of(mix)], drawn[mix.mix], compared_words(answer, mix)))
    return found


def height_in(shown: Sequence[Row], *, narrow: bool) -> float:
    """Height of the panel in inches."""
    return EDGES_IN + (NARROW_ROW_IN if narrow else ROW_IN) * len(shown)


def draw_rows(axes: Axes, shown: Sequence[Row], answer: Answer, span: tuple[float, float], *, narrow: bool) -> None:
    """Draw all rows into a panel whose axis of sizes is logarithmic. Words stand to the right of a row, in a narrow
    figure over its bar."""
    for place, row in enumerate(shown):
        if isinstance(row, Ratio):
            _draw_ratio(axes, row, answer, place)
            text = row.words
        else:
            found, (smallest, largest) = row.transition, answer.tested(row.transition)
            _draw_posterior(axes, row, place)
            bar = drawn_estimate(found.relative, found.verdict, smallest.size, largest.size)
            if bar is not None and found.points:
                draw_interval(axes, bar, place, row.colour, span, row.marker)
            text = size_words(answer, found)
        axes.annotate(
            text,
            (1.0, place - ABOVE) if narrow else (OUTSIDE, place),
            xycoords=("axes fraction", "data"),
            va="center",
            ha="right" if narrow else "left",
            fontsize=style.SMALL + 0.5,
            color=style.INK,
        )
    axes.set_ylim(len(shown) - 0.4, -0.75 if narrow else -0.55)
    axes.set_yticks(range(len(shown)), [row_name(row, narrow=narrow) for row in shown])
    axes.set_xlabel(
        answer.size_label
        if narrow
        else f"{answer.size_label}: transition at {LEVEL:.0%} of the asymptote with its {CONFIDENCE:.0%} "
        "interval (shade: posterior)"
    )
    style.dress(axes, spines=("bottom",))
    axes.tick_params(axis="y", length=0, labelsize=style.TEXT)


def row_name(row: Row, *, narrow: bool) -> str:
    """The name of a row on as many lines as it takes."""
    text = f"{row.mix.label} vs\N{NO-BREAK SPACE}{row.baseline.label}" if isinstance(row, Ratio) else row.label
    return textwrap.fill(text, NARROW_NAME if narrow else NAME)


def _draw_posterior(axes: Axes, series: Series, row: int) -> None:
    """The posterior density in ln size as a shade around the row; of a transition outside the tested sizes only the end
    within them would be seen."""
    found = series.transition
    beyond = found.verdict in (Verdict.ABOVE, Verdict.BELOW)
    if found.density is None or beyond or max(found.density.weights) <= 0:
        return
    sizes, weights = np.array(found.density.sizes), np.array(found.density.weights)
    height = SHADE * weights / weights.max()
    shown = height > 0.01 * SHADE
    axes.fill_between(
        sizes, row - height, row + height, where=shown, color=series.colour, alpha=0.16, linewidth=0, zorder=1
    )


def _draw_ratio(axes: Axes, row: Ratio, answer: Answer, place: int) -> None:
    """An arrow from the baseline's transition to the mix's, if both are known."""
    start, end = (_place(each.transition, answer) for each in (row.baseline, row.mix))
    if start is not None and end is not None and start != end:
        arrow = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "mutation_scale": 12, "linewidth": 1.8}
        axes.annotate("", xy=(end, place), xytext=(start, place), arrowprops={"color": row.mix.colour, **arrow})
        axes.plot(start, place, marker="|", color=row.mix.colour, markersize=8, markeredgewidth=1.6, zorder=3)


def _place(found: Transition, answer: Answer) -> float | None:
    """The transition, or the side of it that is known."""
    if found.relative.value is not None:
        return found.relative.value
    smallest, largest = answer.tested(found)
    if found.verdict is Verdict.ABOVE:
        return float(largest.size)
    return float(smallest.size) if found.verdict is Verdict.BELOW else None
