"""What a simulation found, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.report import wording
from orchestrator.simulation.grading import Spread
from orchestrator.simulation.study import Graded, Reference, Replayed, Tried
from orchestrator.simulation.truths import TruthKind

WIDE = 100
"""From this many columns on costs and errors stand in one table."""
COSTS = ("runs", "cost", "wall", "busy")
COSTS_NOTE = "runs of one sweep; cost and wall clock relative to the full grid's; busy: share of the workers' time"
ERRORS = ("error", "p90", "holds", "width", "false")
ERRORS_NOTE = (
    "error, p90: |ln(estimate / truth)|, its median with a 90 % bootstrap interval and what 90 % stay under; 0.05 is "
    "5 % in size. holds: 90 % intervals that hold the truth; width: theirs, in ln size; false: called outside the "
    "sizes, or a plateau"
)
DECLARED_NOTE = "called: declared to be what they are"


def print_truths(graded: Iterable[Graded], kind: TruthKind, count: int, mixes: int, console: Console) -> None:
    """A line a method, printed when all are known."""
    found = list(graded)
    located = found[0].grades.error_median is not None
    names = ERRORS if located else ("called",)
    narrow = console.width < WIDE
    tables = [_table("method", *COSTS), _table("method", *names)] if narrow else [_table("method", *COSTS, *names)]
    for each in found:
        grades = each.grades
        if located:
            said = [
                _spread(grades.error_median),
                "-" if grades.error_p90 is None else f"{grades.error_p90.value:.3f}",
                _share(grades.coverage),
                "-" if grades.width is None else wording.bare(grades.width),
                _share(grades.false_alarms),
            ]
        else:
            said = [_share(grades.declared)]
        if narrow:
            tables[0].add_row(*_costs(each.tried))
            tables[1].add_row(each.tried.method, *said)
        else:
            tables[0].add_row(*_costs(each.tried), *said)
    console.print(Text(f"{count} simulated sweeps of {mixes} mixes, truths {kind.value}", style="bold"))
    for table in tables:
        console.print(table)
    console.print(Text(COSTS_NOTE, style="dim"))
    console.print(Text(ERRORS_NOTE if located else DECLARED_NOTE, style="dim"))


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


def _spread(spread: Spread | None) -> str:
    return "-" if spread is None else f"{spread.value:.3f} [{spread.low:.3f}, {spread.high:.3f}]"


def _said(reference: Reference) -> str:
    found = reference.transition
    sizes = [point.size for point in found.points]
    asymptote = found.fit.asymptote if found.fit else None
    said = wording.estimate(found.relative, min(sizes), max(sizes), found.verdict, asymptote)
    if reference.low is None or reference.high is None:
        return said
    return f"{said}; resampled [{wording.number(reference.low)}, {wording.number(reference.high)}]"
