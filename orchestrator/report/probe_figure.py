"""What probes found against size, a small panel for each number, so that mixes can be told apart at a glance."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from itertools import groupby

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from orchestrator.report import style
from orchestrator.report.answer import Answer
from orchestrator.report.looks import looks
from orchestrator.report.probes import CHANCE, PREFIX
from orchestrator.space.evidence import stands_for_its_size
from orchestrator.store.probed import numbers_of
from orchestrator.store.records import RunRecord

COLUMNS, MOST = 4, 36
"""Panels in a row, and at most (:func:`shared_out`); the table has all numbers."""
ROW_IN, ABOVE_IN, LEFT_IN, UNDER_IN, BELOW_IN = 1.5, 0.3, 0.44, 0.18, 0.25
"""Inches: the height of a panel with its two lines of title above and its sizes under it, the width of the numbers left
of it, and what the name of the axis needs below all."""
LINE_IN, LETTER_IN, HANDLE_IN = 0.17, 0.062, 0.4
"""Inches: a line of the legend, a character of a name in it, and what stands beside a name."""
EDGE = 0.05
"""Room beside the outermost sizes, as a share of the axis."""


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
    mixes = [mix.mix for mix in answer.mixes]
    beside = max(1, min(COLUMNS, int(style.WIDTH_IN / (HANDLE_IN + LETTER_IN * max(map(len, mixes))))))
    top_in = style.title_in(title) + LINE_IN * (math.ceil(len(mixes) / beside) + 0.5)
    figure = style.fixed_figure(top_in + ROW_IN * math.ceil(len(names) / COLUMNS) + BELOW_IN)
    across_in = style.WIDTH_IN / COLUMNS
    sizes = sorted({run.config.size for run, _ in found})
    for place, name in enumerate(names):
        row, column = divmod(place, COLUMNS)
        left_in, above_in = column * across_in + LEFT_IN, top_in + row * ROW_IN + ABOVE_IN
        axes = style.panel(figure, left_in, above_in, across_in - LEFT_IN - 0.1, ROW_IN - ABOVE_IN - UNDER_IN)
        _draw(axes, answer, [(run, numbers[name]) for run, numbers in found if name in numbers], sizes)
        probe, _, number = name.removeprefix(PREFIX).partition("/")
        axes.set_title(f"{probe}\n{number}", fontsize=style.SMALL, loc="left", color=style.INK, pad=3)
    height_in = figure.get_figheight()
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(),
        loc="upper center",
        bbox_to_anchor=(0.5, 1 - style.title_in(title) / height_in),
        ncols=beside,
        frameon=False,
        fontsize=style.SMALL,
        borderaxespad=0.2,
    )
    figure.supxlabel(answer.size_axis, y=0.05 / height_in, va="bottom", fontsize=style.TEXT, color=style.INK)
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


def _draw(axes: Axes, answer: Answer, values: Sequence[tuple[RunRecord, float]], shown: Sequence[int]) -> None:
    known = looks(answer)
    for mix in answer.mixes:
        mine = [(run.config.size, value) for run, value in values if run.config.label == mix.mix]
        sizes = sorted({size for size, _ in mine})
        means = [_mean([value for size, value in mine if size == each]) for each in sizes]
        colour, marker = known[mix.mix].colour, known[mix.mix].marker
        axes.plot(np.log(sizes), means, color=colour, linewidth=1.1, marker=marker, markersize=2.5, label=mix.mix)
        axes.scatter(np.log([size for size, _ in mine]), [value for _, value in mine], s=4, color=colour, alpha=0.4)
    # Logarithms on a plain axis: a logarithmic one takes ten times as long to make, and only its ends are labelled.
    low, high = np.log(shown[0]), np.log(shown[-1])
    room = EDGE * (high - low) or 1.0
    axes.set_xlim(low - room, high + room)
    ends = [shown[0], shown[-1]] if len(shown) > 1 else shown
    axes.set_xticks(np.log(ends), labels=[str(size) for size in ends])
    axes.yaxis.set_major_locator(MaxNLocator(3))
    style.dress(axes)
    axes.tick_params(labelsize=style.SMALL)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
