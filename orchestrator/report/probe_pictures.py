"""Pictures of what probes leave beside similarities: spectra, components, shares."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from orchestrator.report import style
from trainables.base import Words

BARS_IN, PLANE_IN = 2.6, 4.6


def draw_spectrum(array: NDArray[Any], title: str, words: Words) -> Figure | None:
    """Shares of variance [K] at the frequencies 1..K as bars; the dashed line is an even share."""
    return _bars(array, title, "frequency on the ring", "share of variance", first=1, even=True)


def draw_attention_share(array: NDArray[Any], title: str, words: Words) -> Figure | None:
    """Attention's share of what is written to the stream [applications], as bars; the dashed line is half."""
    figure = _bars(array, title, "application of a block", "attention's share of the update", first=1, even=False)
    if figure is not None:
        axes = figure.axes[0]
        axes.set_ylim(0, 1)
        axes.axhline(0.5, color=style.GREY, linewidth=0.8, linestyle=(0, (4, 3)))
    return figure


def draw_components(array: NDArray[Any], title: str, words: Words) -> Figure | None:
    """Items [n, 3] in the plane of their first two components, each with its number, in their order as a faint line."""
    if array.ndim != 2 or array.shape[1] < 2 or not len(array) or not np.isfinite(array).all():
        return None
    figure = style.new_figure(PLANE_IN)
    axes = figure.subplots()
    axes.plot(array[:, 0], array[:, 1], color=style.FAINT, linewidth=0.8, zorder=1)
    axes.scatter(array[:, 0], array[:, 1], s=150, color=style.COLOURS[0], zorder=2)
    for item, (x, y) in enumerate(array[:, :2]):
        axes.annotate(str(item), (x, y), ha="center", va="center", fontsize=style.SMALL, color="white", zorder=3)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.1)
    axes.set_xlabel("first component")
    axes.set_ylabel("second component")
    _finish(figure, axes, f"{title}: {words.item}s by how alike they are")
    return figure


def _bars(array: NDArray[Any], title: str, across: str, up: str, *, first: int, even: bool) -> Figure | None:
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        return None
    figure = style.new_figure(BARS_IN)
    axes = figure.subplots()
    places = np.arange(first, first + len(array))
    axes.bar(places, array, color=style.COLOURS[0], width=0.7)
    axes.set_xticks(places[:: max(1, len(places) // 16)])
    if even:
        axes.axhline(1 / len(array), color=style.GREY, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    _finish(figure, axes, title)
    return figure


def _finish(figure: Figure, axes: Axes, title: str) -> None:
    style.dress(axes)
    style.title(figure, title)
