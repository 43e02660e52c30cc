"""Accuracy against size: every run, the fitted curves, and where the transitions lie with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from orchestrator.report import style, wording
from orchestrator.report.answer import Answer, Count, TaskAnswer
from orchestrator.report.similarity import similarity_figure
from orchestrator.report.style import save, save_both
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import LEVEL, Transition, Verdict

__all__ = ["curve_figure", "save", "save_both", "similarity_figure", "transitions_figure"]

TICK_GAP = 0.055
"""The least distance between labelled sizes, as a share of the axis (of ln size)."""
CURVES_IN, ROW_IN, STRIP_IN = 3.2, 0.27, 0.12
"""Heights in inches: of the curves' panel, of one transition below it, and of what the lower panel needs besides."""
EDGE = 0.06
"""Room left of the smallest and right of the largest size, as a share of the axis (of ln size)."""


@dataclass(frozen=True)
class Series:
    """One curve of a figure."""

    label: str
    answer: TaskAnswer
    colour: str
    marker: str

    @property
    def transition(self) -> Transition:
        return self.answer.transition


def transitions_figure(spec: SweepSpec, answer: Answer) -> Figure:
    """Accuracy of the target against size for every mix, one colour each."""
    series = [series_of(mix.mix, mix.target, place) for place, mix in enumerate(answer.mixes)]
    return _figure(answer, series, spec.question, f"test accuracy of {answer.target}")


def curve_figure(spec: SweepSpec, answer: Answer, mix: str) -> Figure:
    """Accuracy of every task of one mix, the target in the mix's own colour. ``KeyError`` for an unknown mix."""
    found = answer.mix(mix)
    own = [each.mix for each in answer.mixes].index(mix)
    others = [place for place in range(len(style.COLOURS)) if place != own % len(style.COLOURS)]
    places = [own, *(others[place % len(others)] for place in range(len(found.tasks) - 1))]
    series = [series_of(task.task, task, place) for task, place in zip(found.tasks, places, strict=True)]
    return _figure(answer, series, f"{spec.name}: every task of {mix}", "test accuracy")


def series_of(label: str, answer: TaskAnswer, place: int) -> Series:
    """The curve at a place of the figure, in the colour and with the marker of that place."""
    colour = style.COLOURS[place % len(style.COLOURS)]
    return Series(label, answer, colour, style.MARKERS[place % len(style.MARKERS)])


def _figure(answer: Answer, series: Sequence[Series], title: str, y_label: str) -> Figure:
    strip = STRIP_IN + ROW_IN * len(series)
    figure = style.new_figure(CURVES_IN + strip + 1.1)
    curves, strips = figure.subplots(2, 1, sharex=True, height_ratios=(CURVES_IN, strip))
    span = size_span(answer)
    for row, each in enumerate(series):
        draw_runs(curves, each, answer, span)
        _draw_transition(strips, each, answer, row, span)
    _draw_floors(curves, series)
    _finish_curves(curves, answer, span, y_label)
    _finish_strips(strips, answer, series)
    style.title(figure, title)
    return figure


def size_span(answer: Answer) -> tuple[float, float]:
    """The ends of the size axis, a little outside the sizes on offer."""
    smallest, largest = answer.counts[0].size, answer.counts[-1].size
    room = (largest / smallest) ** EDGE if largest > smallest else 1.5
    return smallest / room, largest * room


def draw_runs(axes: Axes, series: Series, answer: Answer, span: tuple[float, float]) -> None:
    """Every run as a point; through them the fitted curve, or the means at each size where nothing was fitted."""
    found = series.transition
    sizes = [point.size for point in found.points]
    accuracies = [point.accuracy for point in found.points]
    axes.scatter(
        sizes,
        accuracies,
        s=30,
        marker=series.marker,
        facecolors=series.colour + "66",
        edgecolors=series.colour,
        linewidths=0.9,
        zorder=3,
        clip_on=False,
        label=series.label,
    )
    if found.fit is not None:
        low, high = answer.tested(found)
        inside = np.geomspace(low.size, high.size, 200)
        axes.plot(inside, [found.fit.accuracy(size) for size in inside], color=series.colour, linewidth=1.8, zorder=2)
    elif sizes:
        distinct = sorted(set(sizes))
        means = [np.mean([a for s, a in zip(sizes, accuracies, strict=True) if s == size]) for size in distinct]
        axes.plot(distinct, means, color=series.colour, linewidth=1.0, linestyle=(0, (4, 2)), zorder=2)
    if found.verdict is Verdict.FOUND and found.relative.value is not None and found.fit is not None:
        height = found.fit.accuracy(found.relative.value)
        axes.vlines(
            found.relative.value, 0, height, color=series.colour, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1
        )


def _draw_transition(axes: Axes, series: Series, answer: Answer, row: int, span: tuple[float, float]) -> None:
    """One line of the lower panel: the transition with its interval, arrows where a side is censored."""
    found = series.transition
    smallest, largest = answer.tested(found)
    words = wording.estimate(found.relative, smallest.size, largest.size, found.verdict, _asymptote(found))
    low, high = _ends(found, smallest.size, largest.size)
    _draw_posterior(axes, found, row, series.colour)
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
    axes.annotate(
        words,
        (1.015, row),
        xycoords=("axes fraction", "data"),
        va="center",
        fontsize=style.SMALL + 0.5,
        color=style.INK,
    )


def _draw_posterior(axes: Axes, found: Transition, row: int, colour: str) -> None:
    """Where the transition may lie: the height of the shade is the posterior density in ln size."""
    if found.density is None or found.verdict is Verdict.PLATEAU or max(found.density.weights) <= 0:
        return
    sizes, weights = np.array(found.density.sizes), np.array(found.density.weights)
    height = 0.42 * weights / weights.max()
    shown = height > 0.004
    axes.fill_between(sizes, row - height, row + height, where=shown, color=colour, alpha=0.16, linewidth=0, zorder=1)


def _asymptote(found: Transition) -> float | None:
    return found.fit.asymptote if found.fit else None


def _ends(found: Transition, smallest: float, largest: float) -> tuple[float | None, float | None]:
    """Where the bar of a transition starts and ends; censored sides end at the last size tested."""
    if found.verdict in wording.NO_SIZE or not found.points:
        return None, None
    if found.verdict is Verdict.ABOVE:
        return largest, largest
    if found.verdict is Verdict.BELOW:
        return smallest, smallest
    estimate = found.relative
    return estimate.low or smallest, estimate.high or largest


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


def _finish_curves(axes: Axes, answer: Answer, span: tuple[float, float], y_label: str) -> None:
    axes.set_xscale("log")
    axes.set_xlim(*span)
    axes.set_ylim(0, 1.03)
    axes.set_yticks(np.arange(0, 1.01, 0.2))
    axes.grid(axis="y", color=style.FAINT, linewidth=0.5, alpha=0.6)
    axes.set_axisbelow(True)
    axes.set_ylabel(y_label)
    axes.legend(frameon=False, fontsize=style.TEXT, loc="best", handletextpad=0.4, borderaxespad=0.2)
    style.dress(axes)
    counts = labelled_sizes(answer)
    above = axes.secondary_xaxis("top")
    above.xaxis.set_major_locator(FixedLocator([count.size for count in counts]))
    above.xaxis.set_minor_locator(NullLocator())
    above.set_xticklabels([_short(count.total) for count in counts])
    above.set_xlabel(answer.words.parameters, fontsize=style.TEXT, labelpad=4)
    above.tick_params(labelsize=style.SMALL, width=0.6, length=2, colors=style.GREY)
    above.spines["top"].set_visible(False)


def _finish_strips(axes: Axes, answer: Answer, series: Sequence[Series]) -> None:
    counts = labelled_sizes(answer)
    axes.xaxis.set_major_locator(FixedLocator([count.size for count in counts]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticklabels([str(count.size) for count in counts])
    axes.set_ylim(len(series) - 0.4, -0.6)
    axes.set_yticks(range(len(series)), [each.label for each in series])
    what = f"transition at {LEVEL:.0%} of the asymptote, {answer.confidence:.0%} interval, posterior shaded"
    axes.set_xlabel(f"{answer.size_axis}   ({what})")
    style.dress(axes, spines=("bottom",))
    axes.tick_params(axis="y", length=0, labelsize=style.TEXT)
    for tick, each in zip(axes.get_yticklabels(), series, strict=True):
        tick.set_color(each.colour)


def labelled_sizes(answer: Answer) -> list[Count]:
    """The sizes to label: the ends, and between them those that leave room for each other."""
    ends = [answer.counts[0], answer.counts[-1]] if len(answer.counts) > 1 else list(answer.counts)
    gap = TICK_GAP * np.log(ends[-1].size / ends[0].size)
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
