"""The figure a sweep is known by."""

from __future__ import annotations

from matplotlib.figure import Figure

from orchestrator.report.answer import Answer
from orchestrator.report.figures import transitions_figure
from orchestrator.report.recipes_figure import recipes_figure
from orchestrator.space.spec import SweepSpec


def main_figure(spec: SweepSpec, answer: Answer) -> Figure:
    """Accuracy against size with the transitions: of one recipe in one panel, of several a row each."""
    return recipes_figure(spec, answer) if answer.recipes else transitions_figure(spec, answer)
