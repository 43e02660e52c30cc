"""Cosine similarities of items: as heat maps, in the plane of their principal components, and on both sides of each
mix's transition."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
from orchestrator.transition.types import Verdict
from trainables.base import Words

ANNOTATED = 12
"""Up to this many rows the cells of the heat map also carry their value."""
MOST_LABELS = 16
MARGIN = 0.12
"""Room around the points of a plane, as a share of their spread."""


def similarity_figure(similarity: NDArray[Any], title: str, *, item: str = Words.item, cyclic: bool = False) -> Figure:
    """Cosine similarities [n, n], which :func:`is_similarity` accepts, as a heat map, and their first two principal
    components. ``item`` is what a row stands for."""
    matrix = np.asarray(similarity, dtype=np.float64)
    names = [str(index) for index in range(len(matrix))]
    figure = style.fixed_figure(3.5)
    image = heat_map(figure.add_axes((0.06, 0.125, 0.36, 0.74)), matrix, names, item)
    bar = figure.add_axes((0.435, 0.125, 0.014, 0.74))
    dress_bar(figure.colorbar(image, cax=bar, ticks=(-1, -0.5, 0, 0.5, 1)))
    draw_plane(figure.add_axes((0.65, 0.125, 0.34, 0.74)), matrix, names, cyclic=cyclic)
    style.title(figure, title)
    return figure


def is_similarity(array: NDArray[Any]) -> bool:
    """True for an array that can be shown as similarities: square, real numbers, finite, not empty."""
    real = array.dtype.kind in "fiu"
    return real and array.ndim == 2 and array.shape[0] == array.shape[1] > 0 and bool(np.isfinite(array).all())


def heat_map(
    axes: Axes, matrix: NDArray[np.float64], names: Sequence[str], item: str = Words.item, *, values: bool = True
) -> AxesImage:
    """Cosine similarities as colours, and up to :data:`ANNOTATED` rows also as ``values``."""
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-1.0, vmax=1.0, interpolation="nearest")
    ticks = range(0, len(names), -(-len(names) // MOST_LABELS))
    axes.set_xticks(ticks, [names[tick] for tick in ticks])
    axes.set_yticks(ticks, [names[tick] for tick in ticks])
    axes.set_xlabel(item)
    axes.set_ylabel(item)
    if values and len(names) <= ANNOTATED:
        size = min(style.SMALL, 60 / len(names))
        for (row, column), value in np.ndenumerate(matrix):
            said = f"{value:.2f}".replace("0.", ".").replace("1.00", "1").replace("-.00", ".00")
            colour = "white" if abs(value) > 0.6 else style.INK
            axes.text(column, row, said, ha="center", va="center", fontsize=size, color=colour)
    style.dress(axes, spines=())
    axes.tick_params(length=0)
    return image


def dress_bar(bar: Colorbar) -> None:
    """The colour bar of a heat map."""
    bar.set_label("cosine similarity", fontsize=style.TEXT)
    bar.ax.tick_params(labelsize=style.SMALL, width=0.6, length=2)
    bar.outline.set_visible(False)


def draw_plane(
    axes: Axes, similarity: NDArray[Any], names: Sequence[str], *, small: bool = False, cyclic: bool = False
) -> None:
    """Items at their first two principal components, both axes of one scale."""
    scores, shares = principal_components(similarity)
    draw_items(axes, scores, names, small=small, cyclic=cyclic)
    word = "PC" if small else "principal component"
    axes.set_xlabel(f"{word} 1 ({shares[0]:.0%})")
    axes.set_ylabel(f"{word} 2 ({shares[1]:.0%})")


def draw_items(
    axes: Axes, places: NDArray[np.float64], names: Sequence[str], *, small: bool = False, cyclic: bool = False
) -> None:
    """Items at these ``places`` [n, 2] as discs with their names, joined in order. Discs are filled and hollow by
    turns where residues mean something and n is even."""
    axes.plot(places[:, 0], places[:, 1], color=style.FAINT, linewidth=0.8, zorder=1)
    hollow = [cyclic and len(names) % 2 == 0 and item % 2 == 1 for item in range(len(names))]
    fills = ["white" if each else style.INK for each in hollow]
    axes.scatter(
        places[:, 0], places[:, 1], s=70 if small else 150, c=fills, edgecolors=style.INK, linewidths=0.7, zorder=2
    )
    look: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": style.SMALL, "zorder": 3}
    for (x, y), name, each in zip(places, names, hollow, strict=True):
        axes.text(x, y, name, color=style.INK if each else "white", **look)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(MARGIN)
    axes.locator_params(nbins=4)
    style.dress(axes)


def principal_components(similarity: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores [n, 2] of the unit vectors on their first two principal axes, and the share of variance of each.

    The similarities are these vectors' Gram matrix, so centring it on both sides and taking eigenvectors gives the
    principal component scores without the vectors (classical scaling; Gower 1966, Biometrika 53:325).
    """
    gram = np.asarray(similarity, dtype=np.float64)
    centred = gram - gram.mean(axis=0) - gram.mean(axis=1)[:, None] + gram.mean()
    values, vectors = np.linalg.eigh((centred + centred.T) / 2)
    values = np.clip(values[::-1], 0.0, None)
    scores = np.zeros((len(gram), 2))
    kept = min(2, len(gram))
    scores[:, :kept] = (vectors[:, ::-1] * np.sqrt(values))[:, :kept]
    # An eigenvector's sign is arbitrary: the largest score of each axis is made positive.
    scores *= np.where(scores[np.abs(scores).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    total = values.sum()
    shares = np.zeros(2)
    if total > 0:
        shares[:kept] = values[:kept] / total
    return scores, shares


SIMILARITY = "similarity"
"""Name of the array that is shown."""
ROW_IN, PANEL_IN = 1.95, 1.28
"""Heights in inches: of one mix's row, and of a panel in it; the rest is for its title and labels."""
ABOVE_IN, BAR_IN = 0.24, 0.55
"""Inches above a row's panels, and below the last row for the colour bar."""
SIDES = {"below": (0.32, 2.28), "above": (3.8, 5.76)}
"""Left edges of the two panels of a side in inches: similarities, principal components."""
PLANE_IN = 1.14
"""Width of the principal components in inches."""


NAME = 22
"""Characters of a line of a mix's name in an empty panel."""
NONE_KEPT = "its family keeps\nno similarities"
"""Why there is nothing to show of a run that is whole."""


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


def similarities_figure(answer: Answer, runs: Sequence[RunRecord], title: str = "") -> Figure | None:
    """A row for each mix: similarities and principal components below its transition, and the same above it.

    None where no run left any.
    """
    rows = [pair for pair in pairs(answer, runs) if pair.below or pair.above]
    if not rows:
        return None
    top_in = style.title_in(title)
    figure = style.fixed_figure(top_in + ROW_IN * len(rows) + BAR_IN)
    images = []
    for row, pair in enumerate(rows):
        for word, (heat_in, plane_in) in SIDES.items():
            heat = style.panel(figure, heat_in, top_in + row * ROW_IN + ABOVE_IN, PANEL_IN, PANEL_IN)
            plane = style.panel(figure, plane_in, top_in + row * ROW_IN + ABOVE_IN, PLANE_IN, PANEL_IN)
            run = getattr(pair, word)
            matrix, lacks = (
                (None, f"no run {word}\nits transition" if pair.bracketed else "no other run")
                if run is None
                else _similarity(run)
            )
            if run is None or matrix is None:
                _empty(heat, f"{textwrap.fill(pair.mix, NAME)}:\n{lacks}")
                plane.set_axis_off()
                continue
            names = [str(token) for token in range(len(matrix))]
            images.append(heat_map(heat, matrix, names, "", values=False))
            draw_plane(plane, matrix, names, small=True, cyclic=answer.words.cyclic)
            accuracy = run.outcome.accuracy[answer.target]
            at = f"{answer.size_axis} {run.config.size}, seed {run.config.seed}"
            side = f", {word}" if pair.bracketed else ""
            said = f"{pair.mix}{side}: {at}, {answer.target} {accuracy:.2f}"
            heat.set_title(said, fontsize=style.SMALL + 0.5, loc="left", color=style.INK)
    if images:
        panel = style.panel(figure, 1.3, top_in + len(rows) * ROW_IN + 0.06, 4.4, 0.1)
        dress_bar(figure.colorbar(images[0], cax=panel, orientation="horizontal"))
    if title:
        style.title(figure, title)
    return figure


def _similarity(run: RunRecord) -> tuple[NDArray[np.float64] | None, str]:
    """The similarities and ``""``, or None and the reason."""
    try:
        array = read_array(run.directory, SIMILARITY)
    except DAMAGED_ARRAYS:
        return None, f"the arrays of\n{run.key} are damaged"
    if array is None or not is_similarity(array):
        return None, NONE_KEPT
    return np.asarray(array, np.float64), ""


def _pair(answer: Answer, mix: MixAnswer, runs: Sequence[RunRecord]) -> Pair:
    """Arrays are read of the sizes looked at alone: a sweep may have thousands of runs."""
    verdict, found = mix.target.transition.verdict, mix.target.transition.relative
    rising = sorted({run.config.size for run in runs})

    def first(sizes: Iterable[int]) -> RunRecord | None:
        """The run of median accuracy (the lower of two) of the first of these sizes with one to show."""
        for size in sizes:
            same = [run for run in runs if run.config.size == size and _similarity(run)[1] != NONE_KEPT]
            if same:
                same.sort(key=lambda run: (run.outcome.accuracy[answer.target], run.config.seed))
                return same[(len(same) - 1) // 2]
        return None

    if (value := found.value) is not None:
        low, high = found.low or 0, found.high or math.inf
        below = [*(size for size in rising[::-1] if size <= low), *(size for size in rising[::-1] if size < value)]
        above = [*(size for size in rising if size >= high), *(size for size in rising if size >= value)]
        return Pair(mix.mix, first(below), first(above))
    if verdict is Verdict.BELOW:
        return Pair(mix.mix, None, first(rising))
    smallest, largest = first(rising), first(rising[::-1])
    if verdict in (Verdict.UNDECIDED, Verdict.NEAR_FLOOR) and smallest is not largest:
        return Pair(mix.mix, smallest, largest, bracketed=False)
    return Pair(mix.mix, largest, None, bracketed=False)


def _empty(axes: Axes, text: str) -> None:
    axes.set_axis_off()
    settings: dict[str, Any] = {"ha": "center", "va": "center", "transform": axes.transAxes}
    axes.text(0.5, 0.5, text, fontsize=style.SMALL, color=style.GREY, **settings)
