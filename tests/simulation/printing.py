"""What a simulation found, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.report.words import numbers, verdicts
from tests.simulation.study import Reference, Replayed, Tried

COSTS = ("runs", "cost", "wall", "busy")
COSTS_NOTE = "runs of one sweep; cost and wall clock relative to the full grid's; busy: share of the workers' time"


def print_replays(replays: Iterable[Replayed], references: Sequence[Reference], count: int, console: Console) -> None:
    """What the whole table says, then a line a method."""
    console.print(Text(f"{count} replays, the recorded seeds in another order each time", style="bold"))
    for reference in references:
        console.print(Text(f"{reference.mix}: {_said(reference)}"))
    table = _table("method", *COSTS, *(f"{reference.mix} agrees" for reference in references))
    for each in replays:
        table.add_row(*_costs(each.tried), *(_share(each.agreement[reference.mix]) for reference in references))
    console.print(table)
    console.print(Text(COSTS_NOTE, style="dim"))
    note = "agrees: the estimate lies where resampling the whole table's seeds puts it, or both find no size."
    console.print(Text(note, style="dim"))


def _table(*headers: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for place, header in enumerate(headers):
        table.add_column(header, justify="right" if place else "left", no_wrap=True)
    return table


def _costs(tried: Tried) -> tuple[str, ...]:
    return tried.method, f"{tried.runs:.1f}", f"{tried.cost:.2f}", f"{tried.wall:.2f}", f"{tried.busy:.0%}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _said(reference: Reference) -> str:
    found = reference.transition
    sizes = [point.size for point in found.points]
    asymptote = found.fit.asymptote if found.fit else None
    said = verdicts.estimate(found.relative, min(sizes), max(sizes), found.verdict, asymptote)
    if reference.low is None or reference.high is None:
        return said
    return f"{said}; resampled [{numbers.number(reference.low)}, {numbers.number(reference.high)}]"
