"""Cosine similarities of items as a heat map and in the plane of their principal components. Knows only numpy and
matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from orchestrator.report.figures import style
from trainables.base import Words

ANNOTATED = 12
"""Up to this many rows the cells of the heat map also carry their value."""
MOST_LABELS = 16
MARGIN = 0.12
"""Room around the points of a plane, as a share of their spread."""


def similarity_figure(
    similarity: NDArray[Any],
    title: str,
    labels: Sequence[str] = (),
    *,
    item: str = Words.item,
    cyclic: bool = False,
) -> Figure:
    """Cosine similarities [n, n] as a heat map, and their first two principal components.

    ``labels`` names the rows (``0 .. n-1`` if empty), ``item`` what a row stands for. Raises ``ValueError`` unless the
    matrix is square, finite and has a label for each row.
    """
    if not is_similarity(similarity):
        raise ValueError(f"similarities must be a finite square matrix, got shape {similarity.shape}")
    matrix = np.asarray(similarity, dtype=np.float64)
    names = tuple(labels) or tuple(str(index) for index in range(len(matrix)))
    if len(names) != len(matrix):
        raise ValueError(f"{len(matrix)} rows need {len(matrix)} labels, got {len(names)}")
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
