"""A sweep's figure for a paper: as wide as a column, with its caption."""

from __future__ import annotations

from matplotlib.figure import Figure

from orchestrator.errors import UserError
from orchestrator.home.sweeps import Sweep
from orchestrator.report.answer import Answer
from orchestrator.report.figures.comparisons import main_figure
from orchestrator.report.figures.style import NARROW_IN, own_style
from orchestrator.report.figures.transitions import transitions_figure
from orchestrator.report.side_by_side import finding
from orchestrator.report.words.numbers import counted
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import CONFIDENCE, LEVEL


@own_style()
def paper_figure(spec: SweepSpec, answer: Answer, width: float) -> Figure:
    """The main figure ``width`` inches wide, without the question, which is in the caption. Type has 7.5 points or
    more at any width. Raises :class:`UserError` if several recipes have no room."""
    if not answer.recipes:
        return transitions_figure(spec, answer, title="", width_in=width)
    if width < NARROW_IN:
        raise UserError(f"a figure of {len(answer.recipes)} recipes needs a --width of {NARROW_IN:g} inches or more")
    figure = main_figure(spec, answer)
    figure.suptitle("")
    figure.set_size_inches(width, figure.get_figheight())
    return figure


def caption(sweep: Sweep, answer: Answer) -> str:
    """All that a reader needs to read the figure alone."""
    runs = sum(mix.runs for mix in answer.mixes)
    subject, words = f" ({answer.subject})" if answer.subject else "", answer.words
    score, posteriors = words.final_score, "" if answer.recipes else " and posteriors"
    return (
        f"{sweep.spec.question} {score[:1].upper()}{score[1:]} of {answer.target}{subject} against {answer.size_axis}; "
        f"a point for each of {counted(runs, 'run')}. Curves: posterior median of mean {words.score} with its "
        f"{CONFIDENCE:.0%} band. Below: transitions, at {LEVEL:.0%} of the asymptote, with "
        f"{CONFIDENCE:.0%} intervals{posteriors}. {' '.join(finding(answer))} Sweep {sweep.id}."
    ).replace("  ", " ")
