"""The sweeps of a home as the page shows them; what has not changed is neither read nor judged again."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from orchestrator.catalogue.reading import Outline, State, StoredSweep, read_known
from orchestrator.catalogue.training import Unfinished, in_training
from orchestrator.errors import UserError
from orchestrator.report.explaining import Paragraph, in_short
from orchestrator.report.index import REFRESH_S, Entry, Link, headline, index_page
from orchestrator.report.main_figure import main_figure, narrow_figure
from orchestrator.report.page import PageContent, Served, page
from orchestrator.report.structure import structures, told
from orchestrator.report.style import inline_svg
from orchestrator.site.resuming import Resuming
from orchestrator.store.files import Home
from orchestrator.store.lifecycle import is_driven
from orchestrator.store.notes import StopRequest, ask_to_stop, asked_to_stop
from orchestrator.store.reading import Unreadable

SHOWN = 30
"""Sweeps with answer and figure on the page; a figure takes half a second to draw. Older ones have their links."""

Links = Callable[[], tuple[Mapping[str, tuple[Link, ...]], str]]
"""Where each sweep is in the record, by its id, and why that is not known (``""`` where it is)."""


def no_links() -> tuple[Mapping[str, tuple[Link, ...]], str]:
    """Of a home without a record."""
    return {}, ""


class Shelf:
    """Reads a home for its page, and does what somebody asks there. May be asked from several threads; one at a time
    is answered. While a sweep runs the page asks for itself every ``refresh_s`` seconds; ``resuming`` goes on with
    sweeps."""

    def __init__(
        self, home: Home, links: Links = no_links, *, refresh_s: int = REFRESH_S, resuming: Resuming | None = None
    ) -> None:
        self._home = home
        self._links = links
        self._refresh_s = refresh_s
        self._resuming = resuming or Resuming()
        self.asked_at = -math.inf
        """When a page was last asked for, on the monotonic clock."""
        self.stopped_a_sweep = False
        """Whether somebody stopped a whole sweep here."""
        self._lock = threading.Lock()
        self._read: dict[str, tuple[object, StoredSweep | Outline | Unreadable]] = {}
        self._drawn: dict[tuple[str, str], tuple[object, str]] = {}
        self._told: dict[str, tuple[object, tuple[Paragraph, ...]]] = {}

    def index(self, *, may_steer: bool = False) -> str:
        """The page of all sweeps; where one ``may_steer``, with what stops one that runs, or a mix of it, and what goes
        on with one that was interrupted."""
        self.asked_at = time.monotonic()
        with self._lock:
            links, out = self._links()
            entries = [
                self._entry(sweep_id, links.get(sweep_id, ()), place < SHOWN)
                for place, sweep_id in enumerate(self._home.sweep_ids())
            ]
        notes = [f"MLflow's record does not answer: {out}"] if out else []
        return index_page(
            entries,
            datetime.now(UTC),
            home=str(self._home.root),
            notes=notes,
            refresh_s=self._refresh_s,
            may_steer=may_steer,
        )

    def report(self, sweep_id: str) -> str:
        """The report of one sweep. Raises :class:`UserError` for one that is not there or cannot be read."""
        self.asked_at = time.monotonic()
        return self._made("report", sweep_id, _report)

    def mark(self, sweep_id: str) -> str:
        """A text that changes when a sweep does. Raises :class:`UserError` as :meth:`report` does."""
        self.asked_at = time.monotonic()
        with self._lock:
            return _mark(self._stored(sweep_id))

    def figure(self, sweep_id: str) -> str:
        """The figure of one sweep as SVG, without the question, which stands beside it. Raises :class:`UserError` as
        :meth:`report` does."""

        def make(stored: StoredSweep) -> str:
            return inline_svg(main_figure(stored.spec, stored.answer, title=""), "main")

        return self._made("figure", sweep_id, make)

    def narrow_figure(self, sweep_id: str) -> str:
        """The same for a narrow screen, where it has room there. Raises :class:`UserError` as :meth:`report` does."""

        def make(stored: StoredSweep) -> str:
            spec, answer = stored.spec, stored.answer
            return inline_svg(narrow_figure(spec, answer) or main_figure(spec, answer, title=""), "main")

        return self._made("narrow figure", sweep_id, make)

    def stop(self, sweep_id: str, mix: str) -> None:
        """Ask whoever drives a sweep to stop it, or one of its mixes. Raises :class:`UserError` where nobody does, or
        there is no such sweep or mix."""
        with self._lock:
            found = self._stored(sweep_id)
        ask_to_stop(found.sweep, StopRequest(mix))
        self.stopped_a_sweep = self.stopped_a_sweep or not mix

    def resume(self, sweep_id: str) -> None:
        """Go on with a sweep that was interrupted. Raises :class:`UserError` for one that was not, that is gone on with
        already, or that is not there."""
        with self._lock:
            found = self._stored(sweep_id)
            if found.state is not State.INTERRUPTED:
                raise UserError(f"{sweep_id} is {found.state.value}: one that was interrupted can be gone on with")
            self._resuming.begin(self._home.sweep(sweep_id))

    def _made(self, what: str, sweep_id: str, make: Callable[[StoredSweep], str]) -> str:
        with self._lock:
            found = self._stored(sweep_id)
            signature = self._read[sweep_id][0]
            if (known := self._drawn.get((what, sweep_id))) is None or known[0] != signature:
                known = (signature, make(found))
                self._drawn[what, sweep_id] = known
            return known[1]

    def _stored(self, sweep_id: str) -> StoredSweep:
        """A sweep that can be read. Raises :class:`UserError` for another one."""
        if sweep_id not in self._home.sweep_ids():
            raise UserError(f"there is no sweep {sweep_id!r} in {self._home.root}")
        _, found = self._known(sweep_id)
        if not isinstance(found, StoredSweep):
            raise UserError(f"{sweep_id} cannot be read; `sweeps` says why")
        return found

    def _known(self, sweep_id: str) -> tuple[object, StoredSweep | Outline | Unreadable]:
        """What a sweep says, and what changes when it says something else."""
        files = self._home.sweep(sweep_id)
        written = files.journal.stat() if files.journal.is_file() else None
        signature = (written and (written.st_mtime_ns, written.st_size), is_driven(files))
        if (known := self._read.get(sweep_id)) is None or known[0] != signature:
            known = (signature, read_known(self._home, sweep_id))
            self._read[sweep_id] = known
        return known

    def _entry(self, sweep_id: str, links: tuple[Link, ...], shown: bool) -> Entry:
        signature, found = self._known(sweep_id)
        if isinstance(found, Unreadable):
            now = datetime.now(UTC)
            return Entry(sweep_id, "", "", "unreadable", 0, now, now, why=str(found))
        runs = len(found.ended) if isinstance(found, Outline) else len(found.runs)
        known = Entry(
            found.id, found.spec.question, found.spec.profile, found.state.value, runs, found.begun, found.changed
        )
        if isinstance(found, Outline):
            return replace(known, why=str(found.unreadable))
        said, verdicts = headline(found.answer) if shown else ("its answer stands in its report", ())
        known = replace(
            known,
            about=", ".join(filter(None, (found.spec.variant, found.answer.subject))),
            headline=said,
            verdicts=verdicts,
            told=self._told_of(found, signature) if shown else (),
            figure=f"figure/{found.id}.svg?{len(found.runs)}" if shown and found.runs else "",
            narrow=f"narrow/{found.id}.svg?{len(found.runs)}" if shown and found.runs else "",
            report=f"sweep/{found.id}",
            links=links,
        )
        if found.state is State.INTERRUPTED:
            files, at_it = self._home.sweep(found.id), self._resuming.at_it(found.id)
            known = replace(known, again=self._resuming.command(files), resuming=self._resuming.said(found.id))
            return replace(known, resumable=not at_it)
        return self._underway(known, found) if found.state is State.RUNNING else known

    def _told_of(self, found: StoredSweep, signature: object) -> tuple[Paragraph, ...]:
        """How sure a sweep's answer is, which runs disagree, and, once it no longer runs, what its models hold."""
        if (known := self._told.get(found.id)) is None or known[0] != signature:
            held = (
                () if found.state is State.RUNNING else structures(found.answer, found.runs, found.spec.make_family())
            )
            known = (signature, (*in_short(found.answer), *told(held, found.answer.words)))
            self._told[found.id] = known
        return known[1]

    def _underway(self, entry: Entry, found: StoredSweep) -> Entry:
        """The same with what trains now, what can still be stopped, and what was asked to."""
        files, ended = self._home.sweep(found.id), frozenset(run.key for run in found.runs)
        axis, target = found.spec.size_axis, found.spec.target
        training = in_training(found.spec, files, ended, _say_nothing)
        asked = [str(each) for each in asked_to_stop(files) if not (each.mix in found.stopped or each.key in ended)]
        going = {mix.name for mix in found.spec.mixes} - found.stopped
        return replace(
            entry,
            training=tuple(_training_words(each, axis, target) for each in training),
            stoppable=tuple(mix.name for mix in found.spec.mixes if mix.name in going and len(going) > 1),
            asked=tuple(asked),
        )


def _report(stored: StoredSweep) -> str:
    """The page of a sweep, one folder below that of all sweeps."""
    served = Served(f"../#{stored.id}", f"../mark/{stored.id}", _mark(stored))
    if stored.state is State.FINISHED:
        served = Served(served.index)
    return page(PageContent(stored.sweep, stored.state.value, stored.answer, stored.runs, served))


def _mark(stored: StoredSweep) -> str:
    return f"{len(stored.runs)} runs, {stored.state.value}"


def _training_words(run: Unfinished, axis: str, target: str) -> str:
    """``add n_embed 16 seed 0: step 400, 0.52``."""
    config = run.config
    said = f"{config.label} {axis} {config.size} seed {config.seed}"
    if not run.curve:
        return f"{said}: beginning"
    accuracy = run.curve[-1].accuracy.get(target)
    return f"{said}: step {run.step}" + ("" if accuracy is None else f", {accuracy:.2f}")


def _say_nothing(said: str) -> None:
    """A stack whose files are just being written is on the next page."""
