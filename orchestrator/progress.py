"""What the person at the terminal sees while a sweep runs: a live table, or plain lines where there is no terminal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from rich.console import Console, Group, OverflowMethod, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from orchestrator.search.base import MixProgress

REFRESHES_PER_S = 2.0
STATUS_EVERY_S = 30.0
"""The least time between two status lines where there is no terminal."""
BAR_CELLS = 18
NARROW = 60
"""Below this many columns the table leaves out the bar and what trains now."""
GLYPHS = {"unlearned": "·", "open": "█", "learned": "━"}
ASCII_GLYPHS = {"unlearned": ".", "open": "#", "learned": "="}
STYLES = {"unlearned": "dim", "open": "yellow", "learned": "green"}


@dataclass(frozen=True)
class RunProgress:
    """A run in training. ``accuracy`` is the target's at its last evaluation, None before the first."""

    mix: str
    size: int
    seed: int
    step: int
    steps: int
    accuracy: float | None


@dataclass(frozen=True)
class Counts:
    """How a mix's runs ended so far."""

    finished: int = 0
    diverged: int = 0
    failed: int = 0

    @property
    def total(self) -> int:
        return self.finished + self.diverged + self.failed


@dataclass(frozen=True)
class Snapshot:
    """A sweep at one moment. ``trained_s`` is the training time spent so far, summed over runs."""

    size_axis: str
    sizes: tuple[int, ...]
    mixes: tuple[MixProgress, ...]
    counts: Mapping[str, Counts] = field(default_factory=dict)
    in_flight: tuple[RunProgress, ...] = ()
    elapsed_s: float = 0.0
    left_s: float | None = None
    trained_s: float = 0.0
    warnings: tuple[str, ...] = ()


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
        return render(self._snapshot(), last, self._console.width, ascii_only=self._ascii_only)

    @property
    def _ascii_only(self) -> bool:
        return not self._console.encoding.lower().startswith("utf")

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
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def render(snapshot: Snapshot, last: str, width: int, *, ascii_only: bool = False) -> RenderableType:
    """The live view of a snapshot for a terminal of ``width`` columns."""
    narrow = width < NARROW
    cut: OverflowMethod = "crop" if ascii_only else "ellipsis"
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=not narrow)
    table.add_column("mix", no_wrap=True, overflow=cut)
    if not narrow:
        table.add_column(f"{snapshot.size_axis} {snapshot.sizes[0]} to {snapshot.sizes[-1]}", no_wrap=True)
    table.add_column("between", no_wrap=True)
    for title in ("done", "now", "left"):
        table.add_column(title, justify="right", no_wrap=True)
    if not narrow:
        table.add_column("accuracy now", no_wrap=True, overflow=cut, ratio=1)
    for mix in snapshot.mixes:
        table.add_row(*_cells(snapshot, mix, narrow=narrow, ascii_only=ascii_only))
    return Group(
        table,
        *(Text(_counted(name, counts), style="yellow") for name, counts in snapshot.counts.items() if _bad(counts)),
        *(Text(warning, style="yellow") for warning in snapshot.warnings),
        *([Text(f"last: {last}", style="dim")] if last else []),
        Text(_times(snapshot), style="dim"),
    )


def status_line(snapshot: Snapshot) -> str:
    """A snapshot in one line of plain text."""
    parts = []
    for mix in snapshot.mixes:
        now = sum(run.mix == mix.mix for run in snapshot.in_flight)
        done = snapshot.counts.get(mix.mix, Counts()).total
        parts.append(f"{mix.mix} {_bracket(snapshot, mix)}, {done} done, {now} now, {_left(mix)} left")
    return "; ".join([*parts, _times(snapshot)])


def duration(seconds: float) -> str:
    """``45 s``, ``3 min 20 s``, ``1 h 05 min``."""
    whole = max(0, round(seconds))
    minutes, rest = divmod(whole, 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def _cells(snapshot: Snapshot, mix: MixProgress, *, narrow: bool, ascii_only: bool) -> list[RenderableType]:
    in_flight = [run for run in snapshot.in_flight if run.mix == mix.mix]
    done = snapshot.counts.get(mix.mix, Counts()).total
    numbers: list[RenderableType] = [str(done), str(len(in_flight)), _left(mix)]
    bracket = Text(_bracket(snapshot, mix), style="green" if mix.done else "")
    if narrow:
        return [Text(mix.mix), bracket, *numbers]
    now = _accuracies(in_flight) or mix.note
    return [Text(mix.mix), _bar(snapshot.sizes, mix, ascii_only), bracket, *numbers, Text(now)]


def _bar(sizes: tuple[int, ...], mix: MixProgress, ascii_only: bool) -> Text:
    """The sizes as cells: known not to learn, open, known to learn. Several sizes share a cell where there are many;
    a cell is open as long as one of its sizes is."""
    glyphs = ASCII_GLYPHS if ascii_only else GLYPHS
    count = min(BAR_CELLS, len(sizes))
    bar = Text()
    for cell in range(count):
        held = sizes[cell * len(sizes) // count : (cell + 1) * len(sizes) // count]
        if mix.low is not None and held[-1] <= mix.low:
            kind = "unlearned"
        elif mix.high is not None and held[0] >= mix.high:
            kind = "learned"
        else:
            kind = "open"
        bar.append(glyphs[kind], STYLES[kind])
    return bar


def _bracket(snapshot: Snapshot, mix: MixProgress) -> str:
    """What is still open: ``24-40``, ``above 24``, ``up to 40``, ``any``."""
    if mix.low is not None and mix.high is not None:
        return f"{mix.low}-{mix.high}"
    if mix.low is not None:
        return f"above {mix.low}"
    return "any" if mix.high is None else f"up to {mix.high}"


def _accuracies(in_flight: list[RunProgress]) -> str:
    """``32: 0.35 0.80 (40%), 48: - (0%)`` for the runs in training, by size, with their mean share of the steps."""
    by_size: dict[int, list[RunProgress]] = {}
    for run in sorted(in_flight, key=lambda run: (run.size, run.seed)):
        by_size.setdefault(run.size, []).append(run)
    said = []
    for size, runs in by_size.items():
        shown = " ".join("-" if run.accuracy is None else f"{run.accuracy:.2f}" for run in runs)
        share = sum(run.step / max(run.steps, 1) for run in runs) / len(runs)
        said.append(f"{size}: {shown} ({share:.0%})")
    return ", ".join(said)


def _left(mix: MixProgress) -> str:
    return "0" if mix.done else f"<={mix.runs_left}"


def _bad(counts: Counts) -> bool:
    return counts.diverged > 0 or counts.failed > 0


def _counted(mix: str, counts: Counts) -> str:
    said = [f"{count} {word}" for count, word in ((counts.diverged, "diverged"), (counts.failed, "failed")) if count]
    return f"{mix}: {', '.join(said)}"


def _times(snapshot: Snapshot) -> str:
    left = "time left unknown" if snapshot.left_s is None else f"about {duration(snapshot.left_s)} left"
    return f"{duration(snapshot.elapsed_s)} gone, {left}, {duration(snapshot.trained_s)} of training"
