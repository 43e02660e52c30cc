"""A sweep's figure for a paper: as wide as a column, with its caption."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import matplotlib
from matplotlib.figure import Figure

from orchestrator.errors import UserError
from orchestrator.home.sweeps import Sweep
from orchestrator.report.answer import Answer
from orchestrator.report.figures.comparisons import main_figure
from orchestrator.report.figures.style import NARROW_IN
from orchestrator.report.figures.transitions import transitions_figure
from orchestrator.report.side_by_side import Compared, can_scale, scaling_words
from orchestrator.report.words.verdicts import sentences
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import LEVEL

LEAST_IN, MOST_IN = 2.5, 12.0
"""Widths of a figure: under the first its labels overlap."""
UNITS = {"in": 1.0, "cm": 1 / 2.54, "mm": 1 / 25.4, "pt": 1 / 72.27}
"""Inches a unit; a TeX point, as ``\\the\\columnwidth`` prints it."""


def width_in(given: str) -> float:
    """A width such as ``3.3in``, ``84mm``, ``8.4cm`` or ``246pt`` in inches. Raises :class:`UserError`."""
    matched = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*(in|cm|mm|pt)\s*", given)
    if matched is None:
        raise UserError(f"--width {given!r}: write a number and one of in, cm, mm, pt, such as 3.3in")
    inches = float(matched[1]) * UNITS[matched[2]]
    if not LEAST_IN <= inches <= MOST_IN:
        raise UserError(f"--width {given!r} is {inches:.2g} inches; allowed are {LEAST_IN:g}in to {MOST_IN:g}in")
    return inches


def paper_figure(spec: SweepSpec, answer: Answer, width: float) -> Figure:
    """The main figure ``width`` inches wide, without the question, which is in the caption. Type has 7.5 points or
    more at any width. Raises :class:`UserError` if several recipes have no room."""
    if not answer.recipes:
        return transitions_figure(spec, answer, title="", width_in=width)
    if width < NARROW_IN:
        raise UserError(f"a figure of {len(answer.recipes)} recipes has two columns: give it {NARROW_IN:g}in or more")
    figure = main_figure(spec, answer)
    figure.suptitle("")
    figure.set_size_inches(width, figure.get_figheight())
    return figure


@contextmanager
def embedded() -> Iterator[None]:
    """A block in which PDF files get TrueType fonts (journals refuse Type 3). Text in SVG stays text."""
    with matplotlib.rc_context({"pdf.fonttype": 42, "ps.fonttype": 42}):
        yield


def caption(sweep: Sweep, answer: Answer) -> str:
    """All that a reader needs to read the figure alone."""
    found = sentences(answer)[0]
    runs = sum(mix.runs for mix in answer.mixes)
    subject, words = f" ({answer.subject})" if answer.subject else "", answer.words
    score = words.final_score
    return (
        f"{sweep.spec.question} {score[:1].upper()}{score[1:]} of {answer.target}{subject} against {answer.size_axis}; "
        f"every point is one of {runs} runs. Curves: posterior median of mean {words.score} with its "
        f"{answer.confidence:.0%} band. Below: transitions, at {LEVEL:.0%} of the asymptote, with "
        f"{answer.confidence:.0%} intervals and posteriors. {found} Sweep {sweep.id}."
    ).replace("  ", " ")


def variants_caption(sweeps: Sequence[Sweep], compared: Sequence[Compared]) -> str:
    """The same for a figure of the variants of a space."""
    first, words = compared[0].answer, compared[0].answer.words
    runs = sum(mix.runs for each in compared for mix in each.answer.mixes)
    saving = any(mix.synergy_total is not None for each in compared for mix in each.answer.mixes)
    fewer = f"how many times fewer {words.parameters} than {first.baseline} are needed"
    right = f"; on the right {fewer}" if saving else ""
    along = f"; below, transitions against {compared[0].along.rpartition('.')[2]}" if can_scale(compared) else ""
    law = " ".join(f"{said}." for said in scaling_words(compared)) if can_scale(compared) else ""
    return (
        f"{sweeps[0].spec.question} A row a variant ({', '.join(each.variant for each in compared)}): on the left "
        f"{words.final_score} of {first.target} against {first.size_axis}, every point one of {runs} runs, curves the "
        f"posterior median of mean {words.score} with its {first.confidence:.0%} band, bars the "
        f"transitions{right}{along}. Intervals hold {first.confidence:.0%}. {law} "
        f"Sweeps {', '.join(sweep.id for sweep in sweeps)}."
    ).replace("  ", " ")
