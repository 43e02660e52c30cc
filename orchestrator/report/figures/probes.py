"""Figures of a probe's numbers against size."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from orchestrator.report.answer import Answer
from orchestrator.report.figures import style
from orchestrator.report.figures.bars import styles_of
from orchestrator.report.figures.transitions import size_span
from orchestrator.report.probed import ProbePoint

COLUMNS = 3
ROW_IN, EDGES_IN = 1.55, 0.55
"""Heights in inches: a row of panels, and the rest of the figure."""
MOST_TICKS = 5


@style.own_style()
def probe_figure(answer: Answer, numbers: Mapping[str, Sequence[ProbePoint]]) -> Figure:
    """Draw a panel per number: a point for each run, hollow if chance explains it, and means over seeds."""
    across = min(COLUMNS, len(numbers))
    down = -(-len(numbers) // across)
    figure = style.new_figure(ROW_IN * down + EDGES_IN)
    grid = figure.subplots(down, across, sharex=True, squeeze=False)
    styles = styles_of(mix.mix for mix in answer.mixes)
    for place, axes in enumerate(grid.flat):
        axes.set_visible(place < len(numbers))
    for axes, (name, points) in zip(grid.flat, numbers.items(), strict=False):
        for mix, (color, marker) in styles.items():
            by_size: dict[int, list[float]] = defaultdict(list)
            for point in points:
                if point.mix == mix:
                    by_size[point.size].append(point.value)
                    fill = "white" if point.is_chance else color
                    axes.plot(point.size, point.value, marker, color=color, markerfacecolor=fill, markersize=3.5)
            means = [(size, sum(values) / len(values)) for size, values in sorted(by_size.items())]
            if means:
                axes.plot(*zip(*means, strict=True), color=color, linewidth=1, label=mix)
        axes.set_title(name, fontsize=style.TEXT, loc="left", color=style.INK)
        style.dress(axes)
    sizes = sorted({point.size for points in numbers.values() for point in points})
    first = grid[0][0]
    first.set_xscale("log")
    first.set_xlim(*size_span(answer))
    first.xaxis.set_major_locator(FixedLocator(sizes[:: -(-len(sizes) // MOST_TICKS)]))
    first.xaxis.set_minor_locator(NullLocator())
    first.xaxis.set_major_formatter(lambda size, _: f"{size:g}")
    for axes in grid[-1]:
        axes.set_xlabel(answer.size_axis)
    first.legend(fontsize=style.SMALL, frameon=False)
    return figure
