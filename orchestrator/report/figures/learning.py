"""Learning curves of a sweep's runs."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from orchestrator.home.sweeps import RunRecord
from orchestrator.report.figures import style
from orchestrator.space.evidence import is_evidence
from orchestrator.space.spec import SweepSpec

COLUMNS = 3
ROW_IN, EDGES_IN = 2.2, 0.5
"""Heights in inches: of a row of panels, and of what a figure needs besides."""
MOST_LINES = 200
"""From this many lines on they are pixels even where the figure is drawn as lines: pages stay small."""


@style.own_style()
def learning_figure(spec: SweepSpec, runs: Sequence[RunRecord], title: str = "") -> Figure:
    """Return a figure of validation accuracy on the target over optimizer steps, coloured by size."""
    mixes = [mix.name for mix in spec.mixes]
    across = min(COLUMNS, len(mixes))
    down = -(-len(mixes) // across)
    figure = style.new_figure(ROW_IN * down + EDGES_IN)
    grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    colours = matplotlib.colormaps["viridis_r"]
    scale = LogNorm(spec.sizes[0], max(spec.sizes[-1], spec.sizes[0] + 1))
    colour = {size: colours(float(scale(size))) for size in {run.config.size for run in runs}}
    shown = [run for run in runs if is_evidence(run.config) and run.outcome.curve]
    last = max((point.step for run in shown for point in run.outcome.curve), default=1)
    for place, axes in enumerate(grid.flat):
        axes.set_xlim(0, last)
        axes.set_ylim(0, 1.03)
        style.dress(axes)
        axes.set_visible(place < len(mixes))
    for place, (axes, mix) in enumerate(zip(grid.flat, mixes, strict=False)):
        mine = sorted((run for run in shown if run.config.label == mix), key=lambda run: run.config.size)
        ended = [run for run in mine if run.outcome.accuracy]
        axes.add_collection(
            LineCollection(
                [[(point.step, point.accuracy[spec.target]) for point in run.outcome.curve] for run in mine],
                colors=[colour[run.config.size] for run in mine],
                linewidths=1.1,
                alpha=0.85,
                rasterized=len(shown) > MOST_LINES,
                gid=f"curves-{place}",
            )
        )
        axes.scatter(
            [run.outcome.steps for run in ended],
            [run.outcome.accuracy[spec.target] for run in ended],
            c=[colour[run.config.size] for run in ended],
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
    bar = figure.colorbar(matplotlib.cm.ScalarMappable(scale, colours), ax=grid, pad=0.02, aspect=30)
    ticks = spec.sizes[:: max(1, len(spec.sizes) // 8)]
    bar.set_ticks(ticks, labels=[str(size) for size in ticks])
    bar.ax.minorticks_off()
    bar.set_label(spec.size_axis, fontsize=style.TEXT)
    bar.ax.tick_params(labelsize=style.SMALL, width=0.6, length=2)
    bar.outline.set_visible(False)
    if title:
        style.title(figure, title)
    return figure
