"""Numbers of probes by mix and size: means over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.home.probed import failures, numbers_of, read_results
from orchestrator.home.records import RunRecord
from orchestrator.space.documentation import said_of_probe
from orchestrator.space.evidence import stands_for_its_size
from orchestrator.space.spec import SweepSpec
from trainables.base import Status
from trainables.probes.base import BUILT_IN, load_probe

PREFIX = "probe/"
CHANCE = ".p"
"""Numbers that end so are the probabilities of others."""


@dataclass(frozen=True)
class ProbeTable:
    """Numbers of one probe: a line for each mix and size that has one."""

    probe: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def has_chances(self) -> bool:
        """True if some of its numbers are the probabilities of others."""
        return any(name.endswith(CHANCE) for name in self.header)


def probe_tables(size_axis: str, runs: Sequence[RunRecord]) -> tuple[ProbeTable, ...]:
    """The mean over seeds of every number that probes found, of runs of the usual steps: a table a probe, so that each
    has room on a sheet of paper.

    A run without some number is left out of that number's mean; ``runs`` counts those with any of the probe's.
    """
    cells: dict[tuple[str, int], list[dict[str, float]]] = {}
    for run in runs:
        if stands_for_its_size(run.config, run.outcome):
            numbers = {name.removeprefix(PREFIX): number for name, number in numbers_of(run.directory).items()}
            cells.setdefault((run.config.label, run.config.size), []).append(numbers)
    names = sorted({name for found in cells.values() for numbers in found for name in numbers})
    probes = dict.fromkeys(name.partition("/")[0] for name in names)
    return tuple(_table(size_axis, probe, [name for name in names if _of(name, probe)], cells) for probe in probes)


def probe_texts(tables: Sequence[ProbeTable]) -> dict[str, str]:
    """By probe the meaning of its numbers, as in ``doc probes.NAME``, for those that come with the project."""
    return {table.probe: said_of_probe(table.probe) for table in tables if table.probe in BUILT_IN}


def _table(
    size_axis: str, probe: str, names: Sequence[str], cells: Mapping[tuple[str, int], Sequence[Mapping[str, float]]]
) -> ProbeTable:
    """The table of the numbers of these ``names``, all of one probe."""
    rows = []
    for (mix, size), numbers in sorted(cells.items()):
        found = [each for each in numbers if any(name in each for name in names)]
        if found:
            means = (_mean([each[name] for each in found if name in each]) for name in names)
            rows.append((mix, str(size), str(len(found)), *means))
    return ProbeTable(
        probe, ("mix", size_axis, "runs", *(name.partition("/")[2] or name for name in names)), tuple(rows)
    )


def _of(name: str, probe: str) -> bool:
    return name.partition("/")[0] == probe


def probe_notes(spec: SweepSpec, runs: Sequence[RunRecord]) -> list[str]:
    """A sentence for each probe that failed (on how many runs, and why on the first) or that has not run on all."""
    failed: dict[str, list[str]] = {}
    for _, result in failures(runs):
        failed.setdefault(result.name, []).append(result.reason)
    said = [
        f"The probe {name} failed on {_runs(len(reasons))} ({reasons[0]}); `logs RUN` shows the whole error."
        for name, reasons in sorted(failed.items())
    ]
    names = [load_probe(each).name for each in spec.probes]
    found = [read_results(run.directory).keys() for run in runs if run.outcome.status is Status.FINISHED]
    lacking = {name: sum(name not in results for results in found) for name in names}
    return said + [
        f"The probe {name} has not run on {_runs(count)}; `probe SWEEP` runs it."
        for name, count in lacking.items()
        if count
    ]


def _runs(count: int) -> str:
    return f"{count} run{'s' if count > 1 else ''}"


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.3g}" if values else ""
