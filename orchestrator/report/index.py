"""All sweeps of a home on one page: each question with its answer, figure, state and age, and where to read more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from orchestrator.report.answer import Answer
from orchestrator.report.table import answer_table
from orchestrator.report.templates import render

TEMPLATE = "index.html.j2"
REFRESH_S = 30
"""How often the page is loaded anew while a sweep runs."""


@dataclass(frozen=True)
class Link:
    """A place that says more."""

    name: str
    address: str


@dataclass(frozen=True)
class Entry:
    """One sweep. ``headline`` is its answer in a sentence and ``verdicts`` a line a mix; ``why`` says instead why it
    cannot be read. ``figure`` and ``report`` are addresses, ``""`` where there is none."""

    id: str
    question: str
    profile: str
    state: str
    runs: int
    begun: datetime
    changed: datetime
    headline: str = ""
    verdicts: tuple[str, ...] = ()
    why: str = ""
    figure: str = ""
    report: str = ""
    links: tuple[Link, ...] = ()


def index_page(entries: Sequence[Entry], now: datetime, *, home: str, notes: Sequence[str] = ()) -> str:
    """The HTML of the page. ``notes`` are said above the sweeps; ``home`` names the directory they lie in."""
    running = any(entry.state == "running" for entry in entries)
    return render(
        TEMPLATE,
        entries=entries,
        home=home,
        notes=notes,
        refresh=REFRESH_S if running else None,
        age=lambda when: age(now, when),
    )


def headline(answer: Answer) -> tuple[str, tuple[str, ...]]:
    """An answer in one sentence, and the verdict of every mix in one each."""
    said = answer_table(answer)
    if said.conclusions:
        return said.conclusions[0].strip(), said.learned
    return (said.learned[0], said.learned[1:]) if said.learned else ("no run has ended yet", ())


def age(now: datetime, then: datetime) -> str:
    """``just now``, ``12 min ago``, ``5 h ago``, ``3 days ago``."""
    seconds = max(0.0, (now - then).total_seconds())
    for unit, word in ((86400, "day"), (3600, "h"), (60, "min")):
        if count := int(seconds // unit):
            plural = "s" if word == "day" and count > 1 else ""
            return f"{count} {word}{plural} ago"
    return "just now"
