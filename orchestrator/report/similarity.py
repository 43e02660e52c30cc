"""What cosine similarities look like, between items that have an order. Knows only numpy and matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.text import Text
from numpy.typing import NDArray

from orchestrator.report import style
from orchestrator.report.plane import Plane
from orchestrator.report.style import Picture
from trainables.base import Words

ANNOTATED = 12
"""Up to this many rows the cells of the heat map also carry their value."""
MOST_LABELS = 16
SCREEN_DPI = 130
"""Of a run's picture: for looking at in MLflow; a paper takes the SVG."""


def similarity_figure(
    similarity: NDArray[Any], title: str, labels: Sequence[str] = (), *, item: str = Words.item
) -> Figure:
    """Cosine similarities [n, n] as a heat map, beside their first two principal components.

    ``labels`` names the rows (``0 .. n-1`` where empty), ``item`` what a row stands for. Raises ``ValueError`` unless
    the matrix is square, finite and has a label for each row.
    """
    rows = len(_checked(similarity))
    names = tuple(labels) or tuple(str(index) for index in range(rows))
    if len(names) != rows:
        raise ValueError(f"{rows} rows need {rows} labels, got {len(names)}")
    return SimilarityPicture(names, item).show(similarity, title)


def is_similarity(array: NDArray[Any]) -> bool:
    """Whether an array can be shown as similarities: square, real numbers, finite, not empty."""
    real = array.dtype.kind in "fiu"
    return real and array.ndim == 2 and array.shape[0] == array.shape[1] > 0 and bool(np.isfinite(array).all())


class SimilarityPicture:
    """One figure that shows matrix after matrix: laying a figure out anew for each costs more than drawing it."""

    def __init__(self, names: Sequence[str], item: str = Words.item, *, cyclic: bool = False) -> None:
        self._figure = Picture(figsize=(style.WIDTH_IN, 3.5), dpi=SCREEN_DPI, facecolor="white")
        self._names = tuple(names)
        blank = np.zeros((len(names), len(names)))
        self._heat = self._figure.add_axes((0.06, 0.125, 0.36, 0.74))
        self._image = heat_map(self._heat, blank, self._names, item)
        beside = self._figure.add_axes((0.435, 0.125, 0.014, 0.74))
        dress_bar(self._figure.colorbar(self._image, cax=beside, ticks=(-1, -0.5, 0, 0.5, 1)))
        self._plane = Plane(self._figure.add_axes((0.65, 0.125, 0.34, 0.74)), self._names, cyclic=cyclic)

    def show(self, similarity: NDArray[Any], title: str) -> Figure:
        """The figure of these similarities [n, n], n the number of names; the next call changes the same figure.

        Raises ``ValueError`` unless the matrix is square, finite and of that size.
        """
        matrix = _checked(similarity)
        if len(matrix) != len(self._names):
            raise ValueError(f"a picture of {len(self._names)} rows cannot show {len(matrix)}")
        self._image.set_data(matrix)
        for cell, value in zip(self._heat.texts, matrix.flat, strict=False):  # No texts where cells are too small.
            _say(cell, float(value))
        self._plane.show(matrix)
        style.title(self._figure, title)
        return self._figure


def _checked(similarity: NDArray[Any]) -> NDArray[np.float64]:
    if not is_similarity(similarity):
        raise ValueError(f"similarities must be a finite square matrix, got shape {similarity.shape}")
    return np.asarray(similarity, dtype=np.float64)


def heat_map(
    axes: Axes, matrix: NDArray[np.float64], names: Sequence[str], item: str = Words.item, *, values: bool = True
) -> AxesImage:
    """Cosine similarities as colours, and up to :data:`ANNOTATED` rows also as ``values``."""
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-1.0, vmax=1.0, interpolation="nearest")
    every = -(-len(names) // MOST_LABELS)
    ticks = range(0, len(names), every)
    axes.set_xticks(ticks, [names[tick] for tick in ticks])
    axes.set_yticks(ticks, [names[tick] for tick in ticks])
    axes.set_xlabel(item)
    axes.set_ylabel(item)
    if values and len(names) <= ANNOTATED:
        size = min(style.SMALL, 60 / len(names))
        for row, column in np.ndindex(*matrix.shape):
            _say(axes.text(column, row, "", ha="center", va="center", fontsize=size), float(matrix[row, column]))
    style.dress(axes, spines=())
    axes.tick_params(length=0)
    return image


def _say(cell: Text, value: float) -> None:
    """Write a similarity into its cell, in a colour that stands out there."""
    cell.set_text(f"{value:.2f}".replace("0.", ".").replace("1.00", "1").replace("-.00", ".00"))
    cell.set_color("white" if abs(value) > 0.6 else style.INK)


def dress_bar(bar: Colorbar) -> None:
    """The colour bar of a heat map."""
    bar.set_label("cosine similarity", fontsize=style.TEXT)
    bar.ax.tick_params(labelsize=style.SMALL, width=0.6, length=2)
    bar.outline.set_visible(False)
