"""One colour and one marker a mix, in every figure of a sweep."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from orchestrator.report import style
from orchestrator.report.answer import Answer, TaskAnswer
from orchestrator.transition.types import Transition


@dataclass(frozen=True)
class Look:
    """How a mix is drawn."""

    colour: str
    marker: str


GREYS = tuple(Look(colour, marker) for colour, marker in zip(("#6E6E6E", "#9A9A9A", "#4A4A4A"), "^Dv", strict=True))
"""Of tasks that are not the target: no mix has them."""


@dataclass(frozen=True)
class Series:
    """One curve of a figure."""

    label: str
    answer: TaskAnswer
    colour: str
    marker: str

    @property
    def transition(self) -> Transition:
        return self.answer.transition


def series_of(label: str, answer: TaskAnswer, look: Look) -> Series:
    """The curve of one task, as its mix is drawn."""
    return Series(label, answer, look.colour, look.marker)


def looks(answer: Answer) -> dict[str, Look]:
    """How each mix of an answer is drawn, by its name: under every recipe as under the others."""
    places = looks_of(mix.plain or mix.mix for mix in answer.mixes)
    return {mix.mix: places[mix.plain or mix.mix] for mix in answer.mixes}


def looks_of(names: Iterable[str]) -> dict[str, Look]:
    """How mixes of these names are drawn, by the order in which they come first."""
    distinct = dict.fromkeys(names)
    return {
        name: Look(style.COLOURS[place % len(style.COLOURS)], style.MARKERS[place % len(style.MARKERS)])
        for place, name in enumerate(distinct)
    }
