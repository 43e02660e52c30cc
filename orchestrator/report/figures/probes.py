"""Findings of probes: their numbers against size, and pictures of the arrays that runs leave."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from orchestrator.home.run_files import DAMAGED_ARRAYS, numbers_of, read_array
from orchestrator.home.sweeps import RunRecord
from orchestrator.report.answer import Answer
from orchestrator.report.figures import style
from orchestrator.report.figures.rows import mix_styles
from orchestrator.report.figures.similarity import draw_items, is_similarity, similarity_figure
from orchestrator.report.probed import CHANCE, PREFIX
from orchestrator.space.evidence import stands_for_its_size
from trainables.base import Words

COLUMNS, MOST = 4, 36
"""Panels in a row, and at most (:func:`shared_out`); the table has all numbers."""
ROW_IN, ABOVE_IN, LEFT_IN, UNDER_IN, BELOW_IN = 1.5, 0.3, 0.44, 0.18, 0.25
"""Inches: the height of a panel with its two lines of title above and its sizes under it, the width of the numbers to
its left, and the name of the axis below all."""
LINE_IN, LETTER_IN, HANDLE_IN = 0.17, 0.062, 0.4
"""Inches: a line of the legend, a character of a name in it, and the marker of a name."""
EDGE = 0.05
"""Room outside the outermost sizes, as a share of the axis."""
BARS_IN, PLANE_IN = 2.6, 4.6
SIDES_IN, TOP_IN, BOTTOM_IN = (0.75, 0.12), 0.08, 0.5
"""Inches: left and right of an array's panel, between a title and it, and below it."""


def probe_figure(answer: Answer, runs: Sequence[RunRecord], title: str = "") -> Figure | None:
    """A panel for each number: a point for each run, a line through the means over seeds. None without any."""
    found = [
        (run, numbers)
        for run in runs
        if stands_for_its_size(run.config, run.outcome) and (numbers := numbers_of(run.directory))
    ]
    names = shared_out({name for _, numbers in found for name in numbers if not name.endswith(CHANCE)})
    if not names:
        return None
    mixes = [mix.mix for mix in answer.mixes]
    across = max(1, min(COLUMNS, int(style.WIDTH_IN / (HANDLE_IN + LETTER_IN * max(map(len, mixes))))))
    top_in = style.title_in(title) + LINE_IN * (math.ceil(len(mixes) / across) + 0.5)
    figure = style.fixed_figure(top_in + ROW_IN * math.ceil(len(names) / COLUMNS) + BELOW_IN)
    panel_in = style.WIDTH_IN / COLUMNS
    sizes = sorted({run.config.size for run, _ in found})
    for place, name in enumerate(names):
        row, column = divmod(place, COLUMNS)
        left_in, above_in = column * panel_in + LEFT_IN, top_in + row * ROW_IN + ABOVE_IN
        axes = style.panel(figure, left_in, above_in, panel_in - LEFT_IN - 0.1, ROW_IN - ABOVE_IN - UNDER_IN)
        _draw_numbers(axes, answer, [(run, numbers[name]) for run, numbers in found if name in numbers], sizes)
        probe, _, number = name.removeprefix(PREFIX).partition("/")
        axes.set_title(f"{probe}\n{number}", fontsize=style.SMALL, loc="left", color=style.INK, pad=3)
    height_in = figure.get_figheight()
    figure.legend(
        *figure.axes[0].get_legend_handles_labels(),
        loc="upper center",
        bbox_to_anchor=(0.5, 1 - style.title_in(title) / height_in),
        ncols=across,
        frameon=False,
        fontsize=style.SMALL,
        borderaxespad=0.2,
    )
    figure.supxlabel(answer.size_axis, y=0.05 / height_in, va="bottom", fontsize=style.TEXT, color=style.INK)
    if title:
        style.title(figure, title)
    return figure


def shared_out(names: Collection[str]) -> list[str]:
    """The numbers that get a panel, in their order: every probe's first one, every probe's second, and so on, so that
    a probe with many numbers leaves room for the others."""
    ranked = []
    for _, its_names in groupby(sorted(names), key=lambda name: name.split("/")[1]):
        ranked += [(rank, name) for rank, name in enumerate(its_names)]
    return sorted(name for _, name in sorted(ranked)[:MOST])


def _draw_numbers(axes: Axes, answer: Answer, values: Sequence[tuple[RunRecord, float]], shown: Sequence[int]) -> None:
    known = mix_styles(answer)
    for mix in answer.mixes:
        mine = [(run.config.size, value) for run, value in values if run.config.label == mix.mix]
        sizes = sorted({size for size, _ in mine})
        means = [float(np.mean([value for size, value in mine if size == each])) for each in sizes]
        colour, marker = known[mix.mix].colour, known[mix.mix].marker
        axes.plot(np.log(sizes), means, color=colour, linewidth=1.1, marker=marker, markersize=2.5, label=mix.mix)
        axes.scatter(np.log([size for size, _ in mine]), [value for _, value in mine], s=4, color=colour, alpha=0.4)
    # Logarithms on a plain axis: a logarithmic one takes ten times as long to make, and only its ends are labelled.
    low, high = np.log(shown[0]), np.log(shown[-1])
    room = EDGE * (high - low) or 1.0
    axes.set_xlim(low - room, high + room)
    ends = [shown[0], shown[-1]] if len(shown) > 1 else shown
    axes.set_xticks(np.log(ends), labels=[str(size) for size in ends])
    axes.yaxis.set_major_locator(MaxNLocator(3))
    style.dress(axes)
    axes.tick_params(labelsize=style.SMALL)


Draw = Callable[[NDArray[Any], str, Words], Figure | None]
"""Draws an array under a title, in a family's words; None for an array of an unknown form."""


def draw_similarity(array: NDArray[Any], title: str, words: Words) -> Figure | None:
    """Cosine similarities [n, n]."""
    if not is_similarity(array):
        return None
    return similarity_figure(array, title, item=words.item, cyclic=words.cyclic)


def draw_attention_share(array: NDArray[Any], title: str, words: Words) -> Figure | None:
    """Attention's share of what is written to the stream [applications], as bars; the line is half."""
    if array.ndim != 1 or not len(array) or not np.isfinite(array).all():
        return None
    figure, axes = _panel(BARS_IN, title)
    places = np.arange(1, 1 + len(array))
    axes.bar(places, array, color=style.GREY, width=0.7)
    axes.set_xticks(places[:: max(1, len(places) // 16)])
    axes.axhline(0.5, color=style.INK, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.set_ylim(0, 1)
    axes.set_xlabel("application of a block")
    axes.set_ylabel("attention's share of the update")
    style.dress(axes)
    return figure


def draw_components(array: NDArray[Any], title: str, words: Words) -> Figure | None:
    """Items [n, 3] in the plane of their first two components."""
    return _plane(array, f"{title}: {words.item}s by how alike they are", "first component", "second component")


def draw_manifold(array: NDArray[Any], title: str, words: Words) -> Figure | None:
    """Items [n, 2] in the map of Isomap."""
    return _plane(array, f"{title}: {words.item}s in the map of Isomap", "first coordinate", "second coordinate")


def draw_answers(array: NDArray[Any], title: str, words: Words) -> Figure | None:
    """How often each item [tasks, n] is the answer, a line a task, in the order of the mix; the dashed line is an even
    share."""
    if not _is_matrix(array):
        return None
    figure, axes = _panel(BARS_IN, title)
    for place, shares in enumerate(array):
        colour, marker = style.COLOURS[place % len(style.COLOURS)], style.MARKERS[place % len(style.MARKERS)]
        axes.plot(shares, color=colour, marker=marker, linewidth=1.2, label=f"{words.task} {place + 1}")
    style.dress(axes)
    axes.axhline(1 / array.shape[1], color=style.GREY, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.set_ylim(bottom=0)
    axes.set_xlabel(words.item)
    axes.set_ylabel("share of answers")
    axes.legend(frameon=False, fontsize=style.SMALL)
    return figure


def draw_exchanged(array: NDArray[Any], title: str, words: Words) -> Figure | None:
    """The answers after an exchange (columns) by those before (rows) [n, n], as shares: on the diagonal what stayed."""
    if not _is_matrix(array) or len(array) != array.shape[1]:
        return None
    figure, axes = _panel(PLANE_IN, title)
    image = axes.imshow(array, cmap="Blues", vmin=0, vmax=1)
    figure.colorbar(image, ax=axes, shrink=0.8, label="share of the answers before")
    axes.set_xlabel(f"{words.item} answered once an argument's group is exchanged")
    axes.set_ylabel(f"{words.item} answered before")
    style.dress(axes)
    return figure


PICTURES: dict[str, Draw] = {
    "similarity": draw_similarity,
    "components": draw_components,
    "manifold": draw_manifold,
    "attention_share": draw_attention_share,
    "answers": draw_answers,
    "exchanged": draw_exchanged,
}
"""Drawings by the name of the array; an array of another name is stored and recorded like any other."""


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


def _plane(array: NDArray[Any], title: str, across: str, up: str) -> Figure | None:
    if not _is_matrix(array) or array.shape[1] < 2:
        return None
    figure, axes = _panel(PLANE_IN, title)
    draw_items(axes, array[:, :2], [str(item) for item in range(len(array))])
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    return figure


def _panel(height_in: float, title: str) -> tuple[Figure, Axes]:
    """A figure under this title with one panel."""
    figure = style.fixed_figure(height_in)
    style.title(figure, title)
    top_in = style.title_in(title) + TOP_IN
    width_in = style.WIDTH_IN - SIDES_IN[0] - SIDES_IN[1]
    return figure, style.panel(figure, SIDES_IN[0], top_in, width_in, height_in - top_in - BOTTOM_IN)
