"""A sweep at one moment as plain values, for live view and monitoring, and its posterior as a bar."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rich.text import Text

from orchestrator.search.base import MixProgress
from orchestrator.transition.types import Density

CELLS = 18
GLYPHS = {"unlearned": "·", "open": "░", "learned": "━"}
"""Signs for known and unknown sizes. They are flat, so that nothing improbable looks probable."""
STYLES = {"unlearned": "dim", "open": "yellow", "learned": "green"}
HEIGHTS = "▁▂▃▄▅▆▇█"
"""Heights for the probability of the transition in a cell, relative to the most probable cell."""
SHOWN = 0.02
"""Cells below this probability show :data:`GLYPHS` instead."""


@dataclass(frozen=True)
class RunProgress:
    """A run in training, with the target's last ``accuracy`` and an upper bound ``left_s``, None while unknown."""

    mix: str
    size: int
    seed: int
    step: int
    steps: int
    accuracy: float | None
    left_s: float | None = None


@dataclass(frozen=True)
class Counts:
    """Runs of a mix that ended so far, by status."""

    finished: int = 0
    diverged: int = 0
    failed: int = 0

    @property
    def total(self) -> int:
        return self.finished + self.diverged + self.failed


@dataclass(frozen=True)
class SoFar:
    """A mix's transition so far, in the answer table's ``words``. ``posterior`` is from :func:`by_size`."""

    words: str
    found: bool
    posterior: tuple[float, ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """A sweep at one moment.

    ``so_far`` contains the mixes with runs. ``left_s`` is the time left; at 0 the estimate has run out, and no run has
    ended since. ``trained_s`` is the training time of ended runs, and ``grid_s`` the time of every size with every
    seed, None while unknown. ``steps_per_s`` counts optimizer steps of all runs together over the last minute.
    """

    size_axis: str
    sizes: tuple[int, ...]
    mixes: tuple[MixProgress, ...]
    counts: Mapping[str, Counts] = field(default_factory=dict)
    in_flight: tuple[RunProgress, ...] = ()
    elapsed_s: float = 0.0
    left_s: float = 0.0
    trained_s: float = 0.0
    grid_s: float | None = None
    steps_per_s: float | None = None
    so_far: Mapping[str, SoFar] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def posterior_bar(sizes: Sequence[int], posterior: Sequence[float], low: float | None, high: float | None) -> Text:
    """Return the sizes as cells, with heights for the probability that the transition is there.

    Improbable cells show whether they do not learn (up to ``low``), are open, or learn (from ``high``). ``>`` is a
    transition beyond all sizes. Sizes may share a cell, which is open if one of them is. ``posterior`` is from
    :func:`by_size`, or empty.
    """
    count = min(CELLS, len(sizes))
    starts = [cell * len(sizes) // count for cell in range(count + 1)]
    shares = [sum(posterior[start:end]) for start, end in pairwise(starts)]
    bar = Text()
    for cell in range(count):
        own = sizes[starts[cell] : starts[cell + 1]]
        if low is not None and own[-1] <= low:
            kind = "unlearned"
        elif high is not None and own[0] >= high:
            kind = "learned"
        else:
            kind = "open"
        height = min(int(shares[cell] / max(SHOWN, *shares) * len(HEIGHTS)), len(HEIGHTS) - 1)
        bar.append(HEIGHTS[height] if shares[cell] >= SHOWN else GLYPHS[kind], STYLES[kind])
    if posterior:
        bar.append(">" if posterior[-1] >= SHOWN else " ", STYLES["open"])
    return bar


def by_size(density: Density, sizes: Sequence[int]) -> tuple[float, ...]:
    """Return the probability of a transition at each size (above the previous size) and, last, above all sizes."""
    edges = (0.0, *map(float, sizes))
    masses = [
        sum(mass for place, mass in zip(density.sizes, density.weights, strict=True) if low < place <= high)
        for low, high in pairwise(edges)
    ]
    return (*masses, max(0.0, 1.0 - sum(masses)))
