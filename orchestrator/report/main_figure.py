"""The figure a sweep is known by."""

from __future__ import annotations

from matplotlib.figure import Figure

from orchestrator.report.answer import Answer
from orchestrator.report.figures import transitions_figure
from orchestrator.report.recipes_figure import recipes_figure
from orchestrator.space.spec import SweepSpec

PHONE_IN = 3.4
"""Width of a figure for a screen as narrow as a phone's: there its type is as large as the page's."""


def main_figure(spec: SweepSpec, answer: Answer, *, title: str | None = None) -> Figure:
    """Accuracy against size with the transitions: of one recipe in one panel, of several a row each. Above it stands
    the question, or another ``title``."""
    draw = recipes_figure if answer.recipes else transitions_figure
    return draw(spec, answer, title=title)


def narrow_figure(spec: SweepSpec, answer: Answer) -> Figure | None:
    """The same for a narrow screen, without the question; None where several recipes have no room."""
    return None if answer.recipes else transitions_figure(spec, answer, title="", width_in=PHONE_IN)
