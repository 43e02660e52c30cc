"""Learning curves of a sweep's runs."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from orchestrator.home.sweeps import RunRecord
from orchestrator.report.figures import style
from orchestrator.space.evidence import is_evidence
from orchestrator.space.spec import SweepSpec

COLUMNS = 3
ROW_IN, EDGES_IN = 2.2, 0.5
"""Heights in inches: a row of panels, and the rest of the figure."""
MOST_LINES = 200
"""More lines than this are rasterized even in vector images, so that pages stay small."""
COLORS = "plasma"
"""A color map whose steps differ in hue and lightness."""
DARKEST, BRIGHTEST = 0.12, 0.88
"""Range of the color map that is visible on light and dark pages."""
MOST_TICKS = 7


@style.own_style()
def learning_figure(spec: SweepSpec, runs: Sequence[RunRecord], title: str = "") -> Figure:
    """Draw validation accuracy on the target over optimizer steps, colored by size, in a panel per mix."""
    mixes = [mix.name for mix in spec.mixes]
    across = min(COLUMNS, len(mixes))
    down = -(-len(mixes) // across)
    figure = style.new_figure(ROW_IN * down + EDGES_IN)
    grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    colors = _colors()
    one_size = len(spec.sizes) == 1
    scale = LogNorm(spec.sizes[0] / 2, spec.sizes[0] * 2) if one_size else LogNorm(spec.sizes[0], spec.sizes[-1])
    shown = [run for run in runs if is_evidence(run.config) and run.outcome.curve]
    last = max((point.step for run in shown for point in run.outcome.curve), default=1)
    for place, axes in enumerate(grid.flat):
        axes.set_xlim(0, last)
        axes.set_ylim(0, 1.03)
        axes.xaxis.set_major_locator(MaxNLocator(3 if across == COLUMNS else 5))
        axes.xaxis.set_major_formatter(
            FuncFormatter(lambda step, _: f"{step / 1000:g}k" if step >= 1000 else f"{step:g}")
        )
        style.dress(axes)
        axes.set_visible(place < len(mixes))
    for axes, mix in zip(grid.flat, mixes, strict=False):
        mine = sorted((run for run in shown if run.config.label == mix), key=lambda run: run.config.size)
        ended = [run for run in mine if run.outcome.accuracy]
        axes.add_collection(
            LineCollection(
                [[(point.step, point.accuracy[spec.target]) for point in run.outcome.curve] for run in mine],
                colors=[colors(float(scale(run.config.size))) for run in mine],
                linewidths=1.1,
                alpha=0.85,
                rasterized=len(shown) > MOST_LINES,
            )
        )
        axes.scatter(
            [run.outcome.steps for run in ended],
            [run.outcome.accuracy[spec.target] for run in ended],
            c=[colors(float(scale(run.config.size))) for run in ended],
            s=12,
            edgecolors="white",
            linewidths=0.4,
            zorder=3,
            clip_on=False,
        )
        axes.set_title(mix, fontsize=style.TEXT, loc="left", color=style.INK)
    for axes in grid[-1]:
        axes.set_xlabel("steps")
    for row in grid:
        row[0].set_ylabel(f"{spec.family_class.words.score} of {spec.target}")
    if not one_size:
        bar = figure.colorbar(matplotlib.cm.ScalarMappable(scale, colors), ax=grid, pad=0.02, aspect=30)
        ticks = _spread(spec.sizes)
        bar.set_ticks(ticks, labels=[str(size) for size in ticks])
        bar.ax.minorticks_off()
        bar.set_label(spec.size_axis, fontsize=style.TEXT)
        bar.ax.tick_params(labelsize=style.SMALL, width=0.6, length=2)
        bar.outline.set_visible(False)
    if title:
        style.title(figure, title)
    return figure


def _colors() -> LinearSegmentedColormap:
    """Return the color map for sizes, from bright (small) to dark (large)."""
    shares = [DARKEST + (BRIGHTEST - DARKEST) * place / 255 for place in reversed(range(256))]
    return LinearSegmentedColormap.from_list("sizes", [matplotlib.colormaps[COLORS](share) for share in shares])


def _spread(sizes: Sequence[int]) -> list[int]:
    """Return the sizes to label on a logarithmic bar: the smallest, then each that is far enough above the last."""
    gap = (sizes[-1] / sizes[0]) ** (1 / MOST_TICKS)
    ticks = [sizes[0]]
    for size in sizes[1:]:
        if size >= ticks[-1] * gap:
            ticks.append(size)
    return ticks
