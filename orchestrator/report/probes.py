"""What probes found, by mix and size: means over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.store.probed import failures, numbers_of
from orchestrator.store.records import RunRecord
from trainables.base import Status

PREFIX = "probe/"


@dataclass(frozen=True)
class ProbeTable:
    """A line for each mix and size that has a number. ``header`` names the numbers as ``PROBE/NUMBER``."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def probe_table(size_axis: str, runs: Sequence[RunRecord]) -> ProbeTable | None:
    """The mean over seeds of every number that probes found, of runs of the usual steps; None where there is none.

    A run without some number is left out of that number's mean; ``runs`` counts those with any.
    """
    cells: dict[tuple[str, int], list[dict[str, float]]] = {}
    for run in runs:
        if run.config.steps_factor == 1 and run.outcome.status is Status.FINISHED:
            numbers = numbers_of(run.directory)
            if numbers:
                cells.setdefault((run.config.label, run.config.size), []).append(numbers)
    names = sorted({name for found in cells.values() for numbers in found for name in numbers})
    if not names:
        return None
    rows = [
        (mix, str(size), str(len(found)), *(_mean([each[name] for each in found if name in each]) for name in names))
        for (mix, size), found in sorted(cells.items())
    ]
    return ProbeTable(("mix", size_axis, "runs", *(name.removeprefix(PREFIX) for name in names)), tuple(rows))


def probe_failures(runs: Sequence[RunRecord]) -> list[str]:
    """A sentence for each probe that failed: on how many runs, and why on the first of them."""
    failed: dict[str, list[str]] = {}
    for _, result in failures(runs):
        failed.setdefault(result.name, []).append(result.reason)
    return [
        f"The probe {name} failed on {len(reasons)} run{'s' if len(reasons) > 1 else ''} ({reasons[0]}); "
        "`logs RUN` shows the whole error."
        for name, reasons in sorted(failed.items())
    ]


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.3g}" if values else ""
