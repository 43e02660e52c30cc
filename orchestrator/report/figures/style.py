"""The style of every figure, and writing figures to files and pages.

Use only Figure objects, never pyplot: background threads draw, and pyplot's state is global. Colors are Okabe and
Ito's, which color-blind readers can distinguish; series also differ in their markers, for gray prints. Text is drawn in
ink, never in the color of a series, so that it is readable on light and dark backgrounds.
"""

from __future__ import annotations

import io
import re
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colorbar import Colorbar
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from numpy.typing import NDArray

from orchestrator.system.files import replace_whole, write_whole

SETTINGS: dict[Any, Any] = {key: value for key, value in matplotlib.rcParamsDefault.items() if key != "backend"} | {
    "svg.hashsalt": "transition-sweeps",  # Without it ids inside an SVG are random: equal data give different files.
    "svg.fonttype": "none",  # Text in an SVG stays text.
    "pdf.fonttype": 42,  # TrueType: journals refuse Type 3.
    "ps.fonttype": 42,
    "text.parse_math": False,  # Questions and names are plain text, and "$" is a currency.
}
"""Matplotlib's defaults with our changes."""

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Colors of series."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Markers of series."""
INK = "#262626"
"""Color of text and axes."""
GRAY = "#6E6E6E"
"""Color of notes."""
FAINT = "#C8C8C8"
"""Color of lines in the background."""
WIDTH_IN = 7.0
"""Width of a figure, which fits the text width of a paper without scaling."""
NARROW_IN = 5.0
"""Figures narrower than this, such as a paper's column, have no text to the right of their panels."""
ON_PAGE = {"#262626": "currentColor", "#6e6e6e": "var(--soft)", "#c8c8c8": "var(--line)", "#ffffff": "var(--ground)"}
"""Colors of a light or dark page that replace ink, grays and white."""
DPI = 160
"""Dots per inch of images."""
COLUMNS = 3
"""Maximum number of panels next to each other."""
TITLE = 10.0
"""Font size of titles in points."""
TEXT = 9.0
"""Font size of text in points."""
SMALL = 7.5
"""Smallest font size in points. It is readable in print."""
TITLE_CHARACTERS = 84
"""Characters of a title that fit the standard width."""

_drawing = threading.RLock()
# Names may have characters that matplotlib's font lacks. An SVG shows them anyway.
warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning, module=__name__.replace(".", r"\."))


@contextmanager
def own_style() -> Iterator[None]:
    """Draw with :data:`SETTINGS`, then restore the user's settings.

    Settings are global to a process, so threads draw in turn.
    """
    with _drawing, matplotlib.rc_context(SETTINGS):
        yield


class Picture(Figure):
    """A figure that notebooks display although it is not pyplot's."""

    @own_style()
    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png")
        return buffer.getvalue()


def new_figure(height_in: float, width_in: float = WIDTH_IN) -> Figure:
    """Return an empty figure with an automatic layout."""
    return Picture(figsize=(width_in, height_in), dpi=DPI, facecolor="white", layout="constrained")


def panels(names: Sequence[str], heights_in: tuple[float, float], *, sharey: bool) -> tuple[Figure, NDArray[Any]]:
    """Return a figure with a panel for each name, and all panels as a grid."""
    across = min(COLUMNS, len(names))
    down = -(-len(names) // across)
    figure = new_figure(heights_in[0] * down + heights_in[1])
    grid = figure.subplots(down, across, sharex=True, sharey=sharey, squeeze=False)
    for index, axes in enumerate(grid.flat):
        dress(axes)
        axes.set_visible(index < len(names))
    for axes, name in zip(grid.flat, names, strict=False):
        axes.set_title(name, fontsize=TEXT, loc="left", color=INK)
    return figure, grid


def title(figure: Figure, text: str) -> None:
    """Put a title at the top left of the figure, wrapped to its width, unless it is empty."""
    if text:
        figure.suptitle(textwrap.fill(text, TITLE_CHARACTERS), fontsize=TITLE, color=INK, x=0.01, ha="left")


def dress(axes: Axes, *, spines: tuple[str, ...] = ("left", "bottom")) -> None:
    """Apply thin spines on the given sides, small ticks and readable labels."""
    for side, spine in axes.spines.items():
        spine.set_visible(side in spines)
        spine.set_linewidth(0.8)
        spine.set_color(INK)
    axes.tick_params(labelsize=SMALL + 0.5, colors=INK, width=0.8, length=3)
    axes.xaxis.label.set_fontsize(TEXT)
    axes.yaxis.label.set_fontsize(TEXT)


def label_ticks(axis: Axis, labels: Mapping[float, str]) -> None:
    """Label these positions of an axis, and no others."""
    axis.set_ticks([*labels], labels=[*labels.values()])
    axis.set_minor_locator(NullLocator())


def dress_bar(bar: Colorbar, label: str) -> None:
    """Label a color bar in the style of an axis."""
    bar.set_label(label, fontsize=TEXT)
    bar.ax.tick_params(labelsize=SMALL, width=0.6, length=2)
    bar.outline.set_visible(False)


@own_style()
def settle(figure: Figure) -> None:
    """Compute the layout of a finished figure once. Otherwise every save computes it and draws twice."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)


REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
"""Character in the place of those in :data:`NOT_XML`."""
NOT_XML = re.compile("[^\t\n\r -~\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML forbids or discourages. A browser would not show the figure: a name in a home may have them."""


@own_style()
def inline_svg(figure: Figure, name: str, label: str) -> str:
    """Return a deterministic ``<svg>`` in the page's colors. Ids start with ``name``; screen readers read ``label``."""
    settle(figure)
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = NOT_XML.sub(REPLACEMENT, buffer.getvalue())
    inner = text[text.index(">", text.index("<svg ")) + 1 :]
    inner = re.sub(r' id="image[0-9a-f]+"', "", inner)  # Unused, and two images may be equal.
    inner = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", inner)
    inner = re.sub("|".join(ON_PAGE), lambda match: ON_PAGE[match[0]], inner)
    inner = re.sub(r" font-family: [^;\"]*;", "", inner)  # The page has its own font.
    described = escape(NOT_XML.sub(REPLACEMENT, label))
    width, height = (72 * side for side in figure.get_size_inches())
    return (
        f'<svg role="img" aria-label="{described}" width="100%" style="max-width:{width / 72:.2f}in" '
        f'viewBox="0 0 {width:g} {height:g}" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'xmlns="http://www.w3.org/2000/svg" version="1.1">{inner}'
    )


@own_style()
def save(figure: Figure, path: Path, write: Callable[[Path, bytes], None] = write_whole) -> Path:
    """Write a figure in one rename, in the format of the suffix (``.png``, ``.svg``, ``.pdf``)."""
    settle(figure)
    # Without dates the same data give the same file.
    undated = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix, {})
    figure.savefig(buffer := io.BytesIO(), format=path.suffix[1:], metadata=undated)
    write(path, buffer.getvalue())
    return path


def save_both(figure: Figure, directory: Path, stem: str) -> list[Path]:
    """Write the figure as ``stem.png`` for screens and ``stem.svg`` for print, into the directory of a sweep."""
    return [save(figure, directory / f"{stem}.{suffix}", replace_whole) for suffix in ("png", "svg")]
