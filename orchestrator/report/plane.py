"""Items on their first two principal components, named and joined in order. Knows only numpy and matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from orchestrator.report import style
from orchestrator.report.labels import placed

MARGIN = 0.16
"""Room around the points, as a share of their spread."""
FEW = 12
"""Up to so many points are drawn large."""
LETTER_PT = 0.62
"""Width of a digit, in sizes of its type."""


class Plane:
    """Axes that stay where they are and show one matrix of similarities after another."""

    def __init__(self, axes: Axes, names: Sequence[str], *, small: bool = False, cyclic: bool = False) -> None:
        self._axes = axes
        self._word = "PC" if small else "principal component"
        self._area = 22.0 if small else 70.0 if len(names) <= FEW else 45.0
        self._names = tuple(names)
        origin = np.zeros(len(names))
        (self._joined,) = axes.plot(origin, origin, color=style.FAINT, linewidth=0.8, zorder=1)
        self._classes = residue_classes(len(names), cyclic=cyclic)
        self._points = [axes.scatter([], [], **look, s=self._area, linewidths=0.6, zorder=2) for look in self._looks()]
        self._labels = [
            axes.annotate(
                name,
                (0, 0),
                xytext=(0, 0),
                textcoords="offset points",
                ha="center",
                va="center",
                fontsize=style.SMALL,
                arrowprops={"arrowstyle": "-", "color": style.GREY, "linewidth": 0.4, "shrinkA": 0, "shrinkB": 2},
            )
            for name in names
        ]
        axes.locator_params(nbins=4)
        style.dress(axes)

    def show(self, similarity: NDArray[Any]) -> None:
        """Put the points, the line through them and their names where these similarities [n, n] say."""
        scores, shares = principal_components(similarity)
        per_pt = self._frame(scores)
        self._joined.set_data(scores[:, 0], scores[:, 1])
        for points, members in zip(self._points, self._classes, strict=True):
            points.set_offsets(scores[members])
        radius = float(np.sqrt(self._area)) / 2
        longest = max(len(name) for name in self._names)
        width, height = longest * LETTER_PT * style.SMALL, style.SMALL
        centres = placed(scores / per_pt, width, height, radius=radius, above=radius + height / 2 + 1)
        for label, place, centre in zip(self._labels, scores, centres, strict=True):
            label.xy = (place[0], place[1])
            label.set_position(tuple(centre - place / per_pt))
        name_axes(self._axes, shares, self._word)

    def _looks(self) -> list[dict[str, Any]]:
        """A colour and a marker a residue; where there are none, shades from the first item to the last."""
        if len(self._classes) > 1:
            return [
                {
                    "color": style.COLOURS[place % len(style.COLOURS)],
                    "marker": style.MARKERS[place % len(style.MARKERS)],
                }
                for place in range(len(self._classes))
            ]
        return [{"c": [], "cmap": "cividis", "edgecolors": "white"}]

    def _frame(self, scores: NDArray[np.float64]) -> float:
        """Set limits so that both axes have one scale; returns it, in scores a point (1/72 inch)."""
        if len(self._classes) == 1:
            self._points[0].set_array(np.arange(len(scores)))
            self._points[0].set_clim(0, max(len(scores) - 1, 1))
        figure = self._axes.get_figure(root=True)
        assert figure is not None, "a plane is drawn into axes of a figure"
        box, (figure_width, figure_height) = self._axes.get_position(), figure.get_size_inches()
        size_pt = 72 * np.array([box.width * figure_width, box.height * figure_height])
        spread = scores.max(axis=0) - scores.min(axis=0)
        per_pt = float((spread / size_pt).max()) * (1 + 2 * MARGIN) or 1 / float(size_pt.min())
        middle, half = (scores.max(axis=0) + scores.min(axis=0)) / 2, per_pt * size_pt / 2
        self._axes.set_xlim(middle[0] - half[0], middle[0] + half[0])
        self._axes.set_ylim(middle[1] - half[1], middle[1] + half[1])
        return per_pt


def residue_classes(count: int, *, cyclic: bool) -> list[NDArray[np.intp]]:
    """The items by their residue modulo the smallest divisor of their ``count``, where residues mean something and
    there is such a divisor; else all in one class."""
    divisor = next((each for each in range(2, count) if count % each == 0), 1) if cyclic else 1
    return [np.arange(residue, count, divisor) for residue in range(divisor)]


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


def name_axes(axes: Axes, shares: NDArray[np.float64], word: str = "principal component") -> None:
    """Label the two axes of a principal plane with their shares [2] of the variance."""
    axes.set_xlabel(f"{word} 1 ({shares[0]:.0%})")
    axes.set_ylabel(f"{word} 2 ({shares[1]:.0%})")
