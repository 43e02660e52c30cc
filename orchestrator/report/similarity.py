"""What a run's embeddings look like. Imports only numpy and matplotlib: workers draw this at the end of every run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colorbar import Colorbar
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from orchestrator.report import style

ANNOTATED = 12
"""Up to this many tokens the cells of the heat map also carry their value."""
MOST_LABELS = 16


def similarity_figure(similarity: NDArray[Any], title: str, labels: Sequence[str] = ()) -> Figure:
    """Cosine similarities [n, n] of number embeddings as a heat map, beside their first two principal components.

    ``labels`` names the rows (``0 .. n-1`` where empty). Raises ``ValueError`` unless the matrix is square, finite
    and has a label for each row.
    """
    matrix = np.asarray(similarity, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size or not np.isfinite(matrix).all():
        raise ValueError(f"similarities must be a finite square matrix, got shape {matrix.shape}")
    names = list(labels) or [str(index) for index in range(len(matrix))]
    if len(names) != len(matrix):
        raise ValueError(f"{len(matrix)} rows need {len(matrix)} labels, got {len(names)}")
    figure = style.new_figure(3.5, gap=0.08)
    heat, plane = figure.subplots(1, 2, width_ratios=(1.2, 1))
    bar = figure.colorbar(heat_map(heat, matrix, names), ax=heat, fraction=0.046, pad=0.03, ticks=(-1, -0.5, 0, 0.5, 1))
    dress_bar(bar)
    principal_plane(plane, matrix, names)
    style.title(figure, title)
    return figure


def principal_components(similarity: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Scores [n, 2] of the unit embeddings on their first two principal axes, and the share of variance of each.

    The similarities are the embeddings' Gram matrix, so centring it on both sides and taking eigenvectors gives the
    principal component scores without the embeddings (classical scaling; Gower 1966, Biometrika 53:325).
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


def heat_map(axes: Axes, matrix: NDArray[np.float64], names: Sequence[str], *, values: bool = True) -> AxesImage:
    """Cosine similarities as colours, and up to :data:`ANNOTATED` tokens also as ``values``."""
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-1.0, vmax=1.0, interpolation="nearest")
    every = -(-len(names) // MOST_LABELS)
    ticks = range(0, len(names), every)
    axes.set_xticks(ticks, [names[tick] for tick in ticks])
    axes.set_yticks(ticks, [names[tick] for tick in ticks])
    axes.set_xlabel("number token")
    axes.set_ylabel("number token")
    if values and len(names) <= ANNOTATED:
        for row, column in np.ndindex(*matrix.shape):
            value = matrix[row, column]
            text = f"{value:.2f}".replace("0.", ".").replace("1.00", "1").replace("-.00", ".00")
            colour = "white" if abs(value) > 0.6 else style.INK
            axes.text(
                column, row, text, ha="center", va="center", fontsize=min(style.SMALL, 60 / len(names)), color=colour
            )
    style.dress(axes, spines=())
    axes.tick_params(length=0)
    return image


def dress_bar(bar: Colorbar) -> None:
    """The colour bar of a heat map."""
    bar.set_label("cosine similarity", fontsize=style.TEXT)
    bar.ax.tick_params(labelsize=style.SMALL, width=0.6, length=2)
    bar.outline.set_visible(False)


def principal_plane(axes: Axes, matrix: NDArray[np.float64], names: Sequence[str], *, small: bool = False) -> None:
    """The tokens on their first two principal components, joined in their order; ``small`` for panels of an inch."""
    scores, shares = principal_components(matrix)
    axes.plot(scores[:, 0], scores[:, 1], color=style.FAINT, linewidth=0.8, zorder=1)
    axes.scatter(
        scores[:, 0],
        scores[:, 1],
        c=np.arange(len(names)),
        cmap="cividis",
        s=22 if small else 70 if len(names) <= ANNOTATED else 45,
        edgecolors="white",
        linewidths=0.6,
        zorder=2,
    )
    for name, (x, y) in zip(names, scores, strict=True):
        axes.annotate(
            name,
            (x, y),
            xytext=(0, 3.0 if small else 5.5),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=style.SMALL,
        )
    axes.margins(0.14)
    axes.set_aspect("equal", adjustable="datalim")
    word = "PC" if small else "principal component"
    axes.set_xlabel(f"{word} 1 ({shares[0]:.0%})")
    axes.set_ylabel(f"{word} 2 ({shares[1]:.0%})")
    style.dress(axes)
