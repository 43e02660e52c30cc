"""The pages of a home: all sweeps with question, answer, figure and state, and the report of each.

An unchanged sweep is read and drawn only once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
from orchestrator.report.words.changes import changed_words
from orchestrator.report.words.explanation import Paragraph, how_sure
from orchestrator.report.words.findings import caveats
from orchestrator.report.words.transitions import verdict_lines
from orchestrator.transition.types import CONFIDENCE, LEVEL

REFRESH_S = 30
"""Seconds between updates of the page while a sweep runs."""
HOW_TO_READ = (
    f"Transition: the size at which the mean score reaches {LEVEL:.0%} of its asymptote, with its {CONFIDENCE:.0%} "
    "interval in brackets. 3/5 at 12: three of the five seeds tried at size 12 learned."
)
SHOWN = 30
"""Sweeps with answer and figure on the page. A figure takes half a second, so older sweeps only have links."""


@dataclass(frozen=True)
class Entry:
    """One sweep on the page.

    Attributes:
        stored: The sweep, None if it cannot be read.
        why: The reason it cannot be read.
        links: Addresses in the record, by name.
        training: Runs in training, in words.
        stopping: Requests to stop, in words.
    """

    id: str
    stored: StoredSweep | None = None
    why: str = ""
    about: str = ""
    headline: str = ""
    verdicts: tuple[str, ...] = ()
    paragraphs: tuple[Paragraph, ...] = ()
    figure: str = ""
    links: Mapping[str, str] = field(default_factory=dict)
    training: tuple[str, ...] = ()
    stopping: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        return "unreadable" if self.stored is None else self.stored.state.value


Links = Callable[[], Mapping[str, Mapping[str, str]]]
"""Returns each sweep's addresses in the record, by its id and by name. Raises :class:`StoreError`."""
Made = TypeVar("Made")


class SweepPages:
    """Reads a home for its pages. Threads may call it; it answers one at a time."""

    def __init__(self, home: Home, links: Links = dict) -> None:
        self._home = home
        self._links = links
        self._lock = threading.Lock()
        self._cache: dict[tuple[str, str], tuple[object, Any]] = {}
        """By kind and sweep: the signature, and the result for it."""

    def index(self) -> str:
        """Return the page of all sweeps."""
        notes: list[str] = []
        with self._lock:
            try:
                links = self._links()
            except StoreError as error:
                links, notes = {}, [f"MLflow's record does not answer: {error}"]
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
            legend=HOW_TO_READ if any(entry.verdicts for entry in entries) else "",
            refresh=REFRESH_S if running else None,
            age=lambda when: age(now, when),
        )

    def report(self, sweep_id: str) -> str:
        """Return the report of one sweep. Raises :class:`UserError` for one that does not exist or cannot be read."""
        return self._page("report", sweep_id, lambda stored: page_of(stored, index=f"../#{stored.id}"))

    def figure(self, sweep_id: str) -> str:
        """Return the figure of one sweep as SVG without its question. Raises :class:`UserError` as :meth:`report`."""
        return self._page("figure", sweep_id, _figure)

    def _once(self, kind: str, sweep_id: str, make: Callable[[], Made]) -> Made:
        """Return the result of ``make``, called again only if the sweep has changed."""
        files = self._home.sweep(sweep_id)
        written = files.journal.stat() if files.journal.is_file() else None
        signature = written and (written.st_mtime_ns, written.st_size), files.is_driven()
        if (cached := self._cache.get((kind, sweep_id))) is None or cached[0] != signature:
            cached = self._cache[kind, sweep_id] = (signature, make())
        made: Made = cached[1]
        return made

    def _page(self, kind: str, sweep_id: str, make: Callable[[StoredSweep], str]) -> str:
        with self._lock:
            if sweep_id not in self._home.sweep_ids():
                raise UserError(f"there is no sweep {sweep_id!r} in {self._home.root}")
            stored = self._stored(sweep_id)
            if not isinstance(stored, StoredSweep):
                raise UserError(f"{sweep_id} cannot be read; `sweeps` lists the reason")
            return self._once(kind, sweep_id, lambda: make(stored))

    def _stored(self, sweep_id: str) -> StoredSweep | Unreadable:
        return self._once("read", sweep_id, lambda: read_known(self._home, sweep_id))

    def _entry(self, sweep_id: str, links: Mapping[str, str], shown: bool) -> Entry:
        stored = self._stored(sweep_id)
        if isinstance(stored, Unreadable):
            return Entry(sweep_id, why=str(stored))
        answer, spec = stored.answer, stored.spec
        training: tuple[str, ...] = ()
        stopping: tuple[str, ...] = ()
        if stored.state is State.RUNNING:
            ended = frozenset(run.key for run in stored.runs)
            unfinished = in_training(stored.sweep, ended, lambda text: None)  # Files being written: on the next page.
            training = tuple(_training_words(run, spec.size_axis, spec.target) for run in unfinished)
            requests = stored.sweep.files.stop_requests()
            stopping = tuple(str(each) for each in requests if each.mix not in stored.stopped and each.key not in ended)
        mind = " ".join(caveats(answer))
        return Entry(
            sweep_id,
            stored,
            about=", ".join(filter(None, (spec.variant, answer.subject, changed_words(spec)))),
            headline=" ".join(finding(answer)) if shown else "see its report for the answer",
            verdicts=verdict_lines(answer) if shown else (),
            paragraphs=(*how_sure(answer), *([Paragraph("What to mind", mind)] if mind else [])) if shown else (),
            figure=f"figure/{sweep_id}.svg?{len(stored.runs)}" if shown and stored.runs else "",
            links=links,
            training=training,
            stopping=stopping,
        )


def _figure(stored: StoredSweep) -> str:
    svg = inline_svg(main_figure(stored.spec, stored.answer, title=""), "main", stored.spec.question)
    style = f"{render('palette.css.j2')} svg {{ font-family: sans-serif; }} svg text {{ fill: var(--ink); }}"
    return svg.replace(">", f"><style>{style}</style>", 1)


def _training_words(run: Unfinished, axis: str, target: str) -> str:
    """Return ``add n_embed 16 seed 0: step 400, 0.52``."""
    config = run.config
    text = f"{config.label} {axis} {config.size} seed {config.seed}"
    if not run.curve:
        return f"{text}: starting"
    accuracy = run.curve[-1].accuracy.get(target)
    return f"{text}: step {run.step}" + ("" if accuracy is None else f", {accuracy:.2f}")


def age(now: datetime, then: datetime) -> str:
    """Return ``just now``, ``12 min ago``, ``5 h ago`` or ``3 days ago``."""
    seconds = max(0.0, (now - then).total_seconds())
    for unit, word in ((86400, "day"), (3600, "h"), (60, "min")):
        if count := int(seconds // unit):
            plural = "s" if word == "day" and count > 1 else ""
            return f"{count} {word}{plural} ago"
    return "just now"
