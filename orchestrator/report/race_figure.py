"""Races in pictures: the loss of every method against what it spent, and how many times sooner the target arrives."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from orchestrator.report import style
from orchestrator.report.speedup import SpeedUp, races
from orchestrator.space.spec import SweepSpec
from orchestrator.store.records import RunRecord

GAP = "gap_"
HEIGHT_IN = 3.4
SMALLEST = 1e-12
"""Gaps below it are drawn there."""


def race_figure(spec: SweepSpec, runs: Sequence[RunRecord], found: Sequence[SpeedUp], title: str = "") -> Figure | None:
    """Left the race with most rivals, on its largest graphs: medians over seeds, and a band from the least to the
    largest. Right the speed-up of the target against size, for every mix. None where there are no races."""
    if not found:
        return None
    figure = style.new_figure(HEIGHT_IN)
    left, right = figure.subplots(1, 2)
    fullest = max({one.mix for one in found}, key=lambda mix: len(spec.mix_named[mix].tasks))
    largest = max(one.size for one in found if one.mix == fullest)
    _draw_losses(left, [run for run in races(runs, fullest) if run.config.size == largest])
    left.set_title(f"{fullest}, {largest} {spec.size_axis}", fontsize=style.TEXT, loc="left", color=style.INK)
    for place, mix in enumerate(spec.mixes):
        _draw_speed_ups(right, [one for one in found if one.mix == mix.name], place)
    _finish(right, spec, found)
    if title:
        style.title(figure, title)
    return figure


def _draw_losses(axes: Axes, runs: Sequence[RunRecord]) -> None:
    steps = sorted({point.step for run in runs for point in run.outcome.curve})
    for place, method in enumerate(runs[0].config.mix.tasks):
        gaps = np.array([[_gap_at(run, method, step) for step in steps] for run in runs])
        colour = style.COLOURS[place % len(style.COLOURS)]
        axes.plot([0, *steps], [1.0, *np.median(gaps, axis=0)], color=colour, linewidth=1.3, label=method)
        axes.fill_between(steps, gaps.min(axis=0), gaps.max(axis=0), color=colour, alpha=0.15, linewidth=0)
    axes.set_yscale("log")
    axes.set_ylim(top=10)
    axes.set_xlabel("spent")
    axes.set_ylabel("loss above the solution's, of the first")
    axes.legend(frameon=False, fontsize=style.SMALL, loc="best")
    style.dress(axes)


def _gap_at(run: RunRecord, method: str, step: int) -> float:
    """The last gap known at a step: where a race has ended, the one it ended with."""
    known = [point.measures[f"{GAP}{method}"] for point in run.outcome.curve if point.step <= step]
    return min(max(known[-1], SMALLEST), 10.0) if known else 1.0


def _draw_speed_ups(axes: Axes, found: Sequence[SpeedUp], place: int) -> None:
    """A median as a point, its interval as a bar; a triangle points to the side where it is open."""
    colour, marker = style.COLOURS[place % len(style.COLOURS)], style.MARKERS[place % len(style.MARKERS)]
    known = [one for one in found if one.spent.value is not None]
    if found:
        label = found[0].mix
        axes.plot(
            [one.size for one in known],
            [one.spent.value or math.nan for one in known],
            color=colour,
            marker=marker,
            markersize=4,
            linewidth=1.0,
            label=label,
        )
    for one in found:
        low, high = one.spent.low, one.spent.high
        if low is not None and high is not None:
            axes.vlines(one.size, low, high, color=colour, linewidth=0.9, alpha=0.6)
        elif low is not None:
            axes.plot([one.size], [low], color=colour, marker=6, markersize=4, alpha=0.6)
        elif high is not None:
            axes.plot([one.size], [high], color=colour, marker=7, markersize=4, alpha=0.6)


def _finish(axes: Axes, spec: SweepSpec, found: Sequence[SpeedUp]) -> None:
    shown = sorted({one.size for one in found})
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
    axes.set_ylabel(f"times less that {spec.target} spends")
    axes.legend(frameon=False, fontsize=style.SMALL, loc="best")
    style.dress(axes)
