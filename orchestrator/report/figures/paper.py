"""A sweep's figure for a paper, as wide as a column, and its caption."""

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
    """Draw the main figure ``width`` inches wide in at least 7.5 points, without the question, which is in the caption.

    Raises :class:`UserError` if several recipes do not fit.
    """
    if not answer.recipes:
        return transitions_figure(spec, answer, title="", width_in=width)
    if width < NARROW_IN:
        raise UserError(f"a figure of {len(answer.recipes)} recipes needs a --width of {NARROW_IN:g} inches or more")
    figure = main_figure(spec, answer, title="")
    figure.set_size_inches(width, figure.get_figheight())
    return figure


def caption(sweep: Sweep, answer: Answer) -> str:
    """Return a caption with everything needed to read the figure on its own."""
    runs = counted(sum(mix.runs for mix in answer.mixes), "run")
    subject, words = f" ({answer.subject})" if answer.subject else "", answer.words
    bars = f"transitions, at {LEVEL:.0%} of the asymptote, with {CONFIDENCE:.0%} intervals"
    score = f"{words.final_score[:1].upper()}{words.final_score[1:]} of {answer.target}{subject}"
    if answer.recipes:
        drawn = f"Of {score[:1].lower()}{score[1:]}, from {runs}: {bars}."
    else:
        curves = f"Curves: posterior median of mean {words.score} with its {CONFIDENCE:.0%} band."
        drawn = (
            f"{score} against {answer.size_axis}; a point for each of {runs}. {curves} Below: {bars} and posteriors."
        )
    return f"{sweep.spec.question} {drawn} {' '.join(finding(answer))} Sweep {sweep.id}."
