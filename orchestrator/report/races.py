"""Races: the ratio by which the target arrives sooner than its rivals, paired by graph and seed, and its picture.

A run that holds a race has the measures ``spent_NAME`` and ``arrived_NAME`` of each method. The ratio of a pair is
known if both arrived, and bounded on one side if one had not when the race ended. The median over pairs needs no more.
Its interval is the sign test's, between order statistics of the bounds (Conover 1999, section 3.2), and holds its
confidence whatever the ratios' distribution. No mean is taken of numbers that a budget has cut short.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from orchestrator.home.sweeps import RunRecord
from orchestrator.report.answer import CONFIDENCE
from orchestrator.report.figures import style
from orchestrator.space.evidence import stands_for_its_size
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import Estimate

SPENT, SECONDS, ARRIVED, GAP = "spent_", "seconds_", "arrived_", "gap_"
HEIGHT_IN = 2.8
SMALLEST = 1e-12
"""Gaps below it are drawn there."""


@dataclass(frozen=True)
class Bounds:
    """A positive number between ``low`` and ``high``; they are equal if it is known."""

    low: float
    high: float

    def over(self, other: Bounds) -> Bounds:
        """The ratio to another number that is greater than 0."""
        if math.isinf(self.high) and math.isinf(other.high):
            return Bounds(0.0, math.inf)
        return Bounds(self.low / other.high, self.high / other.low)


@dataclass(frozen=True)
class SpeedUp:
    """The ratio of the best rival's need to the target's in a mix, in units of the race and in seconds: the median over
    ``pairs`` graphs of one size."""

    mix: str
    size: int
    pairs: int
    spent: Estimate
    seconds: Estimate


def speed_ups(spec: SweepSpec, runs: Sequence[RunRecord]) -> list[SpeedUp]:
    """Every mix and size that was raced, in the order of the space. ``[]`` for other families."""
    found = []
    for mix in spec.mixes:
        rivals = [task for task in mix.tasks if task != spec.target]
        for size in spec.sizes:
            here = [run.outcome.measures for run in races(runs, mix.name) if run.config.size == size]
            if here and rivals:
                spent, seconds = (
                    median([_ratio(measures, kind, spec.target, rivals) for measures in here], CONFIDENCE)
                    for kind in (SPENT, SECONDS)
                )
                found.append(SpeedUp(mix.name, size, len(here), spent, seconds))
    return found


def races(runs: Sequence[RunRecord], mix: str) -> list[RunRecord]:
    """The runs of a mix that hold a race, with its own budget."""
    return [
        run
        for run in runs
        if run.config.label == mix
        and stands_for_its_size(run.config, run.outcome)
        and all(f"{SPENT}{task}" in run.outcome.measures for task in run.config.mix.tasks)
    ]


def median(ratios: Sequence[Bounds], confidence: float) -> Estimate:
    """The median of bounded numbers, with an interval that holds it with ``confidence`` in (0, 1).

    ``value`` is None if the bounds leave it open, ``low`` or ``high`` if they or too few numbers leave that side open.
    """
    lows, highs = sorted(one.low for one in ratios), sorted(one.high for one in ratios)
    least, most = _middle(lows), _middle(highs)
    from scipy.stats import binom

    # The largest k for which the k-th smallest and the k-th largest hold the median that often.
    k = int(binom.ppf((1 - confidence) / 2, len(ratios), 0.5))
    k = k if binom.cdf(k - 1, len(ratios), 0.5) <= (1 - confidence) / 2 else k - 1
    low, high = (lows[k - 1], highs[-k]) if k > 0 else (0.0, math.inf)
    return Estimate(
        least if math.isclose(least, most) else None, low if low > 0 else None, high if math.isfinite(high) else None
    )


def _middle(ordered: Sequence[float]) -> float:
    """The median; of an even number the geometric mean of the middle two, so that a ratio and its inverse agree."""
    first, second = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return first if first == second else math.sqrt(first * second)


def _ratio(measures: Mapping[str, float], kind: str, target: str, rivals: Sequence[str]) -> Bounds:
    """The best rival's over the target's, in one race."""
    theirs = [_bounds(measures, kind, rival) for rival in rivals]
    best = Bounds(min(one.low for one in theirs), min(one.high for one in theirs))
    return best.over(_bounds(measures, kind, target))


def _bounds(measures: Mapping[str, float], kind: str, method: str) -> Bounds:
    """A method's need: its spending, or more than that if it had not arrived."""
    spent = measures[f"{kind}{method}"]
    return Bounds(spent, spent if measures[f"{ARRIVED}{method}"] else math.inf)


def race_figure(spec: SweepSpec, runs: Sequence[RunRecord], found: Sequence[SpeedUp], title: str = "") -> Figure | None:
    """Left the race with most rivals, on its largest graphs: losses against spending, medians over seeds, and a band
    from the least to the largest. Right the speed-up of the target against size, for every mix. None without races."""
    if not found:
        return None
    figure = style.new_figure(HEIGHT_IN + style.title_in(title))
    losses, ratios = figure.subplots(1, 2)
    fullest = max({one.mix for one in found}, key=lambda mix: len(spec.mix_named[mix].tasks))
    largest = max(one.size for one in found if one.mix == fullest)
    _draw_losses(losses, [run for run in races(runs, fullest) if run.config.size == largest])
    losses.set_title(f"{fullest}, {largest} {spec.size_axis}", fontsize=style.TEXT, loc="left", color=style.INK)
    for place, mix in enumerate(spec.mixes):
        _draw_speed_ups(ratios, [one for one in found if one.mix == mix.name], place, mix.name)
    ratios.axhline(1.0, color=style.GREY, linewidth=0.8, linestyle=(0, (4, 3)))
    ratios.set_xscale("log")
    ratios.set_yscale("log")
    sizes = sorted({one.size for one in found})
    ratios.set_xticks(sizes[:: math.ceil(len(sizes) / 5)], minor=False)
    ratios.xaxis.set_minor_locator(NullLocator())
    ratios.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    for set_formatter in (ratios.yaxis.set_major_formatter, ratios.yaxis.set_minor_formatter):
        set_formatter(FuncFormatter(lambda value, _: f"{value:g}"))  # A speed-up seldom spans a decade.
    ratios.set_xlabel(spec.size_axis)
    ratios.set_ylabel(f"times less that {spec.target} spends")
    for axes in (losses, ratios):
        style.dress(axes)
        axes.legend(frameon=False, fontsize=style.SMALL, loc="best")
    if title:
        style.title(figure, title)
    return figure


def _draw_losses(axes: Axes, runs: Sequence[RunRecord]) -> None:
    for place, method in enumerate(runs[0].config.mix.tasks):
        tracks = [[(point.step, point.measures[f"{GAP}{method}"]) for point in run.outcome.curve] for run in runs]
        at = sorted({x for track in tracks for x, _ in track})
        gaps = np.array([[_gap_at(track, x) for x in at] for track in tracks])
        colour = style.COLOURS[place % len(style.COLOURS)]
        axes.plot([0, *at], [1.0, *np.median(gaps, axis=0)], color=colour, linewidth=1.3, label=method)
        axes.fill_between(at, gaps.min(axis=0), gaps.max(axis=0), color=colour, alpha=0.15, linewidth=0)
    axes.set_yscale("log")
    axes.set_ylim(top=10)
    axes.set_xlabel("spent")
    axes.set_ylabel("loss above the solution's, of the first")


def _gap_at(track: Sequence[tuple[float, float]], at: float) -> float:
    """The last gap known: after the end of a race, the one it ended with."""
    known = [gap for x, gap in track if x <= at]
    return min(max(known[-1], SMALLEST), 10.0) if known else 1.0


def _draw_speed_ups(axes: Axes, found: Sequence[SpeedUp], place: int, label: str) -> None:
    """A median as a point, its interval as a bar; a triangle points to an open side."""
    colour, marker = style.COLOURS[place % len(style.COLOURS)], style.MARKERS[place % len(style.MARKERS)]
    known = [(one.size, one.spent.value) for one in found if one.spent.value is not None]
    look: dict[str, Any] = {"color": colour, "markersize": 4, "linewidth": 1.0}
    axes.plot([size for size, _ in known], [value for _, value in known], marker=marker, label=label, **look)
    for one in found:
        low, high = one.spent.low, one.spent.high
        if low is not None and high is not None:
            axes.vlines(one.size, low, high, color=colour, linewidth=0.9, alpha=0.6)
        elif low is not None:
            axes.plot([one.size], [low], color=colour, marker=6, markersize=4, alpha=0.6)
        elif high is not None:
            axes.plot([one.size], [high], color=colour, marker=7, markersize=4, alpha=0.6)
