"""What was played, counted."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tests.chaos.faults import FAULTS
from tests.chaos.rounds import RUNS, Counted, Round


@dataclass(frozen=True)
class Played:
    """A sweep: the faults that it met, what it came to, and how many seconds it took."""

    rounds: tuple[Round, ...]
    counted: Counted
    seconds: float

    @property
    def seen(self) -> int:
        """The faults that were made and seen."""
        return sum(each.seen for each in self.rounds)


def table(played: Sequence[Played]) -> str:
    """A Markdown table, a row a kind of fault."""
    lines = [
        "| fault | made and seen | on a Ray of its own | before it had got over another | not seen | --resume by hand "
        "| s to next run: median, most |",
        "|---|---|---|---|---|---|---|",
    ]
    rounds = [each for one in played for each in one.rounds]
    for name in [*FAULTS, "all"]:
        of_kind = [each for each in rounds if name in (each.fault, "all")]
        if seen := [each for each in of_kind if each.seen]:
            times = [each.seconds for each in seen]
            lines.append(
                f"| {name} | {len(seen)} | {sum(each.own for each in seen)} | {sum(each.early for each in seen)} "
                f"| {len(of_kind) - len(seen)} | {sum(each.resumes for each in seen)} "
                f"| {statistics.median(times):.1f}, {max(times):.1f} |"
            )
    return "\n".join(lines)


def totals(played: Sequence[Played]) -> str:
    """All sweeps together."""
    counted = [each.counted for each in played]
    lost, doubled, changed = (sum(getattr(each, name) for each in counted) for name in ("lost", "doubled", "changed"))
    other = sum(not each.same_answer for each in counted)
    seen, seconds = sum(each.seen for each in played), sum(each.seconds for each in played)
    return (
        f"{len(played)} sweeps of {RUNS} runs: {lost} runs lost, {doubled} doubled, {changed} changed, {other} other "
        f"answers; {seen} faults seen in {seconds:.0f} s: {seconds / max(1, seen):.1f} s a fault"
    )
