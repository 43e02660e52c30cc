"""Results of probes: similarities of items as heat maps, the plane of their principal components, numbers by size."""

from __future__ import annotations

import logging
import math
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from numpy.typing import NDArray

from orchestrator.home.array_files import DAMAGED_ARRAYS
from orchestrator.home.run_files import read_arrays
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.figures import style
from orchestrator.report.figures.transitions import size_span, styles_of
from orchestrator.report.probe_findings import ProbePoint
from orchestrator.space.runs import Run
from orchestrator.system.text import counted, first_of
from trainables.base import Words
from trainables.probes.base import LARGEST_NUMBER
from trainables.probes.embeddings import principal

log = logging.getLogger(__name__)

SIMILARITY = "similarity"
"""Name of the array to draw."""
MOST_ITEMS = 256
"""Maximum number of items in a panel. The time for their principal components grows with the third power."""
MOST_ROWS = 20
"""Maximum number of mixes in a figure of similarities. A row takes up to a second."""
MOST_LABELS = 16
"""Maximum number of labels on an axis of items."""
MARGIN = 0.12
"""Margin around the points of a plane, as a share of their spread."""
FIGURE_IN = 3.5
"""Height of a run's figure in inches."""
PANEL_IN = 1.3
"""Height in inches of a mix's panels."""
WORDS_IN = 0.6
"""Height in inches of the text around a mix's panels."""
BAR_IN = 0.65
"""Height of the color bar in inches."""
COLUMNS_IN = (0.2, 1.9, 3.75, 5.45)
"""Left edges of the panels in inches."""
NAME_CHARACTERS = 22
"""Characters per line of a mix's name in an empty panel."""
NUMBERS_IN = (1.55, 0.55)
"""Heights in inches of a row of panels with numbers, and of the rest of the figure."""
MOST_SIZES = 5
"""Maximum number of labels on the size axis."""
BAR = "cosine similarity"
"""Label of a color bar."""
SCALE = (-1, -0.5, 0, 0.5, 1)
"""Labels of a color bar's ticks."""


def save_similarity(run: Path, path: Path, title: str, words: Words) -> bool:
    """Draw the similarities of a run to ``path``. Return False if the run has no readable similarities."""
    matrix = similarity_of(run)
    if not isinstance(matrix, str):
        style.save(similarity_figure(matrix, title, words), path)
    return not isinstance(matrix, str)


def similarity_of(run: Path) -> NDArray[np.float64] | str:
    """Return the cosine similarities [n, n] of a run or its probe. If they cannot be drawn, return why as the end of a
    sentence about them, or an empty string if there are none.

    Damaged similarities are logged.
    """
    try:
        array = read_arrays(run).get(SIMILARITY)
    except DAMAGED_ARRAYS as error:
        log.warning("The arrays in %s are damaged (%s): the figure omits them", run, error)
        return f"are damaged ({error})"
    if array is None:
        return ""
    if array.dtype.kind not in "fiu" or array.ndim != 2 or not array.shape[0] == array.shape[1] > 0:
        return "are not a square matrix of numbers"
    if len(array) > MOST_ITEMS:
        return f"are of {len(array):,} items, and a panel has room for {MOST_ITEMS}"
    matrix = np.asarray(array, np.float64)
    # For a NaN, the comparison is false.
    if not (np.abs(matrix) <= LARGEST_NUMBER).all():
        return f"are not from {-LARGEST_NUMBER:g} to {LARGEST_NUMBER:g}"
    return matrix


@style.own_style()
def similarity_figure(matrix: NDArray[np.float64], title: str, words: Words) -> Figure:
    """Draw cosine similarities [n, n] as a heat map, and their first two principal components."""
    figure = style.new_figure(FIGURE_IN)
    heat, plane = figure.subplots(1, 2)
    style.dress_bar(figure.colorbar(_heat_map(heat, matrix, words.item), ax=heat, ticks=SCALE), BAR)
    _draw_plane(plane, matrix, words)
    style.title(figure, title)
    return figure


def _odd(matrix: NDArray[np.float64], words: Words) -> range:
    """Return the odd items if they look different from even items: residues modulo an even number."""
    return range(1, len(matrix), 2) if words.cyclic and len(matrix) % 2 == 0 else range(0)


def _heat_map(axes: Axes, matrix: NDArray[np.float64], item: str) -> AxesImage:
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-1.0, vmax=1.0, interpolation="nearest")
    ticks = range(0, len(matrix), -(-len(matrix) // MOST_LABELS))
    axes.set(xticks=ticks, yticks=ticks, xlabel=item, ylabel=item)
    style.dress(axes, spines=())
    axes.tick_params(length=0)
    return image


def _draw_plane(axes: Axes, matrix: NDArray[np.float64], words: Words, *, small: bool = False) -> None:
    """Draw items at the first two principal components, joined in order. With parity, odd items are hollow."""
    variances, coordinates = principal(matrix)
    shares = variances / max(variances.sum(), 1e-300)
    x, y = coordinates[:, :2].T
    axes.plot(x, y, color=style.FAINT, linewidth=0.8, zorder=1)
    odd = _odd(matrix, words)
    fills = ["white" if item in odd else style.INK for item in range(len(matrix))]
    axes.scatter(x, y, s=70 if small else 150, c=fills, edgecolors=style.INK, linewidths=0.7, zorder=2)
    text_style: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": style.SMALL, "zorder": 3}
    for item, fill in enumerate(fills):
        axes.text(x[item], y[item], str(item), color=style.INK if fill == "white" else "white", **text_style)
    reach = (0.5 + MARGIN) * max(np.ptp(x), np.ptp(y), 1e-6)
    middles = [(values.min() + values.max()) / 2 for values in (x, y)]
    xlim, ylim = ((middle - reach, middle + reach) for middle in middles)
    axes.set(xlim=xlim, ylim=ylim, aspect="equal", xticks=[], yticks=[])
    component = "PC" if small else "principal component"
    axes.set(xlabel=f"{component} 1 ({shares[0]:.0%})", ylabel=f"{component} 2 ({shares[1]:.0%})")
    style.dress(axes)


@dataclass
class SimilarityReader:
    """Reads similarities of runs for figures, and keeps what the figures leave out.

    Attributes:
        flaws: Why the similarities of a run cannot be drawn, by the run's key.
        mixes_left: Number of mixes that have no row, because the figure has no room for more.
    """

    flaws: dict[str, str] = field(default_factory=dict)
    mixes_left: int = 0

    def of(self, run: Run) -> NDArray[np.float64] | None:
        """Return the similarities [n, n] of a run, or None if it has none that can be drawn."""
        matrix = similarity_of(run.directory)
        if not isinstance(matrix, str):
            return matrix
        if matrix:
            self.flaws[run.key] = matrix
        return None

    def notes(self) -> list[str]:
        """Return a sentence for each reason why similarities are not drawn."""
        keys_by_flaw: dict[str, list[str]] = {}
        for key, flaw in self.flaws.items():
            keys_by_flaw.setdefault(flaw, []).append(key)
        sentences = [
            f"The similarities of {counted(len(keys), 'run')} ({first_of(keys)}) are not drawn: they {flaw}."
            for flaw, keys in keys_by_flaw.items()
        ]
        if self.mixes_left:
            room = f"the figure has room for {MOST_ROWS} mixes, and leaves out {self.mixes_left}"
            sentences.append(f"Similarities are drawn for the first mixes only: {room}.")
        return sentences


class RunsAround(NamedTuple):
    """The runs nearest to a mix's transition on both sides, or, if not ``bracketed``, the runs of the extreme sizes."""

    mix: str
    below: Run | None
    above: Run | None
    bracketed: bool


def runs_around(
    answer: Answer, mix: MixAnswer, runs: Sequence[Run], reader: SimilarityReader | None = None
) -> RunsAround:
    """Return the runs next to a mix's transition. They have similarities, and median accuracy at their size."""
    reader = reader or SimilarityReader()
    own = [run for run in runs if run.config.label == mix.mix and run.is_finished]
    transition = mix.target.transition.relative
    sizes = sorted({run.config.size for run in own})

    def first(candidates: Iterable[int]) -> Run | None:
        """Return the run of lower median accuracy from the first size with similarities."""
        for size in candidates:  # A sweep may have thousands of runs: read only the arrays of these sizes.
            same = [run for run in own if run.config.size == size and reader.of(run) is not None]
            if same:
                same.sort(key=lambda run: (run.outcome.accuracy[answer.target], run.config.seed))
                return same[(len(same) - 1) // 2]
        return None

    if (value := transition.value) is not None:
        low = transition.low or 0
        high = transition.high or math.inf
        below = [*(size for size in sizes[::-1] if size <= low), *(size for size in sizes[::-1] if size < value)]
        above = [*(size for size in sizes if size >= high), *(size for size in sizes if size >= value)]
        return RunsAround(mix.mix, first(below), first(above), bracketed=True)
    smallest = first(sizes)
    largest = first(sizes[::-1])
    return RunsAround(mix.mix, smallest, None if largest is smallest else largest, bracketed=False)


@style.own_style()
def similarities_figure(answer: Answer, runs: Sequence[Run], reader: SimilarityReader | None = None) -> Figure | None:
    """Draw similarities and components on both sides of each mix's transition. Return None if no run has any.

    Args:
        answer: The sweep's answer.
        runs: The sweep's runs.
        reader: Reads the similarities, and keeps what the figure leaves out.
    """
    reader = reader or SimilarityReader()
    rows: list[RunsAround] = []
    for place, mix in enumerate(answer.mixes):
        if len(rows) == MOST_ROWS:
            reader.mixes_left = len(answer.mixes) - place
            break
        sides = runs_around(answer, mix, runs, reader)
        rows += [sides] if sides.below or sides.above else []
    if not rows:
        return None
    height = (PANEL_IN + WORDS_IN) * len(rows) + BAR_IN
    figure = style.new_figure(height)
    images = []
    parity = False
    figure.set_layout_engine(None)  # It would take a second for ten rows, and all panels have one size.

    def panel(left: float, bottom: float, width: float, high: float) -> Axes:
        return figure.add_axes((left / style.WIDTH_IN, bottom / height, width / style.WIDTH_IN, high / height))

    for place, sides in enumerate(rows, start=1):
        bottom = height - place * (PANEL_IN + WORDS_IN) + 0.22
        one, two, three, four = (panel(left, bottom, PANEL_IN, PANEL_IN) for left in COLUMNS_IN)
        for word, run, heat, plane in (("below", sides.below, one, two), ("above", sides.above, three, four)):
            matrix = None if run is None else reader.of(run)
            if run is None or matrix is None:
                missing = f"no run {word}\nits transition" if sides.bracketed else "no other run"
                heat.set_axis_off()
                plane.set_axis_off()
                centered: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": style.SMALL}
                text = f"{textwrap.fill(sides.mix, NAME_CHARACTERS)}:\n{missing}"
                heat.text(0.5, 0.5, text, transform=heat.transAxes, color=style.GRAY, **centered)
                continue
            images.append(_heat_map(heat, matrix, ""))
            _draw_plane(plane, matrix, answer.words, small=True)
            parity = parity or bool(_odd(matrix, answer.words))
            side = f", {word}" if sides.bracketed else ""
            scored = f"seed {run.config.seed}, {answer.target} {run.outcome.accuracy[answer.target]:.2f}"
            text = f"{sides.mix}{side}: {answer.size_axis} {run.config.size}\n{scored}"
            heat.set_title(text, fontsize=style.SMALL + 0.5, loc="left", color=style.INK)
    bar = figure.colorbar(images[0], cax=panel(1.0, 0.45, 3.5, 0.08), orientation="horizontal", ticks=SCALE)
    style.dress_bar(bar, BAR)
    if parity:
        figure.text(4.9 / style.WIDTH_IN, 0.42 / height, "hollow: odd", fontsize=style.TEXT, color=style.INK)
    return figure


@style.own_style()
def probe_figure(answer: Answer, numbers: Mapping[str, Sequence[ProbePoint]]) -> Figure:
    """Draw a panel per number: a point for each run, hollow if chance explains it, and means over seeds."""
    figure, grid = style.panels(list(numbers), NUMBERS_IN, sharey=False)
    styles = styles_of(mix.mix for mix in answer.mixes)
    for axes, points in zip(grid.flat, numbers.values(), strict=False):
        for mix, (color, marker) in styles.items():
            own = [point for point in points if point.mix == mix]
            for is_chance, fill in ((False, color), (True, "white")):
                drawn = [(point.size, point.value) for point in own if point.is_chance is is_chance]
                if drawn:  # One line of markers, because a figure of thousands of lines takes a minute.
                    axes.plot(*zip(*drawn, strict=True), marker, color=color, markerfacecolor=fill, markersize=3.5)
            by_size: dict[int, list[float]] = defaultdict(list)
            for point in own:
                by_size[point.size].append(point.value)
            means = [(size, sum(values) / len(values)) for size, values in sorted(by_size.items())]
            if means:
                axes.plot(*zip(*means, strict=True), color=color, linewidth=1, label=mix)
    sizes = sorted({point.size for points in numbers.values() for point in points})
    first = grid[0][0]
    first.set(xscale="log", xlim=size_span(answer))
    style.label_ticks(first.xaxis, {size: f"{size:g}" for size in sizes[:: -(-len(sizes) // MOST_SIZES)]})
    for axes in grid[-1]:
        axes.set_xlabel(answer.size_axis)
    first.legend(fontsize=style.SMALL, frameon=False)
    return figure
