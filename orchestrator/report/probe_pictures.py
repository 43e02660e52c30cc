"""Pictures of what probes leave besides similarities: components, shares."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from orchestrator.report import style
from trainables.base import Words

BARS_IN, PLANE_IN = 2.6, 4.6
LEFT_IN, RIGHT_IN, ABOVE_IN, BELOW_IN = 0.75, 0.12, 0.08, 0.5
"""Inches: left of the panel, right of it, between a title and the panel, and below it."""


def draw_attention_share(array: NDArray[Any], title: str, words: Words) -> Figure | None:
    """Attention's share of what is written to the stream [applications], as bars; the dashed line is half."""
    figure = _bars(array, title, "application of a block", "attention's share of the update")
    if figure is not None:
        axes = figure.axes[0]
        axes.set_ylim(0, 1)
        axes.axhline(0.5, color=style.GREY, linewidth=0.8, linestyle=(0, (4, 3)))
    return figure


def draw_components(array: NDArray[Any], title: str, words: Words) -> Figure | None:
    """Items [n, 3] in the plane of their first two components, each with its number, in their order as a faint line."""
    return _plane(array, f"{title}: {words.item}s by how alike they are", "first component", "second component")


def draw_manifold(array: NDArray[Any], title: str, words: Words) -> Figure | None:
    """Items [n, 2] in the map of Isomap, as :func:`draw_components` draws theirs."""
    return _plane(array, f"{title}: {words.item}s in the map of Isomap", "first coordinate", "second coordinate")


def draw_answers(array: NDArray[Any], title: str, words: Words) -> Figure | None:
    """How often each item [tasks, n] is the answer, a line a task, in the order of the mix; the dashed line is an even
    share."""
    if array.ndim != 2 or not array.size or not np.isfinite(array).all():
        return None
    figure, axes = _panel(BARS_IN, title)
    for place, shares in enumerate(array):
        colour, marker = style.COLOURS[place % len(style.COLOURS)], style.MARKERS[place % len(style.MARKERS)]
        axes.plot(shares, color=colour, marker=marker, linewidth=1, label=f"{words.task} {place + 1}")
    axes.axhline(1 / array.shape[1], color=style.GREY, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.set_ylim(bottom=0)
    axes.set_xlabel(words.item)
    axes.set_ylabel("share of answers")
    axes.legend(frameon=False, fontsize=style.SMALL)
    style.dress(axes)
    return figure


def draw_exchanged(array: NDArray[Any], title: str, words: Words) -> Figure | None:
    """The answers after an exchange (columns) by those before (rows) [n, n], as shares: on the diagonal what stayed."""
    if array.ndim != 2 or len(array) != array.shape[-1] or not len(array) or not np.isfinite(array).all():
        return None
    figure, axes = _panel(PLANE_IN, title)
    image = axes.imshow(array, cmap="Blues", vmin=0, vmax=1)
    figure.colorbar(image, ax=axes, shrink=0.8, label="share of the answers before")
    axes.set_xlabel(f"{words.item} answered once an argument's group is exchanged")
    axes.set_ylabel(f"{words.item} answered before")
    style.dress(axes)
    return figure


def _plane(array: NDArray[Any], title: str, across: str, up: str) -> Figure | None:
    if array.ndim != 2 or array.shape[1] < 2 or not len(array) or not np.isfinite(array).all():
        return None
    figure, axes = _panel(PLANE_IN, title)
    axes.plot(array[:, 0], array[:, 1], color=style.FAINT, linewidth=0.8, zorder=1)
    axes.scatter(array[:, 0], array[:, 1], s=150, color=style.COLOURS[0], zorder=2)
    for item, (x, y) in enumerate(array[:, :2]):
        axes.annotate(str(item), (x, y), ha="center", va="center", fontsize=style.SMALL, color="white", zorder=3)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.1)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    style.dress(axes)
    return figure


def _bars(array: NDArray[Any], title: str, across: str, up: str) -> Figure | None:
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        return None
    figure, axes = _panel(BARS_IN, title)
    places = np.arange(1, 1 + len(array))
    axes.bar(places, array, color=style.COLOURS[0], width=0.7)
    axes.set_xticks(places[:: max(1, len(places) // 16)])
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    style.dress(axes)
    return figure


def _panel(height_in: float, title: str) -> tuple[Figure, Axes]:
    """A figure under this title with one panel."""
    figure = style.fixed_figure(height_in)
    style.title(figure, title)
    top_in = style.title_in(title) + ABOVE_IN
    width_in = style.WIDTH_IN - LEFT_IN - RIGHT_IN
    return figure, style.panel(figure, LEFT_IN, top_in, width_in, height_in - top_in - BELOW_IN)
