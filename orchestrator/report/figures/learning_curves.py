"""Learning curves of each mix."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from orchestrator.report.figures import style
from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec

HEIGHTS_IN = (2.2, 0.5)
"""Heights of a row of panels, and of the rest of the figure."""
MOST_LINES = 200
"""More lines than this are rasterized even in vector images, so that pages stay small."""
COLORS = "plasma"
"""Color map whose steps differ in hue and lightness."""
SHADES = (0.88, 0.12)
"""Range of the color map from the smallest to the largest size, which is visible on light and dark pages."""
MOST_PANELS = 100
"""Maximum number of panels. It takes 9 s to draw 100, and 500 took minutes."""
MOST_TICKS = 7
"""Maximum number of labels of the color bar."""


@style.own_style()
def learning_figure(spec: SweepSpec, runs: Sequence[Run], title: str = "") -> Figure:
    """Draw validation accuracy on the target over optimizer steps, colored by size, in a panel per mix.

    Only the first :data:`MOST_PANELS` mixes get one, and the title says so.
    """
    mixes = [mix.name for mix in spec.mixes][:MOST_PANELS]
    if len(mixes) < len(spec.mixes):
        title = ", ".join(filter(None, (title, f"the first {len(mixes)} of {len(spec.mixes)} mixes")))
    figure, grid = style.panels(mixes, HEIGHTS_IN, sharey=True)
    one_size = len(spec.sizes) == 1
    ends = (spec.sizes[0], spec.sizes[-1])
    scale = LogNorm(ends[0] / 2, ends[0] * 2) if one_size else LogNorm(*ends)
    colors = ScalarMappable(scale, ListedColormap(matplotlib.colormaps[COLORS](np.linspace(*SHADES, 256))))
    drawn = [run for run in runs if run.counts_for_answer and run.outcome.curve]
    last = max((point.step for run in drawn for point in run.outcome.curve), default=1)
    for axes in grid.flat:
        axes.set(xlim=(0, last), ylim=(0, 1.03))
        axes.xaxis.set_major_locator(MaxNLocator(3 if len(grid[0]) == style.COLUMNS else 5))
        axes.xaxis.set_major_formatter(lambda step, _: f"{step / 1000:g}k" if step >= 1000 else f"{step:g}")
    for axes, mix in zip(grid.flat, mixes, strict=False):
        runs_of_mix = sorted((run for run in drawn if run.config.label == mix), key=lambda run: run.config.size)
        curves = [[(point.step, point.accuracy[spec.target]) for point in run.outcome.curve] for run in runs_of_mix]
        line_style = {"linewidths": 1.1, "alpha": 0.85, "rasterized": len(drawn) > MOST_LINES}
        axes.add_collection(
            LineCollection(
                curves, colors=colors.to_rgba(np.array([run.config.size for run in runs_of_mix])), **line_style
            )
        )
        ended = [run for run in runs_of_mix if run.outcome.accuracy]
        axes.scatter(
            [run.outcome.steps for run in ended],
            [run.outcome.accuracy[spec.target] for run in ended],
            c=colors.to_rgba(np.array([run.config.size for run in ended])),
            s=12,
            edgecolors="white",
            linewidths=0.4,
            zorder=3,
            clip_on=False,
        )
    for axes in grid[-1]:
        axes.set_xlabel("steps")
    for row in grid:
        row[0].set_ylabel(f"{spec.family_class.words.score} of {spec.target}")
    if not one_size:
        bar = figure.colorbar(colors, ax=grid, pad=0.02, aspect=30)
        bar.set_ticks(ticks := _spread(spec.sizes), labels=[str(size) for size in ticks])
        bar.ax.minorticks_off()
        style.dress_bar(bar, spec.size_axis)
    style.title(figure, title)
    return figure


def _spread(sizes: Sequence[int]) -> list[int]:
    """Return the sizes to label on a logarithmic bar: the smallest, then each that is far enough above the last."""
    gap = (sizes[-1] / sizes[0]) ** (1 / MOST_TICKS)
    ticks = [sizes[0]]
    for size in sizes[1:]:
        if size >= ticks[-1] * gap:
            ticks.append(size)
    return ticks
