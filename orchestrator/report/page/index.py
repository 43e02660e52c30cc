"""All sweeps of a home on one page: each question with its answer, figure, state and age."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from orchestrator.report.answer import CONFIDENCE, Answer
from orchestrator.report.page.templates import render
from orchestrator.report.words.advice import Paragraph
from orchestrator.report.words.findings import sentences, verdict_line
from orchestrator.transition.types import LEVEL

TEMPLATE = "index.html.j2"
REFRESH_S = 30
"""Seconds between reloads of the page while a sweep runs."""
HOW_TO_READ = (
    f"Transition: the size at which the mean score reaches {LEVEL:.0%} of its asymptote, with its {CONFIDENCE:.0%} "
    "interval in brackets. 3/5 at 12: three of the five seeds tried at size 12 learned."
)


@dataclass(frozen=True)
class Link:
    """An address with more about a sweep."""

    name: str
    address: str


@dataclass(frozen=True)
class Entry:
    """One sweep. ``about`` tells it from others of the same question. ``headline`` is its answer in a sentence,
    ``verdicts`` a line a mix, ``told`` says more; ``why`` is the reason it cannot be read. ``figure``, ``narrow`` (for
    a phone) and ``report`` are addresses, ``""`` for none. Of one that runs: ``training`` now, ``stoppable`` mixes and
    requests to stop, ``asked``. Of an interrupted one: ``again``, the command that resumes it, ``resumable`` by a
    button, and ``resuming``, the state of a process that did."""

    id: str
    question: str
    profile: str
    state: str
    runs: int
    begun: datetime
    changed: datetime
    headline: str = ""
    verdicts: tuple[str, ...] = ()
    told: tuple[Paragraph, ...] = ()
    why: str = ""
    figure: str = ""
    narrow: str = ""
    about: str = ""
    report: str = ""
    links: tuple[Link, ...] = ()
    training: tuple[str, ...] = ()
    stoppable: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    again: str = ""
    resumable: bool = False
    resuming: str = ""


def index_page(
    entries: Sequence[Entry],
    now: datetime,
    *,
    home: str,
    notes: Sequence[str] = (),
    refresh_s: int = REFRESH_S,
    may_steer: bool = False,
) -> str:
    """The HTML of the page of a ``home``, with ``notes`` above the sweeps. While one runs, the page reloads itself
    every ``refresh_s`` seconds; if one ``may_steer``, always, and it has buttons that stop and resume sweeps."""
    running = any(entry.state == "running" for entry in entries)
    return render(
        TEMPLATE,
        entries=entries,
        home=home,
        notes=notes,
        told=HOW_TO_READ if any(entry.verdicts for entry in entries) else "",
        refresh=refresh_s if running or may_steer else None,
        may_steer=may_steer,
        age=lambda when: age(now, when),
    )


def headline(answer: Answer) -> tuple[str, tuple[str, ...]]:
    """An answer in one sentence, and the verdict of every mix in one each."""
    learned = tuple(verdict_line(answer, mix) for mix in answer.mixes if mix.target.transition.shares)
    return sentences(answer)[0], learned


def age(now: datetime, then: datetime) -> str:
    """``just now``, ``12 min ago``, ``5 h ago``, ``3 days ago``."""
    seconds = max(0.0, (now - then).total_seconds())
    for unit, word in ((86400, "day"), (3600, "h"), (60, "min")):
        if count := int(seconds // unit):
            plural = "s" if word == "day" and count > 1 else ""
            return f"{count} {word}{plural} ago"
    return "just now"
