"""Findings of probes: structure on both sides of a transition, means over seeds, and probes that failed or are missing.

The probe ``separation`` scores how much more alike items of one group are, and which share of random orders of the
items scores as high.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.home.run_files import numbers_of, read_results
from orchestrator.home.sweeps import RunRecord, failures
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.words.explanation import Paragraph
from orchestrator.report.words.numbers import counted, listed
from orchestrator.report.words.transitions import called
from orchestrator.space.evidence import stands_for_its_size
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import Verdict
from trainables.base import Family, Status
from trainables.probes.base import load_probe
from trainables.probes.embeddings import SHUFFLES
from trainables.probes.nulls import grouping_count

PREFIX, CHANCE = "probe/", ".p"
"""Beginning of the name of every number, and end of those that are probabilities of others."""
SEPARATION = f"{PREFIX}separation/"
BEYOND_CHANCE = 0.05
"""A score is beyond chance if at most this share of random orders of the items score as high."""
ERRORS = 3.0
"""Standard errors by which a share of random orders may exceed that of all orders."""


def structure_words(answer: Answer, runs: Sequence[RunRecord], family: Family) -> tuple[Paragraph, ...]:
    """A paragraph with the structure counted on both sides of each transition, over the runs that the probe
    ``separation`` looked at; none without such runs. Nothing is said of a mix that no run learned."""
    kept = [run for run in runs if stands_for_its_size(run.config, run.outcome)]
    sentences, doubtful = [], set()
    for mix in answer.mixes:
        found = [(run.config.size, _found(run, family)) for run in kept if run.config.label == mix.mix]
        held = [(size, each) for size, each in found if each is not None]
        if mix.learned and (sides := {side: runs for side, runs in _sides(mix, held).items() if runs}):
            whats = dict.fromkeys(what for runs in sides.values() for each in runs for what in each)
            counts = " and ".join(_counted(what, sides) for what in whats)
            sentences.append(f"{called(mix)}: {counts or 'no structure beyond chance'}.")
            doubtful |= {what for runs in sides.values() for each in runs for what in each if each[what]}
    items = counted(max(map(len, family.groupings().values()), default=0), family.words.item)
    sentences += [f"With {items}, {what} may be chance." for what in sorted(doubtful)]
    return (Paragraph(family.words.held.capitalize(), " ".join(sentences)),) if sentences else ()


def _counted(what: str, sides: Mapping[str, Sequence[Mapping[str, bool]]]) -> str:
    """``even and odd numbers apart in 2 of 6 runs below, 5 of 5 above``."""
    counts = [
        f"{sum(what in each for each in runs)} of {len(runs) if place else counted(len(runs), 'run')} {side}".rstrip()
        for place, (side, runs) in enumerate(sides.items())
    ]
    return f"{what} in {', '.join(counts)}"


def _sides(mix: MixAnswer, held: Sequence[tuple[int, dict[str, bool]]]) -> dict[str, list[dict[str, bool]]]:
    """The runs outside the transition's interval; all of them, on no side, if no transition was found."""
    found = mix.target.transition
    if found.verdict is not Verdict.FOUND or found.relative.value is None:
        return {"": [each for _, each in held]}
    low, high = found.relative.low or found.relative.value, found.relative.high or found.relative.value
    return {
        "below": [each for size, each in held if size <= low],
        "above": [each for size, each in held if size >= high],
    }


def _found(run: RunRecord, family: Family) -> dict[str, bool] | None:
    """The structures in one run, the least likely by chance first; True for one that no order scores higher at though
    the items are too few to exclude chance. None if the probe did not look at the run."""
    numbers = {name.removeprefix(SEPARATION): value for name, value in numbers_of(run.directory).items()}
    known = sorted((chance, name) for name in numbers if (chance := numbers.get(name + CHANCE)) is not None)
    found = {}
    for chance, name in known:
        labels = family.groupings().get(name)
        least = 0.0 if labels is None else 1 / grouping_count(labels)
        if chance <= max(BEYOND_CHANCE, least + ERRORS * math.sqrt(least * (1 - least) / SHUFFLES)):
            what = "neighbours alike" if labels is None else f"{family.grouping_words().get(name, name)} apart"
            found[what] = chance > BEYOND_CHANCE
    return found if known else None


@dataclass(frozen=True)
class ProbeTable:
    """Means over seeds of the numbers of one probe, a row a mix and size."""

    probe: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def probe_tables(size_axis: str, runs: Sequence[RunRecord]) -> tuple[ProbeTable, ...]:
    """A table a probe, of runs of the usual steps. A run without some number is left out of that number's mean;
    ``runs`` counts those with any of the probe's."""
    cells: dict[tuple[str, int], list[dict[str, float]]] = {}
    for run in runs:
        if stands_for_its_size(run.config, run.outcome):
            numbers = {name.removeprefix(PREFIX): number for name, number in numbers_of(run.directory).items()}
            cells.setdefault((run.config.label, run.config.size), []).append(numbers)
    by_probe: dict[str, list[str]] = {}
    for name in sorted({name for found in cells.values() for numbers in found for name in numbers}):
        by_probe.setdefault(name.partition("/")[0], []).append(name)
    tables = []
    for probe, names in by_probe.items():
        rows = []
        for (mix, size), held in sorted(cells.items()):
            if found := [each for each in held if any(name in each for name in names)]:
                means = (_mean([each[name] for each in found if name in each]) for name in names)
                rows.append((mix, str(size), str(len(found)), *means))
        header = ("mix", size_axis, "runs", *(name.partition("/")[2] or name for name in names))
        tables.append(ProbeTable(probe, header, tuple(rows)))
    return tuple(tables)


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.3g}" if values else ""


def probe_notes(spec: SweepSpec, runs: Sequence[RunRecord]) -> list[str]:
    """A sentence for each probe that failed (on how many runs, and why on the first) or that has not run on all."""
    failed: dict[str, list[str]] = {}
    for _, result in failures(runs):
        failed.setdefault(result.name, []).append(result.reason)
    sentences = [
        f"The probe {name} failed on {counted(len(why), 'run')} ({why[0]}); `logs RUN` shows the whole error."
        for name, why in sorted(failed.items())
    ]
    found = [read_results(run.directory).keys() for run in runs if run.outcome.status is Status.FINISHED]
    names = [load_probe(each).name for each in spec.probes]
    if lacking := [name for name in names if any(name not in results for results in found)]:
        runs_without = sum(any(name not in results for name in lacking) for results in found)
        few = f"The probe {lacking[0]} has" if len(lacking) == 1 else f"The probes {listed(lacking)} have"
        sentences.append(f"{few} not run on {counted(runs_without, 'run')}; `probe SWEEP` runs what is missing.")
    return sentences
