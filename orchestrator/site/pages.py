"""The pages of a home: all sweeps with question, answer, figure, state and age, and the report of each. An unchanged
sweep is read and drawn once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

from orchestrator.catalogue.export import page_of
from orchestrator.catalogue.lookup import Unfinished, in_training
from orchestrator.catalogue.reading import StoredSweep, read_known
from orchestrator.errors import UserError
from orchestrator.home.files import Home
from orchestrator.home.journal import State
from orchestrator.home.sweeps import Unreadable
from orchestrator.record.store import StoreError
from orchestrator.report.figures.comparisons import main_figure
from orchestrator.report.figures.style import inline_svg
from orchestrator.report.page import render
from orchestrator.report.side_by_side import finding
from orchestrator.report.words.explanation import Paragraph, judged
from orchestrator.report.words.findings import caveats
from orchestrator.report.words.transitions import verdict_lines
from orchestrator.transition.types import CONFIDENCE, LEVEL

REFRESH_S = 30
"""Seconds between reloads of the page while a sweep runs."""
HOW_TO_READ = (
    f"Transition: the size at which the mean score reaches {LEVEL:.0%} of its asymptote, with its {CONFIDENCE:.0%} "
    "interval in brackets. 3/5 at 12: three of the five seeds tried at size 12 learned."
)


SHOWN = 30
"""Sweeps with answer and figure on the page; a figure takes half a second to draw. Older ones have links only."""


@dataclass(frozen=True)
class Entry:
    """One sweep on the page: addresses are ``""`` if there is none, ``why`` is the reason it cannot be read. ``links``
    are addresses in the record, by name."""

    id: str
    state: str = "unreadable"
    why: str = ""
    question: str = ""
    about: str = ""
    profile: str = ""
    runs: int = 0
    begun: datetime | None = None
    changed: datetime | None = None
    headline: str = ""
    verdicts: tuple[str, ...] = ()
    told: tuple[Paragraph, ...] = ()
    report: str = ""
    figure: str = ""
    links: Mapping[str, str] = field(default_factory=dict)
    training: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    """Requests to stop."""
    again: str = ""
    """The command that resumes it."""


Links = Callable[[], Mapping[str, Mapping[str, str]]]
"""Each sweep's addresses in the record, by its id and by name. Raises :class:`StoreError`."""
Made = TypeVar("Made")


class SweepPages:
    """Reads a home for its pages. Threads may call it; one at a time is answered."""

    def __init__(self, home: Home, links: Links = dict) -> None:
        self._home = home
        self._links = links
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str], tuple[object, Any]] = {}
        """By kind and sweep what was read or drawn last, after its signature."""

    def index(self) -> str:
        """The page of all sweeps."""
        with self._lock:
            links, notes = self._record()
            entries = [
                self._entry(sweep_id, links.get(sweep_id, {}), place < SHOWN)
                for place, sweep_id in enumerate(self._home.sweep_ids())
            ]
        running = any(entry.state == "running" for entry in entries)
        now = datetime.now(UTC)
        return render(
            "index.html.j2",
            entries=entries,
            home=self._home.root,
            notes=notes,
            told=HOW_TO_READ if any(entry.verdicts for entry in entries) else "",
            refresh=REFRESH_S if running else None,
            age=lambda when: age(now, when),
        )

    def _record(self) -> tuple[Mapping[str, Mapping[str, str]], list[str]]:
        """The addresses in the record, and what is wrong with it."""
        try:
            return self._links(), []
        except StoreError as error:
            return {}, [f"MLflow's record does not answer: {error}"]

    def report(self, sweep_id: str) -> str:
        """The report of one sweep. Raises :class:`UserError` for one that is not there or cannot be read."""
        return self._made("report", sweep_id, lambda stored: page_of(stored, index=f"../#{stored.id}"))

    def figure(self, sweep_id: str) -> str:
        """The figure of one sweep as SVG without its question. Raises :class:`UserError` as :meth:`report` does."""
        return self._made("figure", sweep_id, _figure)

    def _once(self, kind: str, sweep_id: str, signature: object, make: Callable[[], Made]) -> Made:
        """The result of ``make``, made again only if the signature has changed."""
        if (known := self._kept.get((kind, sweep_id))) is None or known[0] != signature:
            known = self._kept[kind, sweep_id] = (signature, make())
        made: Made = known[1]
        return made

    def _made(self, kind: str, sweep_id: str, make: Callable[[StoredSweep], str]) -> str:
        """A text about one sweep. Raises :class:`UserError` for one that is not there or cannot be read."""
        with self._lock:
            if sweep_id not in self._home.sweep_ids():
                raise UserError(f"there is no sweep {sweep_id!r} in {self._home.root}")
            found = self._known(sweep_id)
            if not isinstance(found, StoredSweep):
                raise UserError(f"{sweep_id} cannot be read; `sweeps` says why")
            return self._once(kind, sweep_id, self._signature(sweep_id), lambda: make(found))

    def _signature(self, sweep_id: str) -> object:
        """A value that changes with a sweep."""
        files = self._home.sweep(sweep_id)
        written = files.journal.stat() if files.journal.is_file() else None
        return written and (written.st_mtime_ns, written.st_size), files.is_driven()

    def _known(self, sweep_id: str) -> StoredSweep | Unreadable:
        """A sweep as read last."""
        return self._once("read", sweep_id, self._signature(sweep_id), lambda: read_known(self._home, sweep_id))

    def _entry(self, sweep_id: str, links: Mapping[str, str], shown: bool) -> Entry:
        found = self._known(sweep_id)
        if isinstance(found, Unreadable):
            return Entry(sweep_id, why=str(found))
        answer = found.answer
        drawn = f"{found.id}.svg?{len(found.runs)}" if shown and found.runs else ""
        entry = Entry(
            found.id,
            found.state.value,
            question=found.spec.question,
            about=", ".join(filter(None, (found.spec.variant, answer.subject))),
            profile=found.spec.profile,
            runs=found.counted,
            begun=found.begun,
            changed=found.changed,
            headline=" ".join(finding(answer)) if shown else "see its report for the answer",
            verdicts=verdict_lines(answer) if shown else (),
            told=_told_of(found) if shown else (),
            report=f"sweep/{found.id}",
            figure=drawn and f"figure/{drawn}",
            links=links,
        )
        if found.state is State.INTERRUPTED:
            return replace(entry, again=found.resumed)
        return self._underway(entry, found) if found.state is State.RUNNING else entry

    def _underway(self, entry: Entry, found: StoredSweep) -> Entry:
        """The same with runs in training and requests to stop."""
        ended = frozenset(run.key for run in found.runs)
        training = in_training(found.sweep, ended, lambda text: None)  # Files being written: on the next page.
        asked = found.sweep.files.stop_requests()
        return replace(
            entry,
            training=tuple(_training_words(each, found.spec.size_axis, found.spec.target) for each in training),
            asked=tuple(str(each) for each in asked if not (each.mix in found.stopped or each.key in ended)),
        )


def _told_of(found: StoredSweep) -> tuple[Paragraph, ...]:
    """Certainty and caveats."""
    sure, mind = judged(found.spec, found.answer, found.state.value)[:1], " ".join(caveats(found.answer))
    return (*sure, *([Paragraph("What to mind", mind)] if mind else []))


def _figure(stored: StoredSweep) -> str:
    svg = inline_svg(main_figure(stored.spec, stored.answer, title=""), "main", stored.spec.question)
    return svg.replace(">", f"><style>{render('palette.css.j2')} svg {{ font-family: sans-serif; }}</style>", 1)


def _training_words(run: Unfinished, axis: str, target: str) -> str:
    """``add n_embed 16 seed 0: step 400, 0.52``."""
    config = run.config
    text = f"{config.label} {axis} {config.size} seed {config.seed}"
    if not run.curve:
        return f"{text}: starting"
    accuracy = run.curve[-1].accuracy.get(target)
    return f"{text}: step {run.step}" + ("" if accuracy is None else f", {accuracy:.2f}")


def age(now: datetime, then: datetime) -> str:
    """``just now``, ``12 min ago``, ``5 h ago``, ``3 days ago``."""
    seconds = max(0.0, (now - then).total_seconds())
    for unit, word in ((86400, "day"), (3600, "h"), (60, "min")):
        if count := int(seconds // unit):
            plural = "s" if word == "day" and count > 1 else ""
            return f"{count} {word}{plural} ago"
    return "just now"
