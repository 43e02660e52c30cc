"""What probes found against size, a small panel for each number, so that mixes can be told apart at a glance."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from orchestrator.report import style
from orchestrator.report.answer import Answer
from orchestrator.report.looks import looks
from orchestrator.report.probes import CHANCE, PREFIX
from orchestrator.space.evidence import stands_for_its_size
from orchestrator.store.probed import numbers_of
from orchestrator.store.records import RunRecord

COLUMNS, MOST = 4, 36
"""Panels in a row, and at most (:func:`shared_out`); the table has all numbers."""
PANEL_IN, EDGES_IN = 1.5, 0.75


def probe_figure(answer: Answer, runs: Sequence[RunRecord], title: str = "") -> Figure | None:
    """A point for each run, a line through the means over seeds, a panel for each number. None without any."""
    found = [
        (run, numbers)
        for run in runs
        if stands_for_its_size(run.config, run.outcome) and (numbers := numbers_of(run.directory))
    ]
    # Probabilities of other numbers are left to the table.
    names = shared_out({name for _, numbers in found for name in numbers if not name.endswith(CHANCE)})
    if not names:
        return None
    rows = math.ceil(len(names) / COLUMNS)
    figure = style.new_figure(PANEL_IN * rows + EDGES_IN)
    grid = figure.subplots(rows, COLUMNS, squeeze=False)
    for axes in grid.flat[len(names) :]:
        axes.set_axis_off()
    for axes, name in zip(grid.flat, names, strict=False):
        _draw(axes, answer, [(run, numbers[name]) for run, numbers in found if name in numbers])
        probe, _, number = name.removeprefix(PREFIX).partition("/")
        axes.set_title(f"{probe}\n{number}", fontsize=style.SMALL, loc="left", color=style.INK, pad=3)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=style.SMALL)
    figure.supxlabel(answer.size_axis, fontsize=style.TEXT, color=style.INK)
    if title:
        style.title(figure, title)
    return figure


def shared_out(names: Collection[str]) -> list[str]:
    """Those of the numbers that get a panel, in their order: every probe's first one, every probe's second, and so on,
    so that a probe with many numbers leaves room for the others."""
    ranked = []
    for _, its_names in groupby(sorted(names), key=lambda name: name.split("/")[1]):
        ranked += [(rank, name) for rank, name in enumerate(its_names)]
    return sorted(name for _, name in sorted(ranked)[:MOST])


def _draw(axes: Axes, answer: Answer, values: Sequence[tuple[RunRecord, float]]) -> None:
    known = looks(answer)
    for mix in answer.mixes:
        mine = [(run.config.size, value) for run, value in values if run.config.label == mix.mix]
        sizes = sorted({size for size, _ in mine})
        means = [_mean([value for size, value in mine if size == each]) for each in sizes]
        colour, marker = known[mix.mix].colour, known[mix.mix].marker
        axes.plot(sizes, means, color=colour, linewidth=1.1, marker=marker, markersize=2.5, label=mix.mix)
        axes.scatter([size for size, _ in mine], [value for _, value in mine], s=4, color=colour, alpha=0.4)
    shown = sorted({run.config.size for run, _ in values})
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator([shown[0], shown[-1]] if len(shown) > 1 else shown))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.tick_params(labelsize=style.SMALL)
    style.dress(axes)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
