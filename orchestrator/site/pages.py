"""The pages of a home: all sweeps, and a report of each sweep. Unchanged sweeps are read and drawn only once."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from markupsafe import Markup

from orchestrator.catalog.export import compared, page_of
from orchestrator.catalog.reading import StoredSweep, in_training, read_known
from orchestrator.catalog.summary import MixSummary, Summary
from orchestrator.catalog.summary_cache import read_summary
from orchestrator.history.foreign_time import ForeignTime
from orchestrator.history.sweeps import UnreadableError
from orchestrator.home.directories import PROBES, Home
from orchestrator.home.foreign_files import read_text
from orchestrator.record.tracker import StoreError
from orchestrator.report.answer_table import comparison_table
from orchestrator.report.figures.comparisons import PHONE_IN, forest_figure, main_figure
from orchestrator.report.figures.style import WIDTH_IN, inline_svg
from orchestrator.report.figures.transitions import bar_of, styles_of
from orchestrator.report.side_by_side import can_scale, comparison_sentences, scaling_text
from orchestrator.site import render
from orchestrator.space.runs import RunInTraining
from orchestrator.system.commands import command_line
from orchestrator.system.errors import UserError
from orchestrator.system.text import exact
from orchestrator.transition.types import CONFIDENCE, LEVEL, Estimate, Verdict

REFRESH_S = 30
"""Seconds between updates of the page of all sweeps while one runs. Reports are not updated."""
HOW_TO_READ = (
    f"Transition: the size at which the mean score reaches {LEVEL:.0%} of its asymptote, with its {CONFIDENCE:.0%} "
    "interval in brackets. 3/5 at 12: three of the five seeds tried at size 12 learned."
)
"""Legend of the page of all sweeps."""
MOST_SWEEPS_SHOWN = 30
"""Number of sweeps that are shown with answer and figure. A figure takes half a second, so older sweeps have only
links."""
MOST_COMPARED = 12
"""Maximum number of sweeps to compare on a page."""
Links = Callable[[], Mapping[str, Mapping[str, str]]]
"""Function that returns each sweep's addresses in the record, by sweep id and name. Raises :class:`StoreError`."""
Made = TypeVar("Made")


class SweepPages:
    """Makes the pages of a home. Only one thread at a time may call it.

    Args:
        home: The home.
        links: Function that returns each sweep's addresses in the record.
        record: Address of MLflow's page. Empty if there is none.
    """

    def __init__(self, home: Home, links: Links = dict, record: str = "") -> None:
        self.home = home
        self._record = record
        self._links = links
        self._cache: dict[tuple[str, str], tuple[object, Any]] = {}
        """Signature and result by kind and sweep."""
        self._mark = secrets.token_hex(16)
        """Text instead of the nonce in cached reports. It is random, so nothing in a home can contain it."""

    def index(self, nonce: str = "") -> str:
        """Return the page of all sweeps. Its script has this ``nonce``."""
        notes: list[str] = []
        try:
            links = self._links()
        except StoreError as error:
            links = {}
            notes = [f"MLflow's record cannot be read: {error}"]
        limit = ForeignTime(self.home)
        entries = [
            self._entry(sweep_id, links.get(sweep_id, {}), index < MOST_SWEEPS_SHOWN, limit)
            for index, sweep_id in enumerate(self.home.sweep_ids())
        ]
        running = any(entry["state"] == "running" for entry in entries)
        axes = spans(entry["summary"] for entry in entries if entry["summary"])
        now = datetime.now(UTC)
        return render(
            "index.html.j2",
            nonce=nonce,
            record=self._record,
            command=command_line,
            entries=entries,
            home=self.home.root,
            notes=notes,
            legend=HOW_TO_READ if any(entry["verdicts"] for entry in entries) else "",
            refresh=REFRESH_S if running else None,
            scales=[f"{axis} {exact(low)} to {exact(high)}" for axis, (low, high) in axes.items()],
            intervals=lambda summary: intervals(summary.mixes, axes[summary.size_axis]),
            age=lambda when: age(now, when),
        )

    def report(self, sweep_id: str, nonce: str = "") -> str:
        """Return the report of a sweep. For an unreadable sweep, return a page around the report from the sweep's end.

        Args:
            sweep_id: The sweep's id.
            nonce: Text that allows the page's scripts to run.

        Raises:
            UserError: If the sweep is missing, or if it is unreadable and has no report.
        """
        if sweep_id in self.home.sweep_ids():
            unread = self._stored(sweep_id)
            if isinstance(unread, UnreadableError) and unread.report is not None:
                return render("stored.html.j2", nonce=nonce, id=sweep_id, why=unread.why)
        stored = self._readable(sweep_id)
        directories = [run.directory / PROBES for run in stored.runs]
        probed = [directory.stat().st_mtime_ns for directory in directories if directory.is_dir()]
        page = self._once(
            "report",
            sweep_id,
            lambda: page_of(stored, index=f"../#{sweep_id}", nonce=self._mark),
            probed_at=max(probed, default=0),
        )
        return page.replace(self._mark, nonce)

    def stored_report(self, sweep_id: str) -> str:
        """Return the report from the end of an unreadable sweep. Serve it in a sandbox, because anyone may have written
        it. Raises :class:`UserError` if there is no report."""
        unread = self._stored(sweep_id) if sweep_id in self.home.sweep_ids() else None
        if not isinstance(unread, UnreadableError) or unread.report is None:
            raise UserError(f"{self.home.root} has no stored report of {sweep_id!r}")
        try:
            return read_text(unread.report)
        except (OSError, ValueError) as error:
            raise UserError(f"the report of {sweep_id} cannot be read: {error}") from error

    def figure(self, sweep_id: str, *, narrow: bool) -> str:
        """Return the figure of a sweep as SVG without its question.

        Args:
            sweep_id: The sweep's id.
            narrow: True for small screens. A figure with several recipes stays wide, because it would not fit.

        Raises:
            UserError: If the sweep is missing or unreadable.
        """
        stored = self._readable(sweep_id)
        width_in = PHONE_IN if narrow and not stored.answer.recipes else WIDTH_IN
        return self._once(f"figure {width_in}", sweep_id, lambda: _figure(stored, width_in))

    def compare(self, ids: Sequence[str]) -> str:
        """Return the page that compares several sweeps. Raises :class:`UserError` for fewer than two or too many
        sweeps."""
        chosen = list(dict.fromkeys(ids))
        if not 2 <= len(chosen) <= MOST_COMPARED:
            raise UserError(f"{len(chosen)} sweeps are selected: select 2 to {MOST_COMPARED} on the page of all sweeps")
        stored = [self._readable(sweep_id) for sweep_id in chosen]
        answers = compared(stored)
        kind = "variant" if all(entry.variant for entry in answers) else "sweep"
        header, rows = comparison_table(answers, kind)
        findings = comparison_sentences(answers, kind)
        svg = inline_svg(forest_figure(answers), "compared", " ".join(findings))
        return render(
            "compare.html.j2",
            labels={sweep.id: entry.label for sweep, entry in zip(stored, answers, strict=True)},
            sentences=[*findings, *(scaling_text(answers) if can_scale(answers) else ())],
            header=header,
            rows=rows,
            figure=Markup(svg),  # Safe: matplotlib escapes the text in its figures.
        )

    def _once(self, kind: str, sweep_id: str, make: Callable[[], Made], *, probed_at: int = 0) -> Made:
        """Return the result of ``make``. Call ``make`` again only if the sweep or its probes have changed."""
        files = self.home.sweep(sweep_id)
        try:
            written = [(path.name, path.stat()) for path in (files.journal, files.spec) if path.is_file()]
            driven = files.is_driven()
        except OSError:
            return make()  # The sweep cannot be read now, for example without permission. `make` reports that.
        changes = [(name, stat.st_mtime_ns, stat.st_size) for name, stat in written]
        signature = changes, probed_at, driven
        if (cached := self._cache.get((kind, sweep_id))) is None or cached[0] != signature:
            cached = (signature, make())
            # The cause of an error may end without a change of the sweep's files, so errors are not cached.
            if not isinstance(cached[1], UnreadableError):
                self._cache[kind, sweep_id] = cached
        made: Made = cached[1]
        return made

    def _readable(self, sweep_id: str) -> StoredSweep:
        if sweep_id not in self.home.sweep_ids():
            raise UserError(f"{self.home.root} has no sweep {sweep_id!r}")
        stored = self._stored(sweep_id)
        if not isinstance(stored, StoredSweep):
            raise UserError(f"{sweep_id} cannot be read; `sweeps` lists the reason")
        return stored

    def _stored(self, sweep_id: str) -> StoredSweep | UnreadableError:
        return self._once("read", sweep_id, lambda: read_known(self.home, sweep_id))

    def _summary(self, sweep_id: str) -> Summary | UnreadableError:
        return self._once(
            "summary", sweep_id, lambda: read_summary(self.home, sweep_id, lambda: self._stored(sweep_id))
        )

    def _entry(self, sweep_id: str, links: Mapping[str, str], shown: bool, limit: ForeignTime) -> dict[str, Any]:
        """Return a sweep as the page's template needs it, with runs in training and requests to stop as text."""
        summary = limit.read(sweep_id, lambda: self._summary(sweep_id))
        entry: dict[str, Any] = {"id": sweep_id, "links": links, "training": (), "stopping": ()}
        if isinstance(summary, UnreadableError):
            empty: dict[str, Any] = {"summary": None, "about": "", "verdicts": (), "figure": "", "links": {}}
            left = {"report": summary.report, "answer": summary.answer, "imported": summary.is_imported}
            return entry | empty | {"state": "unreadable", "why": str(summary)} | left
        if summary.is_running and isinstance(stored := self._stored(sweep_id), StoredSweep):
            ended = frozenset(run.key for run in stored.runs)
            unfinished = in_training(stored.sweep, ended, lambda text: None)  # Skip files being written.
            entry["training"] = [_training_text(run, summary.size_axis, summary.target) for run in unfinished]
            requests = stored.sweep.files.stop_requests()
            entry["stopping"] = [mix or "the whole sweep" for mix in requests if mix not in stored.stopped]
        return entry | {
            "summary": summary,
            "imported": summary.is_imported,
            "state": summary.state,
            "about": summary.about,
            "headline": " ".join(summary.findings) if shown else "see its report for the answer",
            "verdicts": summary.verdicts if shown else (),
            "damage": summary.damage,
            "paragraphs": summary.paragraphs if shown else (),
            "figure": f"{sweep_id}.svg?{summary.ended}" if shown and summary.ended else "",
        }


def _figure(stored: StoredSweep, width_in: float) -> str:
    svg = inline_svg(main_figure(stored.answer, width_in=width_in), "main", stored.spec.question)
    style = f"{render('palette.css.j2')} svg {{ font-family: sans-serif; }} svg text {{ fill: var(--ink); }}"
    return svg.replace(">", f"><style>{style}</style>", 1)


def _training_text(run: RunInTraining, axis: str, target: str) -> str:
    """Return ``add n_embed 16 seed 0: step 400, 0.52``."""
    config = run.config
    text = f"{config.label} {axis} {config.size} seed {config.seed}"
    if not run.curve:
        return f"{text}: starting"
    accuracy = run.accuracy(target)
    return f"{text}: step {run.step}" + ("" if accuracy is None else f", {accuracy:.2f}")


def age(now: datetime, then: datetime) -> str:
    """Return ``just now``, ``12 min ago``, ``5 h ago`` or ``3 days ago``."""
    seconds = max(0.0, (now - then).total_seconds())
    for unit, word in ((86400, "day"), (3600, "h"), (60, "min")):
        if count := int(seconds // unit):
            plural = "s" if word == "day" and count > 1 else ""
            return f"{count} {word}{plural} ago"
    return "just now"


def spans(summaries: Iterable[Summary]) -> dict[str, tuple[float, float]]:
    """Return the ends of each size axis over all sweeps that use it."""
    sizes: dict[str, list[float]] = {}
    for summary in summaries:
        sizes.setdefault(summary.size_axis, []).extend(summary.offered)
    return {axis: (min(values), max(values)) for axis, values in sizes.items()}


def intervals(mixes: Sequence[MixSummary], span: tuple[float, float]) -> list[dict[str, Any]]:
    """Return the mixes of a sweep as bars for the template, on a logarithmic axis from ``span[0]`` to ``span[1]``.

    Positions on the axis are in percent. ``ends`` is None if a mix has no bar. An open end is at the edge of the axis.
    """
    colors = styles_of(mix.mix for mix in mixes)

    def position(size: float) -> float:
        share = math.log(size / span[0]) / math.log(span[1] / span[0]) if span[1] > span[0] else 0.5
        return round(100 * min(max(share, 0.0), 1.0), 1)

    made = []
    for mix in mixes:
        bar = bar_of(Estimate(mix.value, mix.low, mix.high), Verdict(mix.verdict), *mix.tested)
        ends = None
        is_open = False
        value = None
        if bar is not None and mix.has_points and not bar.low is bar.high is None:
            ends = (0.0 if bar.low is None else position(bar.low), 100.0 if bar.high is None else position(bar.high))
            is_open = bar.low is None or bar.high is None
            value = None if bar.value is None else position(bar.value)
        words = {"mix": mix.mix, "words": mix.transition, "compared": mix.compared, "color": colors[mix.mix][0]}
        made.append(words | {"ends": ends, "is_open": is_open, "value": value})
    return made
