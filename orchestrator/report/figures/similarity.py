"""Cosine similarities of items: as heat maps, in the plane of their principal components, and on both sides of each
mix's transition."""

from __future__ import annotations

import logging
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from orchestrator.home.run_files import DAMAGED_ARRAYS, read_array
from orchestrator.home.sweeps import RunRecord
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.figures import style
from orchestrator.space.evidence import stands_for_its_size
from trainables.base import Words
from trainables.probes.embeddings import principal

log = logging.getLogger(__name__)

SIMILARITY = "similarity"
"""Name of the array that is shown."""
ANNOTATED = 12
"""Up to this many rows the cells of the heat map also carry their value."""
MOST_LABELS = 16
MARGIN = 0.12
"""Room around the points of a plane, as a share of their spread."""
FIGURE_IN, PANEL_IN, WORDS_IN, BAR_IN = 3.5, 1.3, 0.6, 0.65
"""Heights in inches: of one run's figure; of a mix's panels, of the words around them, of the bar below the last."""
COLUMNS_IN = (0.2, 1.9, 3.75, 5.45)
"""Where the panels of a row begin, from the left of a figure of the standard width."""
NAME = 22
"""Characters of a line of a mix's name in an empty panel."""


def save_similarity(run: Path, path: Path, title: str, words: Words) -> bool:
    """Draw the similarities that a run left into a file; False if it left none that can be read."""
    matrix = similarity_of(run)
    if matrix is not None:
        style.save(similarity_figure(matrix, title, item=words.item, cyclic=words.cyclic), path)
    return matrix is not None


def similarity_of(run: Path) -> NDArray[np.float64] | None:
    """The cosine similarities [n, n] a run left, itself or through a probe; None without any that can be read. A
    warning names damaged ones."""
    try:
        array = read_array(run, SIMILARITY)
    except DAMAGED_ARRAYS as error:
        log.warning("The arrays in %s are damaged (%s): the figure goes without them", run, error)
        return None
    if array is None or array.dtype.kind not in "fiu" or array.ndim != 2 or not np.isfinite(array).all():
        return None
    return np.asarray(array, np.float64) if array.shape[0] == array.shape[1] > 0 else None


@style.own_style()
def similarity_figure(matrix: NDArray[Any], title: str, *, item: str = Words.item, cyclic: bool = False) -> Figure:
    """Cosine similarities [n, n] as a heat map, and their first two principal components. ``item`` is what a row stands
    for."""
    figure = style.new_figure(FIGURE_IN)
    heat, plane = figure.subplots(1, 2)
    _dress_bar(figure.colorbar(_heat_map(heat, matrix, item, values=True), ax=heat, ticks=(-1, -0.5, 0, 0.5, 1)))
    _draw_plane(plane, matrix, cyclic=cyclic)
    style.title(figure, title)
    return figure


def _heat_map(axes: Axes, matrix: NDArray[np.float64], item: str, *, values: bool = False) -> AxesImage:
    """Cosine similarities as colours, and up to :data:`ANNOTATED` rows also as ``values``."""
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-1.0, vmax=1.0, interpolation="nearest")
    ticks = range(0, len(matrix), -(-len(matrix) // MOST_LABELS))
    axes.set_xticks(ticks)
    axes.set_yticks(ticks)
    axes.set_xlabel(item)
    axes.set_ylabel(item)
    if values and len(matrix) <= ANNOTATED:
        size = min(style.SMALL, 60 / len(matrix))
        for (row, column), value in np.ndenumerate(matrix):
            text = f"{value:.2f}".replace("0.", ".").replace("1.00", "1").replace("-.00", ".00")
            colour = "white" if abs(value) > 0.6 else style.INK
            axes.text(column, row, text, ha="center", va="center", fontsize=size, color=colour)
    style.dress(axes, spines=())
    axes.tick_params(length=0)
    return image


def _dress_bar(bar: Colorbar) -> None:
    """The colour bar of a heat map."""
    bar.set_label("cosine similarity", fontsize=style.TEXT)
    bar.ax.tick_params(labelsize=style.SMALL, width=0.6, length=2)
    bar.outline.set_visible(False)


def _draw_plane(axes: Axes, matrix: NDArray[Any], *, small: bool = False, cyclic: bool = False) -> None:
    """Items as discs with their numbers at their first two principal components, both axes of one scale, joined in
    order. Discs are filled and hollow by turns where residues mean something and n is even."""
    variances, coordinates = principal(np.asarray(matrix, dtype=np.float64))
    shares, (x, y) = variances / max(variances.sum(), 1e-300), coordinates[:, :2].T
    axes.plot(x, y, color=style.FAINT, linewidth=0.8, zorder=1)
    hollow = [cyclic and len(matrix) % 2 == 0 and item % 2 == 1 for item in range(len(matrix))]
    fills = ["white" if each else style.INK for each in hollow]
    axes.scatter(x, y, s=70 if small else 150, c=fills, edgecolors=style.INK, linewidths=0.7, zorder=2)
    look: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": style.SMALL, "zorder": 3}
    for item, each in enumerate(hollow):
        axes.text(x[item], y[item], str(item), color=style.INK if each else "white", **look)
    reach = (0.5 + MARGIN) * max(np.ptp(x), np.ptp(y), 1e-6)
    for limit, each in ((axes.set_xlim, x), (axes.set_ylim, y)):
        middle = (each.min() + each.max()) / 2
        limit(middle - reach, middle + reach)
    axes.set_aspect("equal")
    axes.set(xticks=[], yticks=[])
    style.dress(axes)
    word = "PC" if small else "principal component"
    axes.set_xlabel(f"{word} 1 ({shares[0]:.0%})")
    axes.set_ylabel(f"{word} 2 ({shares[1]:.0%})")


@dataclass(frozen=True)
class Pair:
    """The runs shown for one mix: of the largest size below its transition's interval and of the smallest above it, or
    None. Without a transition, and ``bracketed`` False, those of the smallest and the largest size."""

    mix: str
    below: RunRecord | None
    above: RunRecord | None
    bracketed: bool = True


def pairs(answer: Answer, runs: Sequence[RunRecord]) -> tuple[Pair, ...]:
    """For each mix the runs next to its transition that left their similarities. Of the runs of one size the one of
    median accuracy on the target stands for all."""
    kept = [run for run in runs if stands_for_its_size(run.config, run.outcome)]
    return tuple(_pair(answer, mix, [run for run in kept if run.config.label == mix.mix]) for mix in answer.mixes)


def _pair(answer: Answer, mix: MixAnswer, runs: Sequence[RunRecord]) -> Pair:
    """Arrays are read of the sizes looked at alone: a sweep may have thousands of runs."""
    found, rising = mix.target.transition.relative, sorted({run.config.size for run in runs})

    def first(sizes: Iterable[int]) -> RunRecord | None:
        """The run of median accuracy (the lower of two) of the first of these sizes with one to show."""
        for size in sizes:
            same = [run for run in runs if run.config.size == size and similarity_of(run.directory) is not None]
            if same:
                same.sort(key=lambda run: (run.outcome.accuracy[answer.target], run.config.seed))
                return same[(len(same) - 1) // 2]
        return None

    if (value := found.value) is not None:
        low, high = found.low or 0, found.high or math.inf
        below = [*(size for size in rising[::-1] if size <= low), *(size for size in rising[::-1] if size < value)]
        above = [*(size for size in rising if size >= high), *(size for size in rising if size >= value)]
        return Pair(mix.mix, first(below), first(above))
    smallest, largest = first(rising), first(rising[::-1])
    return Pair(mix.mix, smallest, None if largest is smallest else largest, bracketed=False)


@style.own_style()
def similarities_figure(answer: Answer, runs: Sequence[RunRecord]) -> Figure | None:
    """A row for each mix: similarities and principal components below its transition, and the same above it.

    None where no run left any.
    """
    rows = [pair for pair in pairs(answer, runs) if pair.below or pair.above]
    if not rows:
        return None
    height = (PANEL_IN + WORDS_IN) * len(rows) + BAR_IN
    figure, images = style.new_figure(height), []
    figure.set_layout_engine(None)  # It would take a second for ten rows; all panels are of one size.

    def panel(left: float, bottom: float, width: float, high: float) -> Axes:
        return figure.add_axes((left / style.WIDTH_IN, bottom / height, width / style.WIDTH_IN, high / height))

    for place, pair in enumerate(rows, start=1):
        bottom = height - place * (PANEL_IN + WORDS_IN) + 0.22
        one, two, three, four = (panel(left, bottom, PANEL_IN, PANEL_IN) for left in COLUMNS_IN)
        for word, run, heat, plane in (("below", pair.below, one, two), ("above", pair.above, three, four)):
            matrix = None if run is None else similarity_of(run.directory)
            if run is None or matrix is None:
                lacks = f"no run {word}\nits transition" if pair.bracketed else "no other run"
                _empty(heat, f"{textwrap.fill(pair.mix, NAME)}:\n{lacks}")
                plane.set_axis_off()
                continue
            images.append(_heat_map(heat, matrix, ""))
            _draw_plane(plane, matrix, small=True, cyclic=answer.words.cyclic)
            side = f", {word}" if pair.bracketed else ""
            scored = f"seed {run.config.seed}, {answer.target} {run.outcome.accuracy[answer.target]:.2f}"
            text = f"{pair.mix}{side}: {answer.size_axis} {run.config.size}\n{scored}"
            heat.set_title(text, fontsize=style.SMALL + 0.5, loc="left", color=style.INK)
    bar = panel(1.5, 0.45, 4.0, 0.08)
    _dress_bar(figure.colorbar(images[0], cax=bar, orientation="horizontal", ticks=(-1, -0.5, 0, 0.5, 1)))
    return figure


def _empty(axes: Axes, text: str) -> None:
    axes.set_axis_off()
    settings: dict[str, Any] = {"ha": "center", "va": "center", "transform": axes.transAxes}
    axes.text(0.5, 0.5, text, fontsize=style.SMALL, color=style.GREY, **settings)
