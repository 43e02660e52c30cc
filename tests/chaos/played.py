"""Results of sweeps with faults, and their summary."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tests.chaos.faults import FAULTS
from tests.chaos.rounds import RUNS, Counted, Round


@dataclass(frozen=True)
class Played:
    """A sweep: its faults, its result and its duration in seconds."""

    rounds: tuple[Round, ...]
    counted: Counted
    seconds: float

    @property
    def seen(self) -> int:
        """Number of faults that had an effect."""
        return sum(item.seen for item in self.rounds)


def table(played: Sequence[Played]) -> str:
    """Return a Markdown table with a row for each kind of fault."""
    lines = [
        "| fault | made and seen | with own Ray | before recovery from another | not seen | --resume by hand "
        "| s to next run: median, max |",
        "|---|---|---|---|---|---|---|",
    ]
    rounds = [item for game in played for item in game.rounds]
    for name in [*FAULTS, "all"]:
        of_kind = [item for item in rounds if name in (item.fault, "all")]
        if seen := [item for item in of_kind if item.seen]:
            times = [item.seconds for item in seen]
            lines.append(
                f"| {name} | {len(seen)} | {sum(item.own for item in seen)} | {sum(item.early for item in seen)} "
                f"| {len(of_kind) - len(seen)} | {sum(item.resumes for item in seen)} "
                f"| {statistics.median(times):.1f}, {max(times):.1f} |"
            )
    return "\n".join(lines)


def totals(played: Sequence[Played]) -> str:
    """Summarize all sweeps."""
    counted = [item.counted for item in played]
    lost, doubled, changed = (sum(getattr(item, name) for item in counted) for name in ("lost", "doubled", "changed"))
    other = sum(not item.same_answer for item in counted)
    seen, seconds = sum(item.seen for item in played), sum(item.seconds for item in played)
    return (
        f"{len(played)} sweeps of {RUNS} runs: {lost} runs lost, {doubled} doubled, {changed} changed, {other} "
        f"different answers; {seen} faults seen in {seconds:.0f} s: {seconds / max(1, seen):.1f} s per fault"
    )
