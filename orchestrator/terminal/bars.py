"""Where a transition may lie, as a small bar over the sizes: the same while a sweep runs and when it is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rich.console import Console
from rich.text import Text

from orchestrator.transition.types import Density
from trainables.words import Words

CELLS = 18
GLYPHS = {"unlearned": "·", "open": "░", "learned": "━"}
ASCII_GLYPHS = {"unlearned": ".", "open": "?", "learned": "="}
"""What is known of sizes; none of these is a height, so that nothing improbable looks like the most probable."""
STYLES = {"unlearned": "dim", "open": "yellow", "learned": "green"}
HEIGHTS, ASCII_HEIGHTS = "▁▂▃▄▅▆▇█", ":+*#"
"""How probable it is that a mix's transition lies in a cell of its bar, against the bar's most probable cell."""
SHOWN = 0.02
"""Cells less probable than this show what is known of their sizes instead."""


def posterior_bar(
    sizes: Sequence[int],
    posterior: Sequence[float],
    low: float | None,
    high: float | None,
    *,
    ascii_only: bool = False,
) -> Text:
    """The sizes as cells, as high as it is probable that the transition lies there; improbable ones show whether they
    are known not to learn (up to ``low``), open, or known to learn (from ``high``). ``>`` stands for a transition
    beyond all sizes.

    ``posterior`` is what :func:`by_size` gives, or empty. Several sizes share a cell where there are many; a cell is
    open as long as one of its sizes is.
    """
    glyphs, heights = (ASCII_GLYPHS, ASCII_HEIGHTS) if ascii_only else (GLYPHS, HEIGHTS)
    count = min(CELLS, len(sizes))
    starts = [cell * len(sizes) // count for cell in range(count + 1)]
    shares = [sum(posterior[start:end]) for start, end in pairwise(starts)]
    bar = Text()
    for cell in range(count):
        held = sizes[starts[cell] : starts[cell + 1]]
        if low is not None and held[-1] <= low:
            kind = "unlearned"
        elif high is not None and held[0] >= high:
            kind = "learned"
        else:
            kind = "open"
        height = min(int(shares[cell] / max(SHOWN, *shares) * len(heights)), len(heights) - 1)
        bar.append(heights[height] if shares[cell] >= SHOWN else glyphs[kind], STYLES[kind])
    if posterior:
        bar.append(">" if posterior[-1] >= SHOWN else " ", STYLES["open"])
    return bar


def legend(words: Words, *, ascii_only: bool = False) -> str:
    """What the signs of a bar mean, in a line."""
    glyphs, heights = (ASCII_GLYPHS, ASCII_HEIGHTS) if ascii_only else (GLYPHS, HEIGHTS)
    high, learn = f"{heights[0]} to {heights[-1]}", words.learn
    known = f"{glyphs['unlearned']} too small to {learn}, {glyphs['learned']} large enough, {glyphs['open']} not known"
    return f"bar, from the smallest size to the largest: {high} how probable the transition is there; elsewhere {known}"


def speaks_ascii(console: Console) -> bool:
    """Whether a console's encoding lacks the blocks that bars are drawn with."""
    return not console.encoding.lower().startswith("utf")


def by_size(density: Density, sizes: Sequence[int]) -> tuple[float, ...]:
    """The probability that a transition lies at each size (above the one before it) and, last, above all of them."""
    edges = (0.0, *map(float, sizes))
    masses = [
        sum(mass for place, mass in zip(density.sizes, density.weights, strict=True) if low < place <= high)
        for low, high in pairwise(edges)
    ]
    return (*masses, max(0.0, 1.0 - sum(masses)))
