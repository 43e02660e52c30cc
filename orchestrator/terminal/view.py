"""The live view of a sweep on a terminal: a table, the verdicts in whole sentences, what trains now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, OverflowMethod, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from orchestrator.report.prose import Prose
from orchestrator.report.wording import duration
from orchestrator.search.base import MixProgress
from orchestrator.terminal.bars import posterior_bar
from orchestrator.terminal.snapshot import Counts, Snapshot
from orchestrator.terminal.words import (
    bar_of_time,
    cost_words,
    left_words,
    times_words,
    training_cells,
    transition_words,
)

NARROW = 60
"""Below this many columns the table leaves out the bars."""
MOST_CELLS = 8
"""Lines for what trains now; the view has to fit a small terminal."""
NUMBERS, NUMBERS_NARROW, SHORTEST = 42, 29, 8
"""Columns that the numbers of what trains take, without those that a narrow terminal leaves out, and the fewest for a
name beside them."""
ROOMY = 1000
"""Columns in which every table has room."""


def render(snapshot: Snapshot, last: str, width: int, *, ascii_only: bool = False) -> RenderableType:
    """The live view of a snapshot for a terminal of ``width`` columns. ``last`` says how the last run ended."""
    return _View(snapshot, last, "crop" if ascii_only else "ellipsis", narrow=width < NARROW, ascii_only=ascii_only)


@dataclass(frozen=True)
class _View:
    """A snapshot on a console. What the rest leaves of the console's height is for the verdicts in whole sentences;
    where they do not all fit, it says how many are left out."""

    snapshot: Snapshot
    last: str
    cut: OverflowMethod
    narrow: bool
    ascii_only: bool

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table, has_notes = self._table(console, options)
        below = Group(*self._below(options.max_width))
        yield table
        if not self.narrow:
            taken = sum(len(console.render_lines(part, options, pad=False)) for part in (table, below))
            sentences = [Prose(said, "dim", hanging=True) for said in _sentences(self.snapshot, notes=not has_notes)]
            yield from _fitting(sentences, options.max_height - 1 - taken, console, options)
        yield below

    def _table(self, console: Console, options: ConsoleOptions) -> tuple[Table, bool]:
        """The table of mixes, and whether the searcher's notes are in it. Where there is no room for all of it, it has
        no notes, then no bars; then names and verdicts go on in the next line, for no word of them may be cut."""
        for bars, notes in () if self.narrow else ((True, True), (True, False)):
            whole = Measurement.get(console, options.update(width=ROOMY), self._mixes(bars=bars, notes=notes)).maximum
            if whole <= options.max_width:
                return self._mixes(bars=bars, notes=notes), notes
        return self._mixes(bars=False, notes=False), False

    def _mixes(self, *, bars: bool, notes: bool) -> Table:
        """One row a mix: where its transition may lie, and how many runs ended, train and may still come."""
        snapshot, cut = self.snapshot, self.cut
        table = _table(expand=notes)
        table.add_column("mix", overflow="fold")
        if bars:
            table.add_column(f"{snapshot.size_axis} {snapshot.sizes[0]} to {snapshot.sizes[-1]}", no_wrap=True)
        table.add_column("transition", overflow="fold")
        for title in ("done", "now", "left"):
            table.add_column(title, justify="right", no_wrap=True)
        if notes:
            table.add_column("", no_wrap=True, overflow=cut, ratio=1)
        for mix in snapshot.mixes:
            table.add_row(*self._cells(mix, bars=bars), *([Text(mix.note)] if notes else []))
        return table

    def _cells(self, mix: MixProgress, *, bars: bool) -> list[RenderableType]:
        snapshot = self.snapshot
        now = sum(run.mix == mix.mix for run in snapshot.in_flight)
        done = snapshot.counts.get(mix.mix, Counts()).total
        numbers: list[RenderableType] = [str(done), str(now), left_words(mix)]
        verdict = snapshot.verdicts.get(mix.mix)
        style = "green" if mix.done and verdict is not None and verdict.found else ""
        words = Prose(transition_words(snapshot, mix), style)
        if not bars:
            return [Text(mix.mix), words, *numbers]
        posterior = snapshot.posteriors.get(mix.mix, ())
        bar = posterior_bar(snapshot.sizes, posterior, mix.low, mix.high, ascii_only=self.ascii_only)
        return [Text(mix.mix), bar, words, *numbers]

    def _below(self, width: int) -> list[RenderableType]:
        """What trains now, what is wrong, the last run that ended, times and cost."""
        snapshot, cut = self.snapshot, self.cut
        return [
            *((Text(), _in_training(snapshot, cut, width, narrow=self.narrow)) if snapshot.in_flight else ()),
            *(Text(_counted(name, counts), style="yellow") for name, counts in snapshot.counts.items() if _bad(counts)),
            *(Text(warning, style="yellow") for warning in snapshot.warnings),
            *([Text(f"last: {self.last}", style="dim", no_wrap=True, overflow=cut)] if self.last else []),
            Prose(bar_of_time(snapshot, ascii_only=self.ascii_only) + times_words(snapshot), "dim"),
            Prose(cost_words(snapshot), "dim"),
        ]


def _sentences(snapshot: Snapshot, *, notes: bool) -> list[str]:
    """The verdict of each mix; with ``notes`` the searcher's, too."""
    said = []
    for mix in snapshot.mixes:
        verdict, note = snapshot.verdicts.get(mix.mix), mix.note if notes else ""
        if verdict is not None:
            said.append(f"{verdict.line}; {note}" if note else verdict.line)
        elif note:
            said.append(f"{mix.mix}: {note}")
    return said


def _fitting(
    sentences: Sequence[Prose], room: int, console: Console, options: ConsoleOptions
) -> Iterable[RenderableType]:
    """As many of these, from the first on, as fit into so many lines; the last of them says how many do not."""
    heights = [len(console.render_lines(each, options, pad=False)) for each in sentences]
    if sum(heights) <= room:
        yield from sentences
        return
    fitting = max(count for count in range(len(heights)) if count == 0 or sum(heights[:count]) < room)
    yield from sentences[:fitting]
    if room > 0:
        yield Text(f"{len(sentences) - fitting} more verdicts: `status` has them", style="dim")


def _in_training(snapshot: Snapshot, cut: OverflowMethod, width: int, *, narrow: bool) -> Table:
    """One row for the runs of a mix and size that train now: how far they are, what they score, what time they need.
    A long name is cut, so that these stay."""
    table = _table(expand=not narrow)
    name = max(width - (NUMBERS_NARROW if narrow else NUMBERS), SHORTEST)
    table.add_column("training", no_wrap=True, overflow=cut, max_width=name)
    if not narrow:
        table.add_column("step", justify="right", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("left", justify="right", no_wrap=True)
    table.add_column(
        "accuracy" if narrow else "accuracy now, seed by seed", no_wrap=True, overflow=cut, ratio=None if narrow else 1
    )
    cells = training_cells(snapshot.in_flight)
    for cell in cells[:MOST_CELLS]:
        step, steps = max(run.step for run in cell.runs), cell.runs[0].steps
        left = [run.left_s for run in cell.runs if run.left_s is not None]
        counted = [] if narrow else [f"{step}/{steps}"]
        time_left = duration(max(left)) if left else "-"
        table.add_row(Text(f"{cell.mix} {cell.size}"), *counted, f"{cell.share:.0%}", time_left, cell.accuracies)
    if len(cells) > MOST_CELLS:
        table.add_row(Text(f"and {len(cells) - MOST_CELLS} more", style="dim"))
    return table


def _table(*, expand: bool) -> Table:
    return Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=expand)


def _bad(counts: Counts) -> bool:
    return counts.diverged > 0 or counts.failed > 0


def _counted(mix: str, counts: Counts) -> str:
    said = [f"{count} {word}" for count, word in ((counts.diverged, "diverged"), (counts.failed, "failed")) if count]
    return f"{mix}: {', '.join(said)}"
