"""The terminal while a sweep runs: a live table, or plain lines if the output is not a terminal."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from orchestrator.report.answer_table import plain_table
from orchestrator.report.sentences.costs import bad_runs
from orchestrator.search.base import MixProgress
from orchestrator.space.runs import RunInTraining
from orchestrator.system.text import bare, duration, rough_duration
from orchestrator.transition.types import Density
from trainables.base import Status

REFRESHES_PER_S = 2.0
"""Updates of the view per second on a terminal."""
STATUS_EVERY_S = 30.0
"""Seconds between status lines without a terminal."""
MOST_CELLS = 8
"""Maximum number of lines for runs in training, so that the view fits a small terminal."""
SOON_S = 1.0
"""If fewer seconds than this are left, the view shows that nothing is left."""
SLOW_PACE = 1.5
"""From this multiple of the planned time, the status shows that runs take longer than planned."""
BAR_CELLS = 18
"""Maximum number of cells of a bar."""
UNLEARNED_SIGN = ("·", "dim")
"""Character and style for a size at which runs do not learn. All signs are flat, unlike the bars of probability."""
UNKNOWN_SIGN = ("░", "yellow")
"""Character and style for a size at which it is not known whether runs learn."""
LEARNED_SIGN = ("━", "green")
"""Character and style for a size at which runs learn."""
HEIGHTS = "▁▂▃▄▅▆▇█"
"""Bars for the probability of the transition in a cell, relative to the most probable cell."""
PROBABLE = 0.02
"""Minimum probability of a cell that shows a bar. Other cells show a sign."""


@dataclass(frozen=True)
class SoFar:
    """A mix's transition so far.

    Attributes:
        words: The transition as in the answer table.
        is_located: True if the transition is located.
        posterior: Probabilities from :func:`by_size`, or empty.
    """

    words: str
    is_located: bool
    posterior: tuple[float, ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """A sweep at one moment.

    Attributes:
        size_axis: Name of the models' size.
        sizes: Sizes of the sweep.
        mixes: Progress of the search for each mix.
        counts: Number of ended runs by mix and status.
        in_flight: Runs in training.
        target: The target task.
        elapsed_s: Seconds since the sweep began.
        left_s: Estimated seconds left. 0 if the sweep has taken longer than estimated and no run has ended since.
        pace: Seconds of the runs so far as a multiple of the planned seconds, or None until it is known.
        trained_s: Seconds of training of the ended runs.
        grid_s: Seconds of training of the whole grid, or None until it is known.
        so_far: Transitions of the mixes with runs.
        warnings: Warnings to show.
    """

    size_axis: str
    sizes: tuple[int, ...]
    mixes: tuple[MixProgress, ...]
    counts: Mapping[str, Counter[Status]] = field(default_factory=dict)
    in_flight: tuple[RunInTraining, ...] = ()
    target: str = ""
    elapsed_s: float = 0.0
    left_s: float = 0.0
    pace: float | None = None
    trained_s: float = 0.0
    grid_s: float | None = None
    so_far: Mapping[str, SoFar] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def by_size(density: Density, sizes: Sequence[int]) -> tuple[float, ...]:
    """Return the probability of a transition at each size (above the previous size), and finally above all sizes."""
    indices = np.searchsorted(sizes, density.sizes)
    masses = np.bincount(indices, density.weights, minlength=len(sizes))[: len(sizes)].tolist()
    return (*masses, max(0.0, 1.0 - sum(masses)))


@dataclass(frozen=True, eq=False)
class ShownSweep:
    """A sweep in a view.

    Attributes:
        title: Title of the sweep.
        snapshot: Returns the current snapshot. It must be fast, and any thread may call it.
    """

    title: str
    snapshot: Callable[[], Snapshot]


class LiveView:
    """Shows the sweeps of a command while they train. Any thread may call its methods.

    A thread of the view takes snapshots, a few times a second on a terminal, otherwise every :data:`STATUS_EVERY_S`.

    Attributes:
        console: The console.
        named: True if the command has several sweeps. Then lines begin with the title of their sweep.
    """

    def __init__(self, console: Console, *, named: bool = False, status_every_s: float = STATUS_EVERY_S) -> None:
        self.console = console
        self.named = named
        self._status_every_s = status_every_s
        self._sweeps: tuple[ShownSweep, ...] = ()
        """Sweeps in the view. Replaced, never changed, because the view's thread reads it at any moment."""
        self._last = ""
        """Line about the run that ended last."""
        self._warned: set[str] = set()
        """Warnings that were printed, without their digits."""
        self._cleanup = ExitStack()

    @contextmanager
    def showing(self, title: str, snapshot: Callable[[], Snapshot]) -> Iterator[None]:
        """Show a sweep during the block, next to the other sweeps in the view."""
        sweep = ShownSweep(title, snapshot)
        self._sweeps = (*self._sweeps, sweep)
        if len(self._sweeps) == 1:
            self._cleanup.enter_context(self._table() if self._is_live else self._lines())
        try:
            yield
        finally:
            if len(self._sweeps) == 1:
                self._cleanup.close()  # First, so that the table still shows the last sweep.
            self._sweeps = tuple(other for other in self._sweeps if other is not sweep)
            if not self._is_live:
                self._write_warnings(sweep)

    def run_ended(self, title: str, mix: str, size: int, seed: int, outcome: str) -> None:
        """Show that a run ended: as the view's last line on a terminal, otherwise as a separate line."""
        self._last = f"{self._named(title)}{mix} {size} seed {seed}: {outcome}"
        if not self._is_live:
            self._print(self._last)

    @property
    def _is_live(self) -> bool:
        return self.console.is_terminal and not self.console.is_dumb_terminal

    @contextmanager
    def _table(self) -> Iterator[None]:
        """Show a table during the block, which rich updates in a thread."""
        live = Live(console=self.console, get_renderable=self._render, refresh_per_second=REFRESHES_PER_S)
        live.start(refresh=True)
        try:
            yield
        finally:
            live.stop()

    def _render(self) -> RenderableType:
        """Return a single sweep as a table, or several sweeps as a line each."""
        sweeps = [(Text(self._named(sweep.title), "bold"), sweep.snapshot()) for sweep in self._sweeps]
        if len(sweeps) == 1:
            [(title, snapshot)] = sweeps
            return Group(title, render(snapshot, self._last)) if title else render(snapshot, self._last)
        parts: list[RenderableType] = [title.append(status_line(snapshot), "not bold") for title, snapshot in sweeps]
        parts += [Text(warning, style="yellow") for _, snapshot in sweeps for warning in snapshot.warnings]
        return Group(*parts, *_last_line(self._last))

    @contextmanager
    def _lines(self) -> Iterator[None]:
        """Print a status line now and then during the block."""
        stop = threading.Event()
        thread = threading.Thread(target=self._write_status, args=(stop,), name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _write_status(self, stop: threading.Event) -> None:
        while not stop.wait(self._status_every_s):
            for sweep in self._sweeps:
                self._write_warnings(sweep)
                self._print(f"{self._named(sweep.title)}{status_line(sweep.snapshot())}")

    def _write_warnings(self, sweep: ShownSweep) -> None:
        """Print the warnings of a sweep that were not printed yet."""
        # Without digits, because a warning with new numbers is still the same warning.
        for warning in sweep.snapshot().warnings:
            line = f"{self._named(sweep.title)}warning: {warning}"
            text = "".join(letter for letter in line if not letter.isdigit())
            if text not in self._warned:
                self._warned.add(text)
                self._print(line)

    def _named(self, title: str) -> str:
        return f"{title}: " if self.named else ""

    def _print(self, line: str) -> None:
        # Never wrapped, because programs read these lines from log files.
        self.console.print(f"{datetime.now():%H:%M:%S} {line}", markup=False, highlight=False, soft_wrap=True)


def render(snapshot: Snapshot, last: str) -> RenderableType:
    """Return the live view of a sweep. ``last`` is the line about the run that ended last."""
    # The times come first, because a short terminal cuts off the bottom.
    parts: list[RenderableType] = [Text(_times(snapshot), "bold"), _mixes(snapshot)]
    if snapshot.in_flight:
        parts.append(_in_training(snapshot))
    bad = {name: bad_runs(counts[Status.DIVERGED], counts[Status.FAILED]) for name, counts in snapshot.counts.items()}
    parts += [Text(f"{name}: {text}", style="yellow") for name, text in bad.items() if text]
    parts += [Text(warning, style="yellow") for warning in snapshot.warnings]
    return Group(*parts, *_last_line(last), Text(_costs(snapshot), "dim"))


def _last_line(last: str) -> list[Text]:
    return [Text(f"last: {last}", style="dim", no_wrap=True, overflow="ellipsis")] if last else []


def status_line(snapshot: Snapshot) -> str:
    """Return a snapshot as a line of plain text."""
    parts = []
    for mix in snapshot.mixes:
        done, now = _done_and_now(snapshot, mix)
        parts.append(f"{mix.mix} {_transition(snapshot, mix)}, {done} done, {now} now")
    return "; ".join([*parts, _times(snapshot), _costs(snapshot)])


def _mixes(snapshot: Snapshot) -> Table:
    axis = f"{snapshot.size_axis} {snapshot.sizes[0]} to {snapshot.sizes[-1]}"
    table = plain_table("mix", axis, "transition", "done", "now")
    for column in table.columns[3:]:
        column.no_wrap = True
    for mix in snapshot.mixes:
        so_far = snapshot.so_far.get(mix.mix)
        done, now = _done_and_now(snapshot, mix)
        table.add_row(
            Text(mix.mix),
            _posterior_bar(snapshot.sizes, so_far.posterior if so_far else (), mix),
            Text(_transition(snapshot, mix), "green" if mix.done and so_far and so_far.is_located else ""),
            str(done),
            str(now),
        )
    return table


def _done_and_now(snapshot: Snapshot, mix: MixProgress) -> tuple[int, int]:
    """Return the number of a mix's runs that have ended, and the number in training."""
    now = sum(run.request.mix == mix.mix for run in snapshot.in_flight)
    return snapshot.counts.get(mix.mix, Counter()).total(), now


def _posterior_bar(sizes: Sequence[int], posterior: Sequence[float], mix: MixProgress) -> Text:
    """Return a bar with a cell for each size, or for several neighboring sizes.

    A cell shows the probability that the transition is there. An improbable cell shows a sign instead: all its sizes
    learn, none of them learns, or neither is known. The bar ends with ``>`` if the transition may be above all sizes.

    Args:
        sizes: Sizes of the sweep.
        posterior: Probabilities from :func:`by_size`, or empty.
        mix: Progress of the search for the mix.
    """
    count = min(BAR_CELLS, len(sizes))
    cells = [slice(cell * len(sizes) // count, (cell + 1) * len(sizes) // count) for cell in range(count)]
    shares = [sum(posterior[cell]) for cell in cells]
    bar = Text()
    for cell, share in zip(cells, shares, strict=True):
        sign, style = UNKNOWN_SIGN
        if mix.low is not None and sizes[cell][-1] <= mix.low:
            sign, style = UNLEARNED_SIGN
        elif mix.high is not None and sizes[cell][0] >= mix.high:
            sign, style = LEARNED_SIGN
        height = min(int(share / max(PROBABLE, *shares) * len(HEIGHTS)), len(HEIGHTS) - 1)
        bar.append(HEIGHTS[height] if share >= PROBABLE else sign, style)
    if posterior:
        bar.append(">" if posterior[-1] >= PROBABLE else " ", UNKNOWN_SIGN[1])
    return bar


def _in_training(snapshot: Snapshot) -> Table:
    table = plain_table("training", "", "left", "accuracy")
    for column in table.columns[1:3]:
        column.no_wrap = True
        column.justify = "right"
    table.columns[3].no_wrap = True
    table.columns[3].overflow = "ellipsis"
    cells: dict[tuple[str, int], list[RunInTraining]] = {}
    for run in sorted(snapshot.in_flight, key=lambda run: (run.request.mix, run.request.size, run.request.seed)):
        cells.setdefault((run.request.mix, run.request.size), []).append(run)
    for (mix, size), runs in list(cells.items())[:MOST_CELLS]:
        share = sum(run.step / max(run.steps, 1) for run in runs) / len(runs)
        left = [run.left_s for run in runs if run.left_s is not None]
        times = duration(max(left)) if left else "-"
        accuracies = [run.accuracy(snapshot.target) for run in runs]
        texts = ["-" if accuracy is None else f"{accuracy:.2f}" for accuracy in accuracies]
        table.add_row(Text(f"{mix} {size}"), f"{share:.0%}", times, " ".join(texts))
    if len(cells) > MOST_CELLS:
        table.add_row(Text(f"and {len(cells) - MOST_CELLS} more", style="dim"))
    return table


def _transition(snapshot: Snapshot, mix: MixProgress) -> str:
    """Return a mix's transition so far, or ``not yet`` before its first run has ended."""
    return snapshot.so_far[mix.mix].words if mix.mix in snapshot.so_far else "not yet"


def _times(snapshot: Snapshot) -> str:
    """Return a text such as ``3 min 20 s elapsed, about 6 min left``. After the estimated end, the text has the time
    that the runs in training still need."""
    training_s = max((run.left_s for run in snapshot.in_flight if run.left_s is not None), default=0.0)
    if snapshot.left_s >= SOON_S:
        left = f"about {rough_duration(snapshot.left_s)} left"
    elif not snapshot.in_flight:
        left = "about to end"
    else:
        remaining = f": up to {duration(training_s)} for runs in training" if training_s >= SOON_S else ""
        left = f"longer than expected{remaining}"
    slow = ""
    if snapshot.pace is not None and snapshot.pace >= SLOW_PACE:
        slow = f" (runs take {bare(snapshot.pace)} times as long as planned)"
    return f"{duration(snapshot.elapsed_s)} elapsed, {left}{slow}"


def _costs(snapshot: Snapshot) -> str:
    """Return a text such as ``1 h 05 min of training so far (34% of the whole grid)``."""
    if not any(counts.total() for counts in snapshot.counts.values()) and not snapshot.trained_s:
        return "no run has ended yet"
    # There may be almost no training time: reused runs were not trained here, and small families train in milliseconds.
    spent = "less than a second" if snapshot.trained_s < 1 else duration(snapshot.trained_s)
    text = f"{spent} of training so far"
    if snapshot.grid_s:
        share = snapshot.trained_s / snapshot.grid_s
        text += f" ({f'{share:.0%}' if share >= 0.01 else 'under 1%'} of the whole grid)"
    return text
