"""Text about a sweep's runs: their cost, and the numbers of reused, diverged and failed runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from orchestrator.report.cost_so_far import Cost
from orchestrator.system.text import bare, counted, duration, listed


def cost(total: Cost) -> str:
    """Return ``8 runs trained for 3 min 54 s; every size with 3 seeds (24 runs) would take about 12 min ...``."""
    spent = "less than a second" if total.spent_s < 1 else duration(total.spent_s)
    text = f"{counted(total.runs, 'run')} trained for {spent}"
    if total.reused:
        text += f", and {total.reused} reused (trained for {duration(total.reused_s)})"
    grid = counted(total.grid_runs, "run")
    seeds = counted(total.grid_seeds, "seed")
    if total.grid_s is None or total.share is None or total.grid_s < 1:
        whole = f"; every size with {seeds} would be {grid}"
        return text + whole if total.runs + total.reused < total.grid_runs else text
    times = bare(1 / total.share)
    longer = "" if total.share >= 1 or times == "1.0" else f", {times} times as long"
    return f"{text}; every size with {seeds} ({grid}) would take about {duration(total.grid_s)}{longer}"


def found_runs(sweeps: Sequence[str]) -> str:
    """Return ``Reused 12 runs, trained for ID (8) and ID (4)``, given the sweep that trained each run."""
    named = [f"{sweep} ({count})" for sweep, count in Counter(sweeps).most_common()]
    return f"Reused {counted(len(sweeps), 'run')}, trained for {listed(named)}"


def bad_runs(diverged: int, failed: int) -> str:
    """Return ``1 diverged, 2 failed``, or an empty string if there are none."""
    return ", ".join(f"{count} {word}" for count, word in ((diverged, "diverged"), (failed, "failed")) if count)
