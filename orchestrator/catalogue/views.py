"""Sweeps and runs as a terminal shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from orchestrator.catalogue.reading import Outline, State, StoredSweep
from orchestrator.catalogue.status import MixStatus, RunStatus, SweepStatus, outlined_runs, transition_words
from orchestrator.report import wording
from orchestrator.report.comparison import Compared, ForestRow, forest_rows
from orchestrator.report.prose import Prose
from orchestrator.report.wording import budget_limited
from orchestrator.store.notes import Notes
from orchestrator.store.reading import Unreadable
from orchestrator.terminal.bars import legend, posterior_bar

STATE_STYLES = {State.RUNNING: "yellow", State.FINISHED: "green", State.INTERRUPTED: "", State.FAILED: "red"}
WIDE = 120
"""From this many columns on a sweep takes one line."""
WITH_BARS = 100
"""From this many columns on ``status`` has room for posteriors."""


def sweeps_view(sweeps: Sequence[StoredSweep | Outline | Unreadable], width: int) -> RenderableType:
    """What each sweep asked, how it stands, what it found, what it takes up: one line a sweep where ``width`` columns
    hold it, else a paragraph. Below them, a line each, what cannot be read and why."""
    known = [each for each in sweeps if not isinstance(each, Unreadable)]
    table = [_sweeps_table(known)] if known and width >= WIDE else map(_sweep_paragraph, known)
    return Group(*table, *(Text(said, style="yellow") for said in _unread(sweeps)))


def outline_view(outline: Outline) -> RenderableType:
    """A sweep without its family: how it stands, and the runs in its journal."""
    spec = outline.spec
    return Group(
        Text(f"{outline.id}: {spec.question}", style="bold"),
        Text.assemble(
            (outline.state.value, STATE_STYLES[outline.state]),
            f", begun {moment(outline.begun)}, last changed {moment(outline.changed)}",
        ),
        runs_table("size", spec.target, outlined_runs(outline)),
        Text(f"transitions are not known: {outline.unreadable.why}", style="yellow"),
    )


def status_view(
    status: SweepStatus, *, runs: bool = False, ascii_only: bool = False, width: int = WIDE
) -> RenderableType:
    """A sweep, one row a mix, its posterior as the bar that ``run`` shows where ``width`` columns hold it; with
    ``runs`` every run below."""
    axis = f"{status.size_axis} {status.sizes[0]}-{status.sizes[-1]}"
    bars, words = [axis] if width >= WITH_BARS else [], status.words
    table = plain_table("mix", *bars, status.size_axis, words.parameters, "done", words.learned, "now", "left")
    for mix in status.mixes:
        bar = posterior_bar(status.sizes, mix.posterior, mix.low, mix.high, ascii_only=ascii_only)
        table.add_row(
            Text(mix.mix),
            *([bar] if bars else []),
            Text(mix.transition, style="green" if mix.verdict == "found" else ""),
            Text(mix.parameters),
            *(str(number) for number in (mix.done, mix.learned, mix.training)),
            _left(mix),
        )
    for column in table.columns[len(bars) + 1 :]:
        column.no_wrap = True
    for column in table.columns[len(bars) + 3 :]:
        column.justify = "right"
    parts: list[RenderableType] = [
        Text(f"{status.id}: {status.question}", style="bold"),
        Text.assemble(
            (status.state.value, STATE_STYLES[status.state]),
            f", begun {moment(datetime.fromisoformat(status.begun))}, "
            f"last changed {moment(datetime.fromisoformat(status.changed))}",
        ),
        *([Text(str(Notes(status.note, status.tags)), style="cyan")] if status.note or status.tags else []),
        table,
    ]
    parts += [Prose(mix.words, hanging=True) for mix in status.mixes if mix.done]
    parts += [Text(said) for mix in status.mixes if (said := budget_limited(mix.mix, mix.budget_limited))]
    parts += [Text(f"{mix.mix}: {said}", style="yellow") for mix in status.mixes if (said := _trouble(mix))]
    parts += [
        Text(said, style="yellow")
        for said in dict.fromkeys(mix.note for mix in status.mixes if mix.left is None)
        if said
    ]
    training = [run for run in status.runs if run.status in ("training", "interrupted")]
    parts += [Text(_training_line(run)) for run in training]
    parts.append(Text(wording.cost(status.cost), style="dim"))
    reached = f"{status.size_axis} where {words.score} of {status.target} is 80% of its asymptote, with 90% intervals"
    parts.append(Prose(f"{reached}; {words.learned}: runs with as much or more"))
    if bars:
        parts.append(Prose(legend(words, ascii_only=ascii_only)))
    if runs:
        parts.append(runs_table(status.size_axis, status.target, status.runs))
    return Group(*parts)


def comparison_view(compared: Sequence[Compared], width: int) -> RenderableType:
    """One line for each mix of each sweep, and what it saves against its own sweep's baseline: one table where
    ``width`` columns hold that, else one a sweep under its name."""
    rows, counted = forest_rows(compared), " or ".join({each.answer.words.parameters: None for each in compared})
    if width < WIDE:
        by_label = groupby(rows, lambda row: row.label)
        return Group(*(part for label, group in by_label for part in _under(label, counted, group)))
    saves = ["saving"] if any(row.saving for row in rows) else []
    table = plain_table("sweep", "mix", "transition", counted, "runs", *saves)
    last = ""
    for row in rows:
        words = [row.label if row.label != last else "", row.mix, row.size, row.count, str(row.runs)]
        table.add_row(*map(Prose, [*words, row.saving] if saves else words))
        last = row.label
    for column in table.columns[2:5]:
        column.no_wrap = True
    return Group(table)


def _under(label: str, counted: str, rows: Iterable[ForestRow]) -> Iterator[RenderableType]:
    """One sweep of a comparison, for a narrow terminal."""
    table = plain_table("mix", "transition", counted, "runs")
    savings = []
    for row in rows:
        table.add_row(*map(Prose, (row.mix, row.size, row.count, str(row.runs))))
        savings += [Text(row.saving)] if row.saving else []
    for column in table.columns[1:]:
        column.no_wrap = True
    yield Text(label, style="bold")
    yield table
    yield from savings
    yield Text()


def runs_table(size_axis: str, target: str, runs: Sequence[RunStatus]) -> Table:
    """One line a run, by mix, size and seed."""
    table = plain_table("run", "mix", size_axis, "seed", "status", "step", target)
    for run in sorted(runs, key=lambda run: (run.mix, run.size, run.seed)):
        accuracy = "-" if run.accuracy is None else f"{run.accuracy:.2f}"
        table.add_row(run.key, Text(run.mix), str(run.size), str(run.seed), run.status, _steps(run), accuracy)
    return table


def sweep_words(stored: StoredSweep | Outline) -> str:
    """What a sweep found, in a line: each mix with its transition."""
    if isinstance(stored, Outline):
        return "not known without its family"
    return "; ".join(f"{mix.mix} {transition_words(stored.answer, mix)[0]}" for mix in stored.answer.mixes)


def size_on_disk(count: float) -> str:
    """``350 kB``, ``12 MB``, ``1.3 GB``."""
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if count >= unit:
            return f"{count / unit:.0f} {name}" if count >= 10 * unit else f"{count / unit:.1f} {name}"
    return f"{count / 1e3:.0f} kB"


def moment(when: datetime) -> str:
    """A time as the clock here shows it: ``2026-01-02 03:04``."""
    return f"{when.astimezone():%Y-%m-%d %H:%M}"


def plain_table(*headers: str) -> Table:
    """A table without lines, whose cells fold."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for header in headers:
        table.add_column(header, overflow="fold")
    return table


def _unread(sweeps: Iterable[StoredSweep | Outline | Unreadable]) -> Iterator[str]:
    """What of these sweeps cannot be read, a line each."""
    for each in sweeps:
        if isinstance(each, Unreadable):
            yield f"unreadable: {each}"
            continue
        if isinstance(each, Outline):
            yield f"without its family: {each.unreadable}"
        yield from each.damage


def _sweeps_table(sweeps: Iterable[StoredSweep | Outline]) -> Table:
    table = plain_table("sweep", "profile", "state", "runs", "transitions", "disk", "begun")
    for each in sweeps:
        table.add_row(
            Text(f"{each.id}\n  {each.notes}" if str(each.notes) else each.id),
            Text(each.spec.profile or "-"),
            Text(each.state.value, style=STATE_STYLES[each.state]),
            str(_count(each)),
            Text(sweep_words(each)),
            size_on_disk(each.disk_bytes),
            moment(each.begun),
        )
    for column in table.columns:
        column.no_wrap = column.header != "transitions"
    return table


def _count(each: StoredSweep | Outline) -> int:
    """Its runs that ended."""
    return len(each.ended if isinstance(each, Outline) else each.runs)


def _sweep_paragraph(each: StoredSweep | Outline) -> RenderableType:
    profile = f"{each.spec.profile}, " if each.spec.profile else ""
    said = Text.assemble(
        profile,
        (each.state.value, STATE_STYLES[each.state]),
        f", {_count(each)} runs, {size_on_disk(each.disk_bytes)}, begun {moment(each.begun)}\n{sweep_words(each)}",
        f"\n{each.notes}" if str(each.notes) else "",
    )
    return Group(Text(each.id, style="bold"), Padding(said, (0, 0, 0, 2)))


def _left(mix: MixStatus) -> str:
    if mix.left is None and mix.note:
        return "?"
    return "0" if not mix.left else f"<={mix.left}"


def _trouble(mix: MixStatus) -> str:
    counts = ((mix.diverged, "diverged"), (mix.failed, "failed"))
    return ", ".join(f"{count} {word}" for count, word in counts if count)


def _steps(run: RunStatus) -> str:
    return f"{run.step} (x{run.steps_factor})" if run.steps_factor > 1 else str(run.step)


def _training_line(run: RunStatus) -> str:
    accuracy = "no evaluation yet" if run.accuracy is None else f"step {run.step}, {run.accuracy:.2f}"
    return f"  {run.status} {run.key}: {run.mix} {run.size} seed {run.seed}: {accuracy}"
