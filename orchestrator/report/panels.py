"""A figure of the similarities that runs left below and above each mix's transition."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from orchestrator.home.probed import DAMAGED_ARRAYS, read_array
from orchestrator.home.records import RunRecord
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.figures import style
from orchestrator.report.figures.similarity import draw_plane, dress_bar, heat_map, is_similarity
from orchestrator.space.evidence import stands_for_its_size
from orchestrator.transition.types import Verdict

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


def similarity_of(run: RunRecord) -> NDArray[np.float64] | None:
    """The cosine similarities a run left, itself or through a probe; None without any."""
    array = read_array(run.directory, SIMILARITY)
    return None if array is None or not is_similarity(array) else np.asarray(array, np.float64)


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
        beside = style.panel(figure, 1.3, top_in + len(rows) * ROW_IN + 0.06, 4.4, 0.1)
        dress_bar(figure.colorbar(images[0], cax=beside, orientation="horizontal"))
    if title:
        style.title(figure, title)
    return figure


def kept_similarity(run: RunRecord) -> NDArray[np.float64] | None:
    """The same as :func:`similarity_of`; None also for damaged arrays."""
    return _similarity(run)[0]


def _similarity(run: RunRecord) -> tuple[NDArray[np.float64] | None, str]:
    """The similarities and ``""``, or None and the reason."""
    try:
        found = similarity_of(run)
    except DAMAGED_ARRAYS:
        return None, f"the arrays of\n{run.key} are damaged"
    return found, NONE_KEPT if found is None else ""


def _pair(answer: Answer, mix: MixAnswer, runs: Sequence[RunRecord]) -> Pair:
    """Arrays are read of the sizes looked at alone: a sweep may have thousands of runs."""
    verdict, found = mix.target.transition.verdict, mix.target.transition.relative
    rising = sorted({run.config.size for run in runs})
    falling = rising[::-1]

    def nearest(sizes: Sequence[int]) -> RunRecord | None:
        """The run of median accuracy of the first of these sizes that has one to show."""
        for size in sizes:
            same = [run for run in runs if run.config.size == size and _similarity(run)[1] != NONE_KEPT]
            if same:
                return sorted(same, key=_accuracy_on(answer.target))[(len(same) - 1) // 2]
        return None

    if (value := found.value) is not None:
        low, high = found.low or 0, found.high or math.inf
        below = nearest([size for size in falling if size <= low]) or nearest(
            [size for size in falling if size < value]
        )
        above = nearest([size for size in rising if size >= high]) or nearest(
            [size for size in rising if size >= value]
        )
        return Pair(mix.mix, below, above)
    if verdict is Verdict.BELOW:
        return Pair(mix.mix, None, nearest(rising))
    smallest, largest = nearest(rising), nearest(falling)
    if verdict in (Verdict.UNDECIDED, Verdict.NEAR_FLOOR) and smallest is not largest:
        return Pair(mix.mix, smallest, largest, bracketed=False)
    return Pair(mix.mix, largest, None, bracketed=False)


def _accuracy_on(target: str) -> Callable[[RunRecord], tuple[float, int]]:
    def key(run: RunRecord) -> tuple[float, int]:
        return run.outcome.accuracy[target], run.config.seed

    return key


def _empty(axes: Axes, text: str) -> None:
    axes.set_axis_off()
    settings: dict[str, Any] = {"ha": "center", "va": "center", "transform": axes.transAxes}
    axes.text(0.5, 0.5, text, fontsize=style.SMALL, color=style.GREY, **settings)
