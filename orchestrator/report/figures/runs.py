"""Figures of single runs: learning curves, and pictures of the arrays that runs and their probes leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from numpy.typing import NDArray

from orchestrator.home.run_files import DAMAGED_ARRAYS, read_array
from orchestrator.home.sweeps import RunRecord
from orchestrator.report.figures import style
from orchestrator.report.figures.similarity import draw_items, is_similarity, similarity_figure
from orchestrator.space.evidence import is_evidence
from orchestrator.space.spec import SweepSpec
from trainables.base import Words

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
    panel = style.panel(figure, left_in, top_in, 0.08, height - top_in - BELOW_IN)
    bar = figure.colorbar(key, cax=panel)
    every = max(1, len(spec.sizes) // 8)
    ticks = spec.sizes[::every]
    bar.set_ticks(ticks, labels=[str(size) for size in ticks])
    bar.ax.minorticks_off()
    bar.set_label(spec.size_axis, fontsize=style.TEXT)
    bar.ax.tick_params(labelsize=style.SMALL, width=0.6, length=2)
    bar.outline.set_visible(False)


LINES_IN, PLANE_IN = 2.6, 4.6
"""Heights of pictures in inches."""


def draw_similarity(array: NDArray[Any], title: str, words: Words) -> Figure | None:
    """Cosine similarities [n, n]."""
    return similarity_figure(array, title, item=words.item, cyclic=words.cyclic) if is_similarity(array) else None


def draw_plane(array: NDArray[Any], title: str, words: Words) -> Figure | None:
    """Items [n, 2 or more] at their first two coordinates: principal components, or the map of Isomap."""
    if not _is_matrix(array) or array.shape[1] < 2:
        return None
    figure, axes = _panel(PLANE_IN, f"{title}: {words.item}s by how alike they are")
    draw_items(axes, array[:, :2], [str(item) for item in range(len(array))])
    axes.set_xlabel("first coordinate")
    axes.set_ylabel("second coordinate")
    return figure


def draw_lines(array: NDArray[Any], title: str, words: Words) -> Figure | None:
    """Shares [n], or [lines, n]: attention's part of each update, or how often each item is the answer, a line a
    task."""
    rows = np.atleast_2d(array)
    if not _is_matrix(rows):
        return None
    figure, axes = _panel(LINES_IN, title)
    for place, shares in enumerate(rows):
        colour, marker = style.COLOURS[place % len(style.COLOURS)], style.MARKERS[place % len(style.MARKERS)]
        axes.plot(shares, color=colour, marker=marker, linewidth=1.2, label=f"{words.task} {place + 1}")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("share")
    style.dress(axes)
    if len(rows) > 1:
        axes.legend(frameon=False, fontsize=style.SMALL)
    return figure


PICTURES: dict[str, Callable[[NDArray[Any], str, Words], Figure | None]] = {
    "similarity": draw_similarity,
    "components": draw_plane,
    "manifold": draw_plane,
    "attention_share": draw_lines,
    "answers": draw_lines,
}
"""Drawings by the name of the array, in a family's words; an array of another form or name has none."""


def picture(run: Path, name: str, title: str, words: Words) -> Figure | None:
    """The picture of one array in a run's directory; None without such an array, or without a picture of it."""
    draw, array = PICTURES.get(name), read_array(run, name)
    return None if draw is None or array is None else draw(array, title, words)


def save_pictures(run: Path, directory: Path, title: str, words: Words) -> dict[str, Path]:
    """Draw every array of a run that has a picture into ``directory``; the files by name (``similarity.png``). A
    damaged array has none."""
    files = {}
    for name in PICTURES:
        try:
            figure = picture(run, name, title, words)
        except DAMAGED_ARRAYS:
            continue
        if figure is not None:
            files[f"{name}.png"] = style.save(figure, directory / f"{name}.png")
    return files


def _is_matrix(array: NDArray[Any]) -> bool:
    return array.ndim == 2 and array.size > 0 and bool(np.isfinite(array).all())


def _panel(height_in: float, title: str) -> tuple[Figure, Axes]:
    """A figure under this title with one panel."""
    figure = style.new_figure(height_in)
    style.title(figure, title)
    return figure, figure.subplots()
