"""What the person at the terminal sees while a sweep runs: a live table, or plain lines where there is no terminal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Self

from rich.console import Console, Group, OverflowMethod, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from orchestrator.report.wording import duration, number, time_range
from orchestrator.search.base import MixProgress
from orchestrator.simulation.remaining import Remaining
from orchestrator.terminal.bars import posterior_bar, speaks_ascii
from orchestrator.terminal.snapshot import Counts, RunProgress, Snapshot, Verdict

REFRESHES_PER_S = 2.0
STATUS_EVERY_S = 30.0
"""The least time between two status lines where there is no terminal."""
NARROW = 60
"""Below this many columns the table leaves out the bars."""
SOON_S = 1.0
"""A forecast of less than this is over."""
BAR = 16
"""Characters of the bar of time."""
MOST_GROUPS = 8
"""Lines for what trains now; the view has to fit a small terminal."""


class LiveView:
    """Shows a sweep under way; a context manager.

    ``snapshot`` is called from a thread of the view's own, a few times a second on a terminal and every
    :data:`STATUS_EVERY_S` elsewhere: it must be quick and bear being called while the sweep goes on. All methods may
    be called from any thread.
    """

    def __init__(
        self, console: Console, snapshot: Callable[[], Snapshot], *, status_every_s: float = STATUS_EVERY_S
    ) -> None:
        self._console = console
        self._snapshot = snapshot
        self._status_every_s = status_every_s
        self._lock = threading.Lock()
        self._last = ""
        self._warned: set[str] = set()
        self._stop = threading.Event()
        self._live: Live | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(
                console=self._console, get_renderable=self._render, refresh_per_second=REFRESHES_PER_S, transient=False
            )
            self._live.start(refresh=True)
        else:
            self._thread = threading.Thread(target=self._write_status, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._live is not None:
            self._live.stop()
        if self._thread is not None:
            self._thread.join()
            self._write_warnings(self._snapshot())

    def run_ended(self, mix: str, size: int, seed: int, outcome: str) -> None:
        """Say how a run ended: a line of its own where there is no terminal, else the view's last line."""
        line = f"{mix} {size} seed {seed}: {outcome}"
        if self._live is None:
            self._print(line)
        with self._lock:
            self._last = line

    def _render(self) -> RenderableType:
        with self._lock:
            last = self._last
        return render(self._snapshot(), last, self._console.width, ascii_only=speaks_ascii(self._console))

    def _write_status(self) -> None:
        while not self._stop.wait(self._status_every_s):
            snapshot = self._snapshot()
            self._write_warnings(snapshot)
            self._print(status_line(snapshot))

    def _write_warnings(self, snapshot: Snapshot) -> None:
        """Each warning once; one whose numbers change is another one, so numbers do not count."""
        for warning in snapshot.warnings:
            said = "".join(letter for letter in warning if not letter.isdigit())
            if said not in self._warned:
                self._warned.add(said)
                self._print(f"warning: {warning}")

    def _print(self, line: str) -> None:
        # One line whatever the console's width: these are read by programs and in log files.
        self._console.print(f"{datetime.now():%H:%M:%S} {line}", markup=False, highlight=False, soft_wrap=True)


def render(snapshot: Snapshot, last: str, width: int, *, ascii_only: bool = False) -> RenderableType:
    """The live view of a snapshot for a terminal of ``width`` columns."""
    narrow = width < NARROW
    cut: OverflowMethod = "crop" if ascii_only else "ellipsis"
    training: list[RenderableType] = [Text(), _in_training(snapshot, cut, narrow=narrow)] if snapshot.in_flight else []
    return Group(
        _mixes(snapshot, cut, narrow=narrow, ascii_only=ascii_only),
        *([] if narrow else [Text(each.line, style="dim", no_wrap=True, overflow=cut) for each in _said(snapshot)]),
        *training,
        *(Text(_counted(name, counts), style="yellow") for name, counts in snapshot.counts.items() if _bad(counts)),
        *(Text(warning, style="yellow") for warning in snapshot.warnings),
        *([Text(f"last: {last}", style="dim", no_wrap=True, overflow=cut)] if last else []),
        Text(_bar(snapshot, ascii_only=ascii_only) + _times(snapshot), style="dim"),
        Text(_cost(snapshot), style="dim"),
    )


def _mixes(snapshot: Snapshot, cut: OverflowMethod, *, narrow: bool, ascii_only: bool) -> Table:
    """One row a mix: where its transition may lie, and how many runs ended, train and may still come."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=not narrow)
    table.add_column("mix", no_wrap=True, overflow=cut)
    if not narrow:
        table.add_column(f"{snapshot.size_axis} {snapshot.sizes[0]} to {snapshot.sizes[-1]}", no_wrap=True)
    table.add_column("transition", no_wrap=True)
    for title in ("done", "now", "left"):
        table.add_column(title, justify="right", no_wrap=True)
    if not narrow:
        table.add_column("", no_wrap=True, overflow=cut, ratio=1)
    for mix in snapshot.mixes:
        table.add_row(*_cells(snapshot, mix, narrow=narrow, ascii_only=ascii_only))
    return table


def _in_training(snapshot: Snapshot, cut: OverflowMethod, *, narrow: bool) -> Table:
    """One row for the runs of a mix and size that train now: how far they are, what they score, what time they need."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=not narrow)
    table.add_column("training", no_wrap=True, overflow=cut)
    if not narrow:
        table.add_column("step", justify="right", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("left", justify="right", no_wrap=True)
    table.add_column(
        "accuracy" if narrow else "accuracy now, seed by seed", no_wrap=True, overflow=cut, ratio=None if narrow else 1
    )
    groups = _groups(snapshot.in_flight)
    for group in groups[:MOST_GROUPS]:
        step, steps = max(run.step for run in group.runs), group.runs[0].steps
        left = [run.left_s for run in group.runs if run.left_s is not None]
        counted = [] if narrow else [f"{step}/{steps}"]
        time_left = duration(max(left)) if left else "-"
        table.add_row(Text(f"{group.mix} {group.size}"), *counted, f"{group.share:.0%}", time_left, group.accuracies)
    if len(groups) > MOST_GROUPS:
        table.add_row(Text(f"and {len(groups) - MOST_GROUPS} more", style="dim"))
    return table


def status_line(snapshot: Snapshot) -> str:
    """A snapshot in one line of plain text."""
    parts = []
    for mix in snapshot.mixes:
        now = sum(run.mix == mix.mix for run in snapshot.in_flight)
        done = snapshot.counts.get(mix.mix, Counts()).total
        groups = _groups([run for run in snapshot.in_flight if run.mix == mix.mix])
        scores = ", ".join(f"{group.size}: {group.accuracies} at {group.share:.0%}" for group in groups)
        training = f"{now} now ({scores})" if scores else f"{now} now"
        parts.append(f"{mix.mix} {_words(snapshot, mix)}, {done} done, {training}, {_left(mix)} left")
    return "; ".join([*parts, _times(snapshot), _cost(snapshot)])


def _cells(snapshot: Snapshot, mix: MixProgress, *, narrow: bool, ascii_only: bool) -> list[RenderableType]:
    now = sum(run.mix == mix.mix for run in snapshot.in_flight)
    done = snapshot.counts.get(mix.mix, Counts()).total
    numbers: list[RenderableType] = [str(done), str(now), _left(mix)]
    verdict = snapshot.verdicts.get(mix.mix)
    words = Text(_words(snapshot, mix), style="green" if mix.done and verdict is not None and verdict.found else "")
    if narrow:
        return [Text(mix.mix), words, *numbers]
    posterior = snapshot.posteriors.get(mix.mix, ())
    bar = posterior_bar(snapshot.sizes, posterior, mix.low, mix.high, ascii_only=ascii_only)
    return [Text(mix.mix), bar, words, *numbers, Text(mix.note)]


def _said(snapshot: Snapshot) -> list[Verdict]:
    """The verdicts in the order of the mixes."""
    return [snapshot.verdicts[mix.mix] for mix in snapshot.mixes if mix.mix in snapshot.verdicts]


def _words(snapshot: Snapshot, mix: MixProgress) -> str:
    """The verdict so far; before any run what is still open: ``24-40``, ``above 24``, ``up to 40``, ``any``."""
    if mix.mix in snapshot.verdicts:
        return snapshot.verdicts[mix.mix].words
    if mix.low is not None and mix.high is not None:
        return f"{mix.low}-{mix.high}"
    if mix.low is not None:
        return f"above {mix.low}"
    return "any" if mix.high is None else f"up to {mix.high}"


@dataclass(frozen=True)
class _Group:
    """The runs of a mix and size that train now, by seed."""

    mix: str
    size: int
    runs: tuple[RunProgress, ...]

    @property
    def accuracies(self) -> str:
        return " ".join("-" if run.accuracy is None else f"{run.accuracy:.2f}" for run in self.runs)

    @property
    def share(self) -> float:
        """Of their steps, on average."""
        return sum(run.step / max(run.steps, 1) for run in self.runs) / len(self.runs)


def _groups(in_flight: Iterable[RunProgress]) -> list[_Group]:
    by_cell: dict[tuple[str, int], list[RunProgress]] = {}
    for run in sorted(in_flight, key=lambda run: (run.mix, run.size, run.seed)):
        by_cell.setdefault((run.mix, run.size), []).append(run)
    return [_Group(mix, size, tuple(runs)) for (mix, size), runs in by_cell.items()]


def _left(mix: MixProgress) -> str:
    return "0" if mix.done else f"<={mix.runs_left}"


def _bad(counts: Counts) -> bool:
    return counts.diverged > 0 or counts.failed > 0


def _counted(mix: str, counts: Counts) -> str:
    said = [f"{count} {word}" for count, word in ((counts.diverged, "diverged"), (counts.failed, "failed")) if count]
    return f"{mix}: {', '.join(said)}"


def _bar(snapshot: Snapshot, *, ascii_only: bool) -> str:
    """How much of the time is gone, by the middle of the forecast; ``""`` without one."""
    if snapshot.forecast is None:
        return ""
    share = snapshot.elapsed_s / max(snapshot.elapsed_s + snapshot.forecast.middle_s, 1e-9)
    full, empty = "#." if ascii_only else "█░"
    gone = round(share * BAR)
    return f"{full * gone}{empty * (BAR - gone)} {share:.0%}  "


def _times(snapshot: Snapshot) -> str:
    if snapshot.forecast is not None:
        return f"{duration(snapshot.elapsed_s)} gone, {_forecast(snapshot.forecast, snapshot.in_flight)}"
    left = "time left unknown" if snapshot.left_s is None else f"at most {duration(snapshot.left_s)} left"
    return f"{duration(snapshot.elapsed_s)} gone, {left}"


def _forecast(forecast: Remaining, in_flight: Iterable[RunProgress]) -> str:
    """The time left as a range. A forecast that is over says nothing more; what trains then does."""
    if forecast.middle_s >= SOON_S:
        return f"{time_range(forecast.low_s, forecast.middle_s, forecast.high_s)} left"
    if forecast.high_s >= SOON_S:
        return f"over any moment, or in up to {duration(forecast.high_s)}"
    left = max((run.left_s for run in in_flight if run.left_s is not None), default=0.0)
    return f"longer than foreseen: up to {duration(left)} for what trains" if left >= SOON_S else "over any moment"


def _cost(snapshot: Snapshot) -> str:
    """``1 h 05 min of training, 34% of the grid's; 12 300 runs x steps a second``."""
    said = f"{duration(snapshot.trained_s)} of training"
    if snapshot.grid_s:
        said += f", {snapshot.trained_s / snapshot.grid_s:.0%} of the grid's"
    if snapshot.steps_per_s is not None:
        said += f"; {number(snapshot.steps_per_s)} runs x steps a second"
    return said
