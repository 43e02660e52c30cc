"""The pages of a home: all sweeps, and a report of each. Unchanged sweeps are read and drawn only once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from orchestrator.catalog.export import page_of
from orchestrator.catalog.reading import StoredSweep, Unfinished, in_training, read_known
from orchestrator.errors import UserError
from orchestrator.home.directories import Home
from orchestrator.home.journal import State
from orchestrator.home.sweeps import UnreadableError
from orchestrator.record.store import StoreError
from orchestrator.report.figures.comparisons import main_figure
from orchestrator.report.figures.style import inline_svg
from orchestrator.report.page import render
from orchestrator.report.rows import targets
from orchestrator.report.side_by_side import finding
from orchestrator.report.words.changes import changed_words
from orchestrator.report.words.explanation import how_sure
from orchestrator.report.words.numbers import moment
from orchestrator.report.words.transitions import verdict_lines
from orchestrator.transition.types import CONFIDENCE, LEVEL

REFRESH_S = 30
"""Seconds between updates of the page while a sweep runs."""
HOW_TO_READ = (
    f"Transition: the size at which the mean score reaches {LEVEL:.0%} of its asymptote, with its {CONFIDENCE:.0%} "
    "interval in brackets. 3/5 at 12: three of the five seeds tried at size 12 learned."
)
Links = Callable[[], Mapping[str, Mapping[str, str]]]
"""Returns each sweep's addresses in the record, by sweep id and name. Raises :class:`StoreError`."""
Made = TypeVar("Made")


class SweepPages:
    """Reads a home for its pages, in one thread at a time."""

    def __init__(self, home: Home, links: Links = dict) -> None:
        self._home = home
        self._links = links
        self._cache: dict[tuple[str, str], tuple[object, Any]] = {}
        """Signature and result by kind and sweep."""

    def index(self) -> str:
        """Return the page of all sweeps."""
        notes: list[str] = []
        try:
            links = self._links()
        except StoreError as error:
            links, notes = {}, [f"MLflow's record cannot be read: {error}"]
        entries = [self._entry(sweep_id, links.get(sweep_id, {})) for sweep_id in self._home.sweep_ids()]
        running = any(entry["state"] == "running" for entry in entries)
        return render(
            "index.html.j2",
            entries=entries,
            home=self._home.root,
            notes=notes,
            legend=HOW_TO_READ if any(entry["verdicts"] for entry in entries) else "",
            refresh=REFRESH_S if running else None,
            moment=moment,
        )

    def report(self, sweep_id: str) -> str:
        """Return the report of a sweep. Raises :class:`UserError` if the sweep is missing or unreadable."""
        stored = self._readable(sweep_id)
        return self._once("report", sweep_id, lambda: page_of(stored, index=f"../#{sweep_id}"))

    def figure(self, sweep_id: str) -> str:
        """Return the figure of a sweep as SVG without its question. Raises :class:`UserError` as :meth:`report`."""
        stored = self._readable(sweep_id)
        return self._once("figure", sweep_id, lambda: _figure(stored))

    def _once(self, kind: str, sweep_id: str, make: Callable[[], Made]) -> Made:
        """Return the result of ``make``, which is called again only if the sweep has changed."""
        files = self._home.sweep(sweep_id)
        written = files.journal.stat() if files.journal.is_file() else None
        signature = written and (written.st_mtime_ns, written.st_size), files.is_driven()
        if (cached := self._cache.get((kind, sweep_id))) is None or cached[0] != signature:
            cached = self._cache[kind, sweep_id] = (signature, make())
        made: Made = cached[1]
        return made

    def _readable(self, sweep_id: str) -> StoredSweep:
        if sweep_id not in self._home.sweep_ids():
            raise UserError(f"{self._home.root} has no sweep {sweep_id!r}")
        stored = self._stored(sweep_id)
        if not isinstance(stored, StoredSweep):
            raise UserError(f"{sweep_id} cannot be read; `sweeps` lists the reason")
        return stored

    def _stored(self, sweep_id: str) -> StoredSweep | UnreadableError:
        return self._once("read", sweep_id, lambda: read_known(self._home, sweep_id))

    def _entry(self, sweep_id: str, links: Mapping[str, str]) -> dict[str, Any]:
        """Return a sweep on the page for its template, with runs in training in words."""
        stored = self._stored(sweep_id)
        entry: dict[str, Any] = {"id": sweep_id, "links": links, "training": ()}
        if isinstance(stored, UnreadableError):
            empty: dict[str, Any] = {"stored": None, "about": "", "rows": (), "verdicts": (), "figure": "", "links": {}}
            return entry | empty | {"state": "unreadable", "why": str(stored)}
        answer, spec = stored.answer, stored.spec
        if stored.state is State.RUNNING:
            ended = frozenset(run.key for run in stored.runs)
            unfinished = in_training(stored.sweep, ended)
            entry["training"] = [_training_words(run, spec.size_axis, spec.target) for run in unfinished]
        return entry | {
            "stored": stored,
            "state": stored.state.value,
            "rows": targets(answer),
            "about": ", ".join(filter(None, (spec.title, spec.profile, answer.subject, changed_words(spec)))),
            "headline": " ".join(finding(answer)),
            "verdicts": verdict_lines(answer),
            "paragraphs": how_sure(answer),
            "figure": f"figure/{sweep_id}.svg?{len(stored.runs)}" if stored.runs else "",
        }


def _figure(stored: StoredSweep) -> str:
    svg = inline_svg(main_figure(stored.answer), "main", stored.spec.question)
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
