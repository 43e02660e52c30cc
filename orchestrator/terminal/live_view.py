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
STATUS_EVERY_S = 30.0
"""Seconds between status lines without a terminal."""
MOST_CELLS = 8
"""Maximum number of lines for runs in training, so that the view fits a small terminal."""
SOON_S = 1.0
"""Fewer remaining seconds than this count as none."""
SLOW = 1.5
"""From this multiple of the planned time, the status says that runs take longer."""
BAR_CELLS = 18
UNLEARNED_SIGN = ("·", "dim")
"""Character and style for a size that did not learn. All three are flat, to look different from bars of probability."""
OPEN = ("░", "yellow")
"""Character and style for a size that is not known yet."""
LEARNED_SIGN = ("━", "green")
"""Character and style for a size that learned."""
HEIGHTS = "▁▂▃▄▅▆▇█"
"""Heights for the probability of the transition in a cell, relative to the most probable cell."""
PROBABLE = 0.02
"""Cells below this probability show a sign instead of a height."""


@dataclass(frozen=True)
class SoFar:
    """A mix's transition so far, in the answer table's ``words``. ``posterior`` is from :func:`by_size`."""

    words: str
    found: bool
    posterior: tuple[float, ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """A sweep at one moment.

    ``counts`` has the number of ended runs of each mix, and ``so_far`` the mixes with runs. ``left_s`` is the estimated
    time left: 0 if the sweep has taken longer and no run has ended since. ``pace`` is the time of the runs so far as a
    multiple of the plan's, None until it is known. ``trained_s`` is the training time of ended runs, and ``grid_s`` the
    time of the whole grid, None until it is known.
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
    """Return the probability of a transition at each size (above the previous size) and, last, above all sizes."""
    places = np.searchsorted(sizes, density.sizes)
    masses = np.bincount(places, density.weights, minlength=len(sizes))[: len(sizes)].tolist()
    return (*masses, max(0.0, 1.0 - sum(masses)))


@dataclass(frozen=True, eq=False)
class Shown:
    """A sweep in a view. ``snapshot`` must be fast, and any thread may call it."""

    title: str
    snapshot: Callable[[], Snapshot]


class LiveView:
    """Shows the sweeps of a command while they train. Any thread may call its methods.

    The view's thread takes snapshots a few times a second on a terminal, else every :data:`STATUS_EVERY_S`.

    Attributes:
        named: True if the command has several sweeps. Then lines begin with the title of their sweep.
    """

    def __init__(self, console: Console, *, named: bool = False, status_every_s: float = STATUS_EVERY_S) -> None:
        self.console = console
        self.named = named
        self._status_every_s = status_every_s
        self._shown: tuple[Shown, ...] = ()
        self._last = ""
        self._warned: set[str] = set()
        self._blocks = ExitStack()

    @contextmanager
    def showing(self, title: str, snapshot: Callable[[], Snapshot]) -> Iterator[None]:
        """Show a sweep during the block, next to others."""
        sweep = Shown(title, snapshot)
        self._shown = (*self._shown, sweep)
        if len(self._shown) == 1:
            self._blocks.enter_context(self._table() if self._is_live else self._lines())
        try:
            yield
        finally:
            if len(self._shown) == 1:
                self._blocks.close()  # The table shows the last sweep to the end.
            self._shown = tuple(other for other in self._shown if other is not sweep)
            if not self._is_live:
                self._write_warnings(sweep)

    def run_ended(self, title: str, mix: str, size: int, seed: int, outcome: str) -> None:
        """Show that a run ended: as a separate line without a terminal, else as the view's last line."""
        self._last = f"{self._named(title)}{mix} {size} seed {seed}: {outcome}"
        if not self._is_live:
            self._print(self._last)

    @property
    def _is_live(self) -> bool:
        return self.console.is_terminal and not self.console.is_dumb_terminal

    @contextmanager
    def _table(self) -> Iterator[None]:
        live = Live(console=self.console, get_renderable=self._render, refresh_per_second=REFRESHES_PER_S)
        live.start(refresh=True)
        try:
            yield
        finally:
            live.stop()

    def _render(self) -> RenderableType:
        """Return one sweep in full, or several as a line each."""
        shown = [(Text(self._named(sweep.title), "bold"), sweep.snapshot()) for sweep in self._shown]
        if len(shown) == 1:
            [(title, snapshot)] = shown
            return Group(title, render(snapshot, self._last)) if title else render(snapshot, self._last)
        parts: list[RenderableType] = [title.append(status_line(snapshot), "not bold") for title, snapshot in shown]
        parts += [Text(warning, style="yellow") for _, snapshot in shown for warning in snapshot.warnings]
        return Group(*parts, *_last_line(self._last))

    @contextmanager
    def _lines(self) -> Iterator[None]:
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
            for sweep in self._shown:
                self._write_warnings(sweep)
                self._print(f"{self._named(sweep.title)}{status_line(sweep.snapshot())}")

    def _write_warnings(self, sweep: Shown) -> None:
        """Print each warning once. Warnings that differ only in numbers are the same."""
        for warning in sweep.snapshot().warnings:
            line = f"{self._named(sweep.title)}warning: {warning}"
            text = "".join(letter for letter in line if not letter.isdigit())
            if text not in self._warned:
                self._warned.add(text)
                self._print(line)

    def _named(self, title: str) -> str:
        return f"{title}: " if self.named else ""

    def _print(self, line: str) -> None:
        # One line at any width, because programs and log files read these.
        self.console.print(f"{datetime.now():%H:%M:%S} {line}", markup=False, highlight=False, soft_wrap=True)


def render(snapshot: Snapshot, last: str) -> RenderableType:
    """Return the live view, with times first, because a short terminal cuts off the bottom.

    ``last`` describes the last run that ended.
    """
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
            Text(_transition(snapshot, mix), "green" if mix.done and so_far and so_far.found else ""),
            str(done),
            str(now),
        )
    return table


def _done_and_now(snapshot: Snapshot, mix: MixProgress) -> tuple[int, int]:
    """Return the numbers of a mix's runs that ended and that are in training."""
    now = sum(run.request.mix == mix.mix for run in snapshot.in_flight)
    return snapshot.counts.get(mix.mix, Counter()).total(), now


def _posterior_bar(sizes: Sequence[int], posterior: Sequence[float], mix: MixProgress) -> Text:
    """Return the sizes as cells, with heights for the probability that the transition is there.

    Improbable cells show whether their sizes are known to fail, known to learn, or neither. Several sizes may
    share a cell, which is neither unless they agree. ``>``: the transition may be beyond all sizes. ``posterior`` is
    from :func:`by_size`, or empty.
    """
    count = min(BAR_CELLS, len(sizes))
    cells = [slice(cell * len(sizes) // count, (cell + 1) * len(sizes) // count) for cell in range(count)]
    shares = [sum(posterior[cell]) for cell in cells]
    bar = Text()
    for cell, share in zip(cells, shares, strict=True):
        sign, style = OPEN
        if mix.low is not None and sizes[cell][-1] <= mix.low:
            sign, style = UNLEARNED_SIGN
        elif mix.high is not None and sizes[cell][0] >= mix.high:
            sign, style = LEARNED_SIGN
        height = min(int(share / max(PROBABLE, *shares) * len(HEIGHTS)), len(HEIGHTS) - 1)
        bar.append(HEIGHTS[height] if share >= PROBABLE else sign, style)
    if posterior:
        bar.append(">" if posterior[-1] >= PROBABLE else " ", OPEN[1])
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
        known = [run.accuracy(snapshot.target) for run in runs]
        accuracies = " ".join("-" if accuracy is None else f"{accuracy:.2f}" for accuracy in known)
        table.add_row(Text(f"{mix} {size}"), f"{share:.0%}", times, accuracies)
    if len(cells) > MOST_CELLS:
        table.add_row(Text(f"and {len(cells) - MOST_CELLS} more", style="dim"))
    return table


def _transition(snapshot: Snapshot, mix: MixProgress) -> str:
    """Return a mix's transition so far, or ``not yet`` before its first run has ended."""
    return snapshot.so_far[mix.mix].words if mix.mix in snapshot.so_far else "not yet"


def _times(snapshot: Snapshot) -> str:
    """Return ``3 min 20 s elapsed, about 6 min left``, or after that what the runs in training still need."""
    training_s = max((run.left_s for run in snapshot.in_flight if run.left_s is not None), default=0.0)
    if snapshot.left_s >= SOON_S:
        left = f"about {rough_duration(snapshot.left_s)} left"
    elif not snapshot.in_flight:
        left = "about to end"
    else:
        known = f": up to {duration(training_s)} for runs in training" if training_s >= SOON_S else ""
        left = f"longer than expected{known}"
    slow = ""
    if snapshot.pace is not None and snapshot.pace >= SLOW:
        slow = f" (runs take {bare(snapshot.pace)} times as long as planned)"
    return f"{duration(snapshot.elapsed_s)} elapsed, {left}{slow}"


def _costs(snapshot: Snapshot) -> str:
    """Return ``1 h 05 min of training so far (34% of the whole grid)``."""
    if not any(counts.total() for counts in snapshot.counts.values()) and not snapshot.trained_s:
        return "no run has ended yet"
    # Reused runs were not trained here, and the runs of small families take milliseconds.
    spent = "less than a second" if snapshot.trained_s < 1 else duration(snapshot.trained_s)
    text = f"{spent} of training so far"
    if snapshot.grid_s:
        share = snapshot.trained_s / snapshot.grid_s
        text += f" ({f'{share:.0%}' if share >= 0.01 else 'under 1%'} of the whole grid)"
    return text
