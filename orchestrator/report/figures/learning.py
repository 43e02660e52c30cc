"""Learning curves: the target's accuracy over steps, a panel for each mix, a line for each run."""

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
ROW_IN, ABOVE_IN, BELOW_IN = 2.4, 0.24, 0.45
"""Heights in inches: of a row of panels with their titles, of the titles alone, of the labels below the last row."""
SIDES_IN = (0.52, 0.85)
"""Inches left of the panels for their labels, and right of them for the bar of sizes."""
MOST_LINES = 200
"""From this many lines on they are pixels even where the figure is drawn as lines: pages stay small."""


def learning_figure(spec: SweepSpec, runs: Sequence[RunRecord], title: str = "") -> Figure:
    """Validation accuracy on the target over optimizer steps, coloured by size. Runs of more steps than the others of
    their mix are left out."""
    mixes = [mix.name for mix in spec.mixes]
    across = min(COLUMNS, len(mixes))
    down = -(-len(mixes) // across)
    figure = style.fixed_figure(style.title_in(title) + ROW_IN * down + BELOW_IN)
    grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
    _place(figure, style.title_in(title), down)
    colours = matplotlib.colormaps["viridis_r"]
    scale = LogNorm(spec.sizes[0], max(spec.sizes[-1], spec.sizes[0] + 1))
    colour = {size: colours(float(scale(size))) for size in {run.config.size for run in runs}}
    shown = [run for run in runs if is_evidence(run.config) and run.outcome.curve]
    for place, (axes, mix) in enumerate(zip(grid.flat, mixes, strict=False)):
        mine = sorted((run for run in shown if run.config.label == mix), key=lambda run: run.config.size)
        lines = [[(point.step, point.accuracy[spec.target]) for point in run.outcome.curve] for run in mine]
        drawn = [colour[run.config.size] for run in mine]
        axes.add_collection(
            LineCollection(
                lines,
                colors=drawn,
                linewidths=1.1,
                alpha=0.85,
                rasterized=len(shown) > MOST_LINES,
                gid=f"curves-{place}",
            )
        )
        axes.scatter(
            [run.outcome.steps for run in mine if run.outcome.accuracy],
            [run.outcome.accuracy[spec.target] for run in mine if run.outcome.accuracy],
            c=[colour[run.config.size] for run in mine if run.outcome.accuracy],
            s=12,
            edgecolors="white",
            linewidths=0.4,
            zorder=3,
            clip_on=False,
        )
        axes.set_title(mix, fontsize=style.TEXT, loc="left", color=style.INK)
    last = max((point.step for run in shown for point in run.outcome.curve), default=1)
    for place, axes in enumerate(grid.flat):
        axes.set_xlim(0, last)
        axes.set_ylim(0, 1.03)
        style.dress(axes)
        axes.set_visible(place < len(mixes))
    for axes in grid[-1]:
        axes.set_xlabel("steps")
    for row in grid:
        row[0].set_ylabel(f"{spec.family_class.words.score} of {spec.target}")
    _size_bar(figure, style.title_in(title), spec, scale)
    if title:
        style.title(figure, title)
    return figure


def _place(figure: Figure, title_in: float, rows: int) -> None:
    """Put the panels where their labels and the bar of sizes have room."""
    width, height = figure.get_size_inches()
    left_in, right_in = SIDES_IN
    figure.subplots_adjust(
        left=left_in / width,
        right=1 - right_in / width,
        top=1 - (title_in + ABOVE_IN) / height,
        bottom=BELOW_IN / height,
        wspace=0.14,
        hspace=ABOVE_IN / (ROW_IN - ABOVE_IN) if rows > 1 else 0,
    )


def _size_bar(figure: Figure, title_in: float, spec: SweepSpec, scale: LogNorm) -> None:
    key = matplotlib.cm.ScalarMappable(norm=scale, cmap="viridis_r")
    width, height = figure.get_size_inches()
    top_in, left_in = title_in + ABOVE_IN, width - SIDES_IN[1] + 0.2
    beside = style.panel(figure, left_in, top_in, 0.08, height - top_in - BELOW_IN)
    bar = figure.colorbar(key, cax=beside)
    every = max(1, len(spec.sizes) // 8)
    ticks = spec.sizes[::every]
    bar.set_ticks(ticks, labels=[str(size) for size in ticks])
    bar.ax.minorticks_off()
    bar.set_label(spec.size_axis, fontsize=style.TEXT)
    bar.ax.tick_params(labelsize=style.SMALL, width=0.6, length=2)
    bar.outline.set_visible(False)
