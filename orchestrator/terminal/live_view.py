"""The terminal while a sweep runs: a live table, or plain lines if the output is not a terminal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Self

from rich.console import Console, ConsoleRenderable, Group, RenderableType
from rich.control import Control
from rich.live import Live
from rich.segment import ControlType
from rich.table import Table
from rich.text import Text

from orchestrator.report.table import plain_table
from orchestrator.report.words.numbers import bad_runs, duration, number, rough_duration
from orchestrator.search.base import MixProgress
from orchestrator.terminal.snapshot import Counts, RunProgress, Snapshot, posterior_bar

REFRESHES_PER_S = 2.0
STATUS_EVERY_S = 30.0
"""Seconds between status lines without a terminal."""
NARROW = 60
"""Minimum number of columns for a table with bars."""
MOST_CELLS = 8
"""Maximum number of lines for runs in training, so that the view fits a small terminal."""
SOON_S = 1.0
"""Fewer remaining seconds than this count as none."""
LATE = "longer than expected"


class LiveView:
    """Shows a sweep in progress, as a context manager. Any thread may call its methods.

    The view's thread calls ``snapshot`` a few times a second on a terminal, else every :data:`STATUS_EVERY_S`, so
    ``snapshot`` must be fast and thread-safe.
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
            self._live = _ResizableLive(
                console=self._console, get_renderable=self._render, refresh_per_second=REFRESHES_PER_S
            )
            self._live.start(refresh=True)
        else:
            self._thread = threading.Thread(target=self._write_status, name="progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._stop.set()
        if self._live is not None:
            self._live.stop()
        if self._thread is not None:
            self._thread.join()
            self._write_warnings(self._snapshot())

    def run_ended(self, mix: str, size: int, seed: int, outcome: str) -> None:
        """Show that a run ended: as a separate line without a terminal, else as the view's last line."""
        line = f"{mix} {size} seed {seed}: {outcome}"
        if self._live is None:
            self._print(line)
        with self._lock:
            self._last = line

    def _render(self) -> RenderableType:
        with self._lock:
            last = self._last
        return render(self._snapshot(), last, self._console.width)

    def _write_status(self) -> None:
        while not self._stop.wait(self._status_every_s):
            snapshot = self._snapshot()
            self._write_warnings(snapshot)
            self._print(status_line(snapshot))

    def _write_warnings(self, snapshot: Snapshot) -> None:
        """Print each warning once. Warnings that differ only in numbers are the same."""
        for warning in snapshot.warnings:
            text = "".join(letter for letter in warning if not letter.isdigit())
            if text not in self._warned:
                self._warned.add(text)
                self._print(f"warning: {warning}")

    def _print(self, line: str) -> None:
        # One line at any width, because programs and log files read these.
        self._console.print(f"{datetime.now():%H:%M:%S} {line}", markup=False, highlight=False, soft_wrap=True)


class _ResizableLive(Live):
    """Clears the screen after a resize, because the terminal has reflowed lines that rich would miss."""

    def refresh(self) -> None:
        """Refresh in one step on terminals with synchronized output (private mode 2026)."""
        self.console.file.write("\x1b[?2026h")
        super().refresh()
        self.console.file.write("\x1b[?2026l")
        self.console.file.flush()

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        size, last_size = self.console.size, getattr(self, "_last_size", None)
        self._last_size = size
        if last_size in (None, size):
            return super().process_renderables(renderables)
        self._live_render._shape = None
        return [Control(ControlType.CLEAR, ControlType.HOME), *super().process_renderables(renderables)]


def render(snapshot: Snapshot, last: str, width: int) -> RenderableType:
    """Return the live view, times first because a low terminal cuts the end. ``last`` describes the last ended run."""
    parts: list[RenderableType] = [Text(times_words(snapshot), "bold"), _mixes(snapshot, width)]
    if snapshot.in_flight:
        parts.append(_in_training(snapshot, width))
    bad = {name: bad_runs(counts.diverged, counts.failed) for name, counts in snapshot.counts.items()}
    parts += [Text(f"{name}: {text}", style="yellow") for name, text in bad.items() if text]
    parts += [Text(warning, style="yellow") for warning in snapshot.warnings]
    if last:
        parts.append(Text(f"last: {last}", style="dim", no_wrap=True, overflow="ellipsis"))
    parts.append(Text(cost_words(snapshot), "dim"))
    return Group(*parts)


def _mixes(snapshot: Snapshot, width: int) -> Table:
    """Return a row per mix: its transition so far, and its ended and current runs."""
    bars = width >= NARROW
    axis = [f"{snapshot.size_axis} {snapshot.sizes[0]} to {snapshot.sizes[-1]}"] if bars else []
    table = plain_table("mix", *axis, "transition", "done", "now")
    for column in table.columns[len(axis) + 2 :]:
        column.no_wrap = True
    for mix in snapshot.mixes:
        so_far = snapshot.so_far.get(mix.mix)
        bar = [posterior_bar(snapshot.sizes, so_far.posterior if so_far else (), mix.low, mix.high)] if bars else []
        table.add_row(
            Text(mix.mix),
            *bar,
            Text(transition_words(snapshot, mix), "green" if mix.done and so_far and so_far.found else ""),
            str(snapshot.counts.get(mix.mix, Counts()).total),
            str(sum(run.mix == mix.mix for run in snapshot.in_flight)),
        )
    return table


def _in_training(snapshot: Snapshot, width: int) -> Table:
    """Return a row per mix and size in training: progress, time left, and accuracy by seed."""
    table = plain_table("training", "", "left", "accuracy, seed by seed" if width >= NARROW else "accuracy")
    for column in table.columns[1:3]:
        column.no_wrap, column.justify = True, "right"
    table.columns[3].no_wrap, table.columns[3].overflow = True, "ellipsis"
    cells = training_cells(snapshot.in_flight)
    for (mix, size), runs in list(cells.items())[:MOST_CELLS]:
        left = [run.left_s for run in runs if run.left_s is not None]
        times = duration(max(left)) if left else "-"
        table.add_row(Text(f"{mix} {size}"), f"{_share(runs):.0%}", times, _accuracies(runs))
    if len(cells) > MOST_CELLS:
        table.add_row(Text(f"and {len(cells) - MOST_CELLS} more", style="dim"))
    return table


def training_cells(in_flight: Iterable[RunProgress]) -> dict[tuple[str, int], list[RunProgress]]:
    """Return the runs in training by mix and size, ordered by seed."""
    cells: dict[tuple[str, int], list[RunProgress]] = {}
    for run in sorted(in_flight, key=lambda run: (run.mix, run.size, run.seed)):
        cells.setdefault((run.mix, run.size), []).append(run)
    return cells


def _accuracies(runs: Iterable[RunProgress]) -> str:
    """Return the last accuracies: ``0.35 0.80 -``."""
    return " ".join("-" if run.accuracy is None else f"{run.accuracy:.2f}" for run in runs)


def _share(runs: Sequence[RunProgress]) -> float:
    """Return the mean share of finished steps."""
    return sum(run.step / max(run.steps, 1) for run in runs) / len(runs)


def status_line(snapshot: Snapshot) -> str:
    """Return a snapshot as a line of plain text."""
    parts = []
    cells = training_cells(snapshot.in_flight)
    for mix in snapshot.mixes:
        now = sum(run.mix == mix.mix for run in snapshot.in_flight)
        done = snapshot.counts.get(mix.mix, Counts()).total
        own = ((size, runs) for (name, size), runs in cells.items() if name == mix.mix)
        scores = ", ".join(f"{size}: {_accuracies(runs)} at {_share(runs):.0%}" for size, runs in own)
        training = f"{now} now ({scores})" if scores else f"{now} now"
        parts.append(f"{mix.mix} {transition_words(snapshot, mix)}, {done} done, {training}")
    return "; ".join([*parts, times_words(snapshot), cost_words(snapshot)])


def transition_words(snapshot: Snapshot, mix: MixProgress) -> str:
    """Return the verdict so far, or the open range: ``24-40``, ``above 24``, ``up to 40``, ``not yet``."""
    if mix.mix in snapshot.so_far:
        return snapshot.so_far[mix.mix].words
    if mix.low is not None and mix.high is not None:
        return f"{mix.low}-{mix.high}"
    if mix.low is not None:
        return f"above {mix.low}"
    return "not yet" if mix.high is None else f"up to {mix.high}"


def times_words(snapshot: Snapshot) -> str:
    """Return ``3 min 20 s elapsed, about 6 min left``."""
    return f"{duration(snapshot.elapsed_s)} elapsed, {_left(snapshot)}"


def _left(snapshot: Snapshot) -> str:
    """Return the time left in words. Once the estimate has run out, report how long the current runs still need."""
    if snapshot.left_s >= SOON_S:
        return f"about {rough_duration(snapshot.left_s)} left"
    if not snapshot.in_flight:
        return "about to end"
    training_s = max((run.left_s for run in snapshot.in_flight if run.left_s is not None), default=0.0)
    known = f": up to {duration(training_s)} for runs in training" if training_s >= SOON_S else ""
    return f"{LATE}{known}"


def cost_words(snapshot: Snapshot) -> str:
    """Return ``1 h 05 min in ended runs, 34% of the whole grid; 12,300 steps per second in total``."""
    text = f"{duration(snapshot.trained_s)} in ended runs"
    if snapshot.grid_s:
        text += f", {snapshot.trained_s / snapshot.grid_s:.0%} of the whole grid"
    if snapshot.steps_per_s is not None:
        text += f"; {number(snapshot.steps_per_s)} steps per second in total"
    return text
