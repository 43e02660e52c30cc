"""A sweep's main figure and its caption, and forest plots of several sweeps or of the recipes of one sweep."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from orchestrator.history.sweeps import Sweep
from orchestrator.report.answer import Answer
from orchestrator.report.figures import style
from orchestrator.report.figures.transitions import bar_of, draw_bar, styles_of, transitions_figure
from orchestrator.report.rows import Row, targets
from orchestrator.report.sentences.findings import compared_text
from orchestrator.report.sentences.origin import imported_text
from orchestrator.report.side_by_side import LabeledAnswer, finding, recipes_of
from orchestrator.system.errors import UserError
from orchestrator.system.text import counted, exact
from orchestrator.transition.types import CONFIDENCE, LEVEL

PHONE_IN = 3.8
"""Width of the main figure on narrow screens, in inches."""
ROW_IN = 0.3
"""Height of a row in inches."""
HEAD_IN = 1.1
"""Height in inches of the figure without its rows."""
EDGE = 1.25
"""Margin around the range of numbers, as a factor."""
NARROW_SPAN = 30
"""Axes that span less than this ratio also have labels between powers of ten."""
CHARACTERS = 26
"""Characters per line next to the bars."""
WIDE_CHARACTERS = 72
"""Characters per line across the whole panel."""


def main_figure(answer: Answer, title: str = "", width_in: float = style.WIDTH_IN) -> Figure:
    """Draw accuracy against size, or a forest plot of several recipes, in at least 7.5 points.

    Raises :class:`UserError` if several recipes do not fit.
    """
    if not answer.recipes:
        return transitions_figure(answer, title, width_in)
    if width_in < style.NARROW_IN:
        least = f"{style.NARROW_IN:g} inches or more"
        raise UserError(f"a figure of {len(answer.recipes)} recipes needs a --width of {least}")
    return forest_figure(recipes_of(answer), title, width_in)


def caption(sweep: Sweep, answer: Answer, imported_runs: int = 0) -> str:
    """Return a caption with everything needed to read the figure on its own, also the number of imported runs."""
    runs = counted(answer.runs, "run")
    words = answer.words
    bars = f"transitions, at {LEVEL:.0%} of the asymptote, with {CONFIDENCE:.0%} intervals"
    score = f"{words.final_score} of {answer.target}" + (f" ({answer.subject})" if answer.subject else "")
    if answer.recipes:
        drawn = f"Of {score[:1].lower()}{score[1:]}, from {runs}: {bars}."
    else:
        curves = f"Curves: posterior median of mean {words.score} with its {CONFIDENCE:.0%} band."
        points = f"{score[:1].upper()}{score[1:]} against {answer.size_axis}; a point for each of {runs}."
        drawn = f"{points} {curves} Below: {bars} and posteriors."
    # The name of an imported sweep already says that it was imported.
    imported = "" if sweep.files.is_imported else imported_text(False, imported_runs)
    source = ", ".join(filter(None, (f"Sweep {sweep.record_id}", imported)))
    return f"{sweep.spec.question} {drawn} {' '.join(finding(answer))} {source}."


@style.own_style()
def forest_figure(compared: Sequence[LabeledAnswer], title: str = "", width_in: float = style.WIDTH_IN) -> Figure:
    """Draw transitions in parameters, and comparisons as text. Sizes of different families have no common axis."""
    groups = [targets(entry.answer, entry.label) for entry in compared]
    ends = [end for group in groups for row in group for end in (row.smallest.total, row.largest.total)]
    span = (min(ends) / EDGE, max(ends) * EDGE)
    styles = styles_of(row.mix for group in groups for row in group)
    lines: list[tuple[str, Row | str]] = []
    for entry, group in zip(compared, groups, strict=True):
        lines.append((entry.label, ""))
        lines += [(row.mix, row) for row in group]
        for mix in entry.answer.compared:
            name = f"{mix.mix} vs {entry.answer.baseline_of(mix).mix}"
            lines.append((name, compared_text(entry.answer, mix)))
    figure = style.new_figure(ROW_IN * len(lines) + HEAD_IN, width_in)
    axes = figure.subplots()
    for height, (name, row) in enumerate(lines):
        text_style: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center", "color": style.INK}
        if row == "":  # Sweep names and comparisons have no bar, so their text spans the row.
            axes.text(0, height, name, fontsize=style.TEXT, fontweight="bold", **text_style)
        elif isinstance(row, str):
            axes.text(0, height, textwrap.fill(row, WIDE_CHARACTERS), fontsize=style.SMALL + 0.5, **text_style)
        else:
            smallest = row.smallest.total
            largest = row.largest.total
            axes.plot([smallest, largest], [height, height], color=style.FAINT, linewidth=1, zorder=1)
            bar = bar_of(row.task.total, row.task.transition.verdict, smallest, largest)
            if bar is not None and row.answer.runs:
                draw_bar(axes, bar, height, styles[row.mix][0], span)
            text = row.size_text if bar is None else row.count_text
            axes.text(1.04, height, textwrap.fill(text, CHARACTERS), fontsize=style.SMALL + 0.5, **text_style)
    axes.set(xscale="log", xlim=span, ylim=(len(lines) - 0.4, -0.7))
    axes.set_yticks(range(len(lines)), [textwrap.fill(name, CHARACTERS) if row else "" for name, row in lines])
    if span[1] < NARROW_SPAN * span[0]:  # Such a short axis contains few powers of ten, or none.
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
    axes.xaxis.set_major_formatter(lambda value, _: exact(value))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(f"trainable parameters at the transition ({CONFIDENCE:.0%} interval; gray: sizes tested)")
    style.dress(axes, spines=("bottom",))
    axes.tick_params(axis="y", length=0, labelsize=style.TEXT, pad=9)
    style.title(figure, title)
    return figure
