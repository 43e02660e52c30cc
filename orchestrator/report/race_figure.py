"""Races in pictures: the loss of every method against what it spent and its seconds, and how many times sooner the
target arrives."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from orchestrator.report import style
from orchestrator.report.speedup import SECONDS, SpeedUp, races
from orchestrator.space.spec import SweepSpec
from orchestrator.store.records import RunRecord
from orchestrator.transition.types import Estimate

GAP = "gap_"
HEIGHT_IN = 5.6
EDGES_IN, GAPS_IN = (0.62, 0.08, 0.3, 0.45), (0.62, 0.72)
"""Inches: left of the panels, right of, above (a title apart) and below them; between them, across and down."""
SMALLEST = 1e-12
"""Gaps below it are drawn there."""


def race_figure(spec: SweepSpec, runs: Sequence[RunRecord], found: Sequence[SpeedUp], title: str = "") -> Figure | None:
    """Above the race with most rivals, on its largest graphs: medians over seeds, and a band from the least to the
    largest, against what was spent and against seconds, where runs tell these. Below the speed-up of the target against
    size, for every mix, in what was spent and in seconds. None where there are no races."""
    if not found:
        return None
    figure = style.fixed_figure(HEIGHT_IN + style.title_in(title))
    (spent, seconds), (left, right) = _four(figure, style.title_in(title))
    fullest = max({one.mix for one in found}, key=lambda mix: len(spec.mix_named[mix].tasks))
    largest = max(one.size for one in found if one.mix == fullest)
    shown = [run for run in races(runs, fullest) if run.config.size == largest]
    _draw_losses(spent, shown, "spent")
    spent.set_title(f"{fullest}, {largest} {spec.size_axis}", fontsize=style.TEXT, loc="left", color=style.INK)
    spent.legend(frameon=False, fontsize=style.SMALL, loc="best")
    if all(_tells_seconds(run) for run in shown):
        _draw_losses(seconds, shown, "seconds")
    else:
        seconds.set_visible(False)
    for place, mix in enumerate(spec.mixes):
        here = [one for one in found if one.mix == mix.name]
        _draw_speed_ups(left, [(one.size, one.spent) for one in here], place, mix.name)
        _draw_speed_ups(right, [(one.size, one.seconds) for one in here], place)
    sizes = sorted({one.size for one in found})
    _finish(left, spec, sizes, f"times less that {spec.target} spends")
    left.legend(frameon=False, fontsize=style.SMALL, loc="best")
    _finish(right, spec, sizes, f"times fewer seconds for {spec.target}")
    if title:
        style.title(figure, title)
    return figure


def _four(figure: Figure, title_in: float) -> list[list[Axes]]:
    """Two rows of two panels, with room for what is written beside them."""
    width, height = figure.get_size_inches()
    (left, right, above, below), (across, down) = EDGES_IN, GAPS_IN
    wide, high = (width - left - right - across) / 2, (height - title_in - above - below - down) / 2
    return [
        [
            style.panel(figure, left + (wide + across) * x, title_in + above + (high + down) * y, wide, high)
            for x in (0, 1)
        ]
        for y in (0, 1)
    ]


def _draw_losses(axes: Axes, runs: Sequence[RunRecord], against: str) -> None:
    """``against`` is ``spent`` or ``seconds``; the first has the labels."""
    for place, method in enumerate(runs[0].config.mix.tasks):
        tracks = [_track(run, method, against) for run in runs]
        at = sorted({x for track in tracks for x, _ in track})
        gaps = np.array([[_gap_at(track, x) for x in at] for track in tracks])
        colour = style.COLOURS[place % len(style.COLOURS)]
        label = method if against == "spent" else None
        axes.plot([0, *at], [1.0, *np.median(gaps, axis=0)], color=colour, linewidth=1.3, label=label)
        axes.fill_between(at, gaps.min(axis=0), gaps.max(axis=0), color=colour, alpha=0.15, linewidth=0)
    axes.set_yscale("log")
    axes.set_ylim(top=10)
    axes.set_xlabel(against)
    axes.set_ylabel("loss above the solution's, of the first")
    style.dress(axes)


def _track(run: RunRecord, method: str, against: str) -> list[tuple[float, float]]:
    """What a method had spent, or its seconds, and its gap, at every point of a curve."""
    return [
        (point.step if against == "spent" else point.measures[f"{SECONDS}{method}"], point.measures[f"{GAP}{method}"])
        for point in run.outcome.curve
    ]


def _tells_seconds(run: RunRecord) -> bool:
    """Whether its curve has seconds; those of an earlier version have none."""
    return all(f"{SECONDS}{method}" in point.measures for point in run.outcome.curve for method in run.config.mix.tasks)


def _gap_at(track: Sequence[tuple[float, float]], at: float) -> float:
    """The last gap known: where a race has ended, the one it ended with."""
    known = [gap for x, gap in track if x <= at]
    return min(max(known[-1], SMALLEST), 10.0) if known else 1.0


def _draw_speed_ups(axes: Axes, found: Sequence[tuple[int, Estimate]], place: int, label: str | None = None) -> None:
    """A median as a point, its interval as a bar; a triangle points to the side where it is open."""
    colour, marker = style.COLOURS[place % len(style.COLOURS)], style.MARKERS[place % len(style.MARKERS)]
    known = [(size, one.value) for size, one in found if one.value is not None]
    if found:
        axes.plot(
            [size for size, _ in known],
            [value for _, value in known],
            color=colour,
            marker=marker,
            markersize=4,
            linewidth=1.0,
            label=label,
        )
    for size, one in found:
        low, high = one.low, one.high
        if low is not None and high is not None:
            axes.vlines(size, low, high, color=colour, linewidth=0.9, alpha=0.6)
        elif low is not None:
            axes.plot([size], [low], color=colour, marker=6, markersize=4, alpha=0.6)
        elif high is not None:
            axes.plot([size], [high], color=colour, marker=7, markersize=4, alpha=0.6)


def _finish(axes: Axes, spec: SweepSpec, shown: Sequence[int], label: str) -> None:
    axes.axhline(1.0, color=style.GREY, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.set_xscale("log")
    axes.set_yscale("log")
    every = math.ceil(len(shown) / 5)
    axes.xaxis.set_major_locator(FixedLocator(shown[::every]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    # A speed-up seldom spans a decade: the numbers between are labelled, too.
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.tick_params(axis="y", which="both", labelsize=style.SMALL)
    axes.set_xlabel(spec.size_axis)
    axes.set_ylabel(label)
    style.dress(axes)
