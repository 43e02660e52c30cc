"""Pictures of the arrays that runs leave: by the name of the array, a function that draws it.

An array whose name is not registered is stored and recorded like any other and has no picture.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from numpy.typing import NDArray

from orchestrator.report.probe_pictures import (
    draw_answers,
    draw_attention_share,
    draw_components,
    draw_exchanged,
    draw_manifold,
)
from orchestrator.report.similarity import SimilarityPicture, is_similarity
from orchestrator.report.style import save
from orchestrator.store.probed import DAMAGED_ARRAYS, read_array
from trainables.base import Words

Draw = Callable[[NDArray[Any], str, Words], Figure | None]
"""Draws an array under a title, in a family's words; None for an array of a form that it does not know. The figure may
be the same one each time, changed: save it before the next is drawn."""


class SimilarityDrawing:
    """Draws ``similarity`` [n, n], laid out once for every n."""

    def __init__(self) -> None:
        self._laid_out: dict[tuple[int, Words], SimilarityPicture] = {}

    def __call__(self, array: NDArray[Any], title: str, words: Words) -> Figure | None:
        if not is_similarity(array):
            return None
        kind = (len(array), words)
        if kind not in self._laid_out:
            names = [str(row) for row in range(len(array))]
            self._laid_out[kind] = SimilarityPicture(names, words.item, cyclic=words.cyclic)
        return self._laid_out[kind].show(array, title)


PICTURES: dict[str, Callable[[], Draw]] = {
    "similarity": SimilarityDrawing,
    "components": lambda: draw_components,
    "manifold": lambda: draw_manifold,
    "attention_share": lambda: draw_attention_share,
    "answers": lambda: draw_answers,
    "exchanged": lambda: draw_exchanged,
}
"""For the name of an array what makes a function that draws it; one such function serves one thread."""


class Gallery:
    """Draws what runs left. For one thread at a time: figures are reused from run to run."""

    def __init__(self) -> None:
        self._draw = {name: make() for name, make in PICTURES.items()}

    def figure(self, run: Path, name: str, title: str, words: Words) -> Figure | None:
        """The picture of one array in a run's directory; None where there is no such array, or no picture of it."""
        draw, array = self._draw.get(name), read_array(run, name)
        return None if draw is None or array is None else draw(array, title, words)

    def save(self, run: Path, directory: Path, title: str, words: Words) -> dict[str, Path]:
        """Draw every array of a run that has a picture into ``directory``; the files by name (``similarity.png``). What
        is damaged has none."""
        files = {}
        for name in self._draw:
            try:
                figure = self.figure(run, name, title, words)
            except DAMAGED_ARRAYS:
                continue
            if figure is not None:
                files[f"{name}.png"] = save(figure, directory / f"{name}.png")
        return files
