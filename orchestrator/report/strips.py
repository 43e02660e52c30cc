"""Below the curves, a row a transition: its interval, its posterior, how many seeds learned at every size; and a row a
mix for what it saves, as an arrow from the baseline's transition to its own."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from orchestrator.report import style, wording
from orchestrator.report.answer import Answer
from orchestrator.report.looks import Series
from orchestrator.report.saying import size_words
from orchestrator.transition.types import LEVEL, Synergy, Transition, Verdict

EDGES_IN = 0.12
"""Inches that the panel needs besides its rows."""
COUNT_GAP = 0.05
"""The least distance between counts of one height, as a share of the axis (of ln size)."""
BESIDE = 1.03
"""Where words begin beside the panel, in its widths: past the arrow of a side that is open."""
NAME, NARROW_NAME = 22, 14
"""Characters of a line of a row's name; the second in a narrow figure."""
BESIDE_NAME = 20
"""Characters of a line of what a ratio says beside the panel."""


@dataclass(frozen=True)
class Form:
    """How a row is laid out: its height in inches, and in shares of that half the height of the highest posterior, how
    far below the bar counts stand (each at the first height with room for it) and how far above it its words, None
    where they stand beside the panel."""

    row_in: float
    shade: float
    counts: tuple[float, ...]
    words: float | None


WIDE = Form(0.46, 0.26, (0.4, 0.6), None)
NARROW = Form(0.74, 0.17, (0.27, 0.42, 0.57), 0.3)


def form(width_in: float) -> Form:
    """The rows of a figure so wide."""
    return NARROW if width_in < style.NARROW_IN else WIDE


@dataclass(frozen=True)
class Ratio:
    """What the mix of one series saves against the baseline's, as a row of its own."""

    baseline: Series
    mix: Series
    found: Synergy


Row = Series | Ratio


def rows(answer: Answer, series: Sequence[Series], *, ratios: bool) -> list[Row]:
    """The rows of a figure of these series; with ``ratios``, of a series a mix, what each mix saves as well."""
    found: list[Row] = list(series)
    if ratios:
        drawn = {mix.mix: each for mix, each in zip(answer.mixes, series, strict=True)}
        for mix in answer.mixes:
            if mix.synergy_total is not None:
                found.append(Ratio(drawn[answer.baseline_of(mix)], drawn[mix.mix], mix.synergy_total))
    return found


def height_in(shown: Sequence[Row], width_in: float) -> float:
    """Inches that the panel takes in a figure so wide."""
    return EDGES_IN + form(width_in).row_in * len(shown)


def draw(
    axes: Axes, shown: Sequence[Row], answer: Answer, span: tuple[float, float], width_in: float, room_in: float
) -> None:
    """Draw all rows into a panel whose axis of sizes is logarithmic. In a narrow figure what a row says stands over
    its bar, else beside it. ``room_in`` is the width of a figure of short names that leaves its panel as much."""
    laid, narrow = form(width_in), width_in < style.NARROW_IN
    gap = COUNT_GAP * style.WIDTH_IN / room_in * math.log(span[1] / span[0])
    for place, row in enumerate(shown):
        if isinstance(row, Ratio):
            _draw_ratio(axes, row, answer, place)
            said = wording.saving(row.found)
            said = textwrap.fill(said, BESIDE_NAME) if row.found.decided and not narrow else said
        else:
            _draw_posterior(axes, row, place, laid.shade)
            _draw_transition(axes, row, answer, place, span)
            _draw_counts(axes, row, place, gap, laid.counts)
            said = size_words(answer, row.transition)
        inside = isinstance(row, Ratio) and not row.found.decided and not narrow
        _say(axes, said, place, laid.words, inside=inside)
    axes.set_ylim(len(shown) - 0.3, -0.55)
    axes.set_yticks(range(len(shown)), [name(row, narrow=narrow) for row in shown])
    what = f"transition at {LEVEL:.0%} of the asymptote, {answer.confidence:.0%} interval, posterior shaded"
    explained = f"   ({what};\nbelow each bar: seeds that {answer.words.learned} / seeds tried)"
    axes.set_xlabel(answer.size_axis + ("" if narrow else explained))
    style.dress(axes, spines=("bottom",))
    axes.tick_params(axis="y", length=0, labelsize=style.TEXT)
    for tick, row in zip(axes.get_yticklabels(), shown, strict=True):
        tick.set_color(row.mix.colour if isinstance(row, Ratio) else row.colour)


def name(row: Row, *, narrow: bool) -> str:
    """What a row is called, on as many lines as that takes."""
    if isinstance(row, Ratio):
        return "ratio" if narrow else textwrap.fill(f"{row.mix.label} vs\N{NO-BREAK SPACE}{row.baseline.label}", NAME)
    return textwrap.fill(row.label, NARROW_NAME if narrow else NAME)


def ends(found: Transition, smallest: float, largest: float) -> tuple[float | None, float | None]:
    """Where the bar of a transition starts and ends; censored sides end at the last size tested."""
    if found.verdict in wording.NO_SIZE or not found.points:
        return None, None
    if found.verdict is Verdict.ABOVE:
        return largest, largest
    if found.verdict is Verdict.BELOW:
        return smallest, smallest
    return found.relative.low or smallest, found.relative.high or largest


def _draw_transition(axes: Axes, series: Series, answer: Answer, row: int, span: tuple[float, float]) -> None:
    """The transition with its interval, arrows where a side is censored."""
    found = series.transition
    smallest, largest = answer.tested(found)
    low, high = ends(found, smallest.size, largest.size)
    if low is not None and high is not None:
        axes.plot([low, high], [row, row], color=series.colour, linewidth=2.2, solid_capstyle="butt", zorder=2)
        for end, known, outside, arrow in (
            (low, found.relative.low, span[0], "<"),
            (high, found.relative.high, span[1], ">"),
        ):
            if known is not None:
                axes.plot(end, row, marker="|", color=series.colour, markersize=8, markeredgewidth=1.6, zorder=3)
            else:
                axes.plot([end, outside], [row, row], color=series.colour, linewidth=2.2, linestyle=(0, (1, 1)))
                axes.plot(outside, row, marker=arrow, color=series.colour, markersize=7, clip_on=False, zorder=3)
    if found.verdict is Verdict.FOUND and found.relative.value is not None:
        axes.plot(found.relative.value, row, marker=series.marker, color=series.colour, markersize=6.5, zorder=4)


def _draw_posterior(axes: Axes, series: Series, row: int, most: float) -> None:
    """Where the transition may lie: the height of the shade, at ``most`` rows, is the posterior density in ln size."""
    found = series.transition
    if found.density is None or found.verdict is Verdict.PLATEAU or max(found.density.weights) <= 0:
        return
    sizes, weights = np.array(found.density.sizes), np.array(found.density.weights)
    height = most * weights / weights.max()
    look: dict[str, Any] = {"color": series.colour, "alpha": 0.16, "linewidth": 0, "zorder": 1}
    axes.fill_between(sizes, row - height, row + height, where=height > 0.01 * most, **look)


def _draw_counts(axes: Axes, series: Series, row: int, gap: float, heights: Sequence[float]) -> None:
    """At every size tested how many of the seeds tried learned; at each of the ``heights`` two stand no closer than
    ``gap`` in ln size, unless there are too many sizes for that."""
    last = [-math.inf] * len(heights)
    for share in series.transition.shares:
        place = math.log(share.size)
        free = [level for level, end in enumerate(last) if place - end >= gap]
        level = free[0] if free else int(np.argmin(last))
        last[level] = place
        said = f"{share.learned}/{share.tried}"
        colour = style.GREY if share.learned == 0 else series.colour
        axes.text(
            *(share.size, row + heights[level], said), ha="center", va="center", fontsize=style.SMALL, color=colour
        )


def _draw_ratio(axes: Axes, row: Ratio, answer: Answer, place: int) -> None:
    """An arrow from the baseline's transition to the mix's, where it is decided that one is smaller, and both are
    known."""
    start, end = (_place(each.transition, answer) for each in (row.baseline, row.mix))
    if row.found.decided and start is not None and end is not None and start != end:
        arrow = {"arrowstyle": "-|>", "shrinkA": 0, "shrinkB": 0, "mutation_scale": 12, "linewidth": 1.8}
        axes.annotate("", xy=(end, place), xytext=(start, place), arrowprops={"color": row.mix.colour, **arrow})
        axes.plot(start, place, marker="|", color=row.mix.colour, markersize=8, markeredgewidth=1.6, zorder=3)


def _place(found: Transition, answer: Answer) -> float | None:
    """The transition, or the side of it that is known."""
    if found.relative.value is not None:
        return found.relative.value
    smallest, largest = answer.tested(found)
    if found.verdict is Verdict.ABOVE or (found.verdict is Verdict.PLATEAU and found.relative.low is not None):
        return float(largest.size)
    return float(smallest.size) if found.verdict is Verdict.BELOW else None


def _say(axes: Axes, words: str, row: int, above: float | None, *, inside: bool) -> None:
    """What a row says, beside it or so far above its bar; ``inside`` the panel where nothing else is drawn there."""
    axes.annotate(
        words,
        (0.5, row) if inside else (BESIDE, row) if above is None else (1.0, row - above),
        xycoords=("axes fraction", "data"),
        va="center",
        ha="center" if inside else "left" if above is None else "right",
        fontsize=style.SMALL + 0.5,
        color=style.INK,
    )
