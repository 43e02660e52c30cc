"""Findings of probes: structure on both sides of a transition, means over seeds, and probes that failed or are missing.

The probe ``separation`` scores how much more alike items of one group are, and which share of random orders of the
items scores as high.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.home.run_files import numbers_of, read_results
from orchestrator.home.sweeps import RunRecord, failures
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.words.next_step import Paragraph
from orchestrator.report.words.numbers import counted, listed
from orchestrator.report.words.verdicts import called
from orchestrator.space.evidence import stands_for_its_size
from orchestrator.space.settings_documentation import said_of_probe
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.types import Verdict
from trainables.base import Family, Status, Words
from trainables.probes.base import BUILT_IN, load_probe
from trainables.probes.embeddings import SHUFFLES

PREFIX, CHANCE = "probe/", ".p"
"""Beginning of the name of every number, and end of those that are probabilities of others."""
SEPARATION = f"{PREFIX}separation/"
BEYOND_CHANCE = 0.05
"""A score is beyond chance if at most this share of random orders of the items score as high."""
ERRORS = 3.0
"""Standard errors by which a share of random orders may exceed that of all orders."""
PLACE = "similarities"
"""The section of the report that shows these runs."""


@dataclass(frozen=True)
class Score:
    """One score of a run. ``what`` it finds: ``even and odd numbers apart``; ``chance`` is the share of random orders
    that score as high. ``beyond``: that share is small. ``highest``: no order scores higher, and the items are too few
    for the share to be small."""

    name: str
    what: str
    score: float
    chance: float
    beyond: bool
    highest: bool

    def __str__(self) -> str:
        return f"{self.name} {self.score:.2f} (p {self.chance:.2g})"


@dataclass(frozen=True)
class Held:
    """The scores of one run, the least likely by chance first."""

    size: int
    seed: int
    scores: tuple[Score, ...]


@dataclass(frozen=True)
class Structure:
    """The runs of one mix that the probe looked at: ``below`` and ``above`` its transition, or ``""`` for all without
    one. ``items`` are what it was asked of: ``6 number tokens``."""

    mix: str
    items: str
    sides: Mapping[str, Sequence[Held]]

    def counts(self, side: str) -> Mapping[str, int]:
        """The runs of a side with each finding, beyond chance or as clear as so few items allow."""
        return Counter(score.what for run in self.sides[side] for score in run.scores if score.beyond or score.highest)

    @property
    def said(self) -> str:
        """``add: even and odd numbers apart in 2 of 6 runs below, 5 of 5 above``."""
        found = dict.fromkeys(what for side in self.sides for what in self.counts(side))
        return f"{self.mix}: " + (" and ".join(map(self._said, found)) or "no structure beyond chance")

    def _said(self, what: str) -> str:
        told = [f"{self.counts(side)[what]} of {len(runs)} {side}".rstrip() for side, runs in self.sides.items()]
        first = len(next(iter(self.sides.values())))
        count, of, side = told[0].partition(f" of {first}")
        told[0] = f"{count}{of} {'run' if first == 1 else 'runs'}{side}"
        return f"{what} in {', '.join(told)}"

    @property
    def doubtful(self) -> list[str]:
        """Findings for which the items are too few to exclude chance."""
        scores = [score for runs in self.sides.values() for run in runs for score in run.scores]
        return list(dict.fromkeys(score.what for score in scores if score.highest))


def structures(answer: Answer, runs: Sequence[RunRecord], family: Family) -> tuple[Structure, ...]:
    """The runs that the probe ``separation`` looked at, mix by mix; mixes without any are left out."""
    kept = [run for run in runs if stands_for_its_size(run.config, run.outcome)]
    items = counted(max(map(len, family.groupings().values()), default=0), family.words.item)
    found = []
    for mix in answer.mixes:
        held = [each for run in kept if run.config.label == mix.mix and (each := _held(run, family))]
        if sides := {side: runs for side, runs in _sides(mix, held).items() if runs}:
            found.append(Structure(called(mix), items, sides))
    return tuple(found)


def told(found: Sequence[Structure], words: Words) -> tuple[Paragraph, ...]:
    """The same as a paragraph; none if there is nothing to tell."""
    said = [f"{each.said}." for each in found]
    doubtful = {what: each.items for each in found for what in each.doubtful}
    said += [f"With {items}, {what} may be chance." for what, items in doubtful.items()]
    return (Paragraph(words.held.capitalize(), " ".join(said), PLACE),) if found else ()


def smallest_chance(labels: Sequence[int]) -> float:
    """The share of all orders of the items that group them as ``labels`` [n] do: the least p of that grouping."""
    sizes = Counter(labels).values()
    alike = math.prod(map(math.factorial, Counter(sizes).values()))
    return math.prod(map(math.factorial, sizes)) * alike / math.factorial(len(labels))


def _sides(mix: MixAnswer, held: Sequence[Held]) -> dict[str, list[Held]]:
    """The runs outside the transition's interval; all of them, on no side, if no transition was found."""
    found = mix.target.transition
    if found.verdict is not Verdict.FOUND or found.relative.value is None:
        return {"": list(held)}
    low, high = found.relative.low or found.relative.value, found.relative.high or found.relative.value
    return {"below": [run for run in held if run.size <= low], "above": [run for run in held if run.size >= high]}


def _held(run: RunRecord, family: Family) -> Held | None:
    """The scores of one run; None if the probe did not look at it."""
    numbers = {name.removeprefix(SEPARATION): value for name, value in numbers_of(run.directory).items()}
    known = [(chance, name, numbers[name]) for name in numbers if (chance := numbers.get(name + CHANCE)) is not None]
    scores = tuple(_score(name, score, chance, family) for chance, name, score in sorted(known))
    return Held(run.config.size, run.config.seed, scores) if scores else None


def _score(name: str, score: float, chance: float, family: Family) -> Score:
    labels = family.groupings().get(name)
    what = "neighbours alike" if labels is None else f"{family.grouping_words().get(name, name)} apart"
    beyond = chance <= BEYOND_CHANCE
    least = 0.0 if labels is None else smallest_chance(labels)
    highest = not beyond and chance <= least + ERRORS * math.sqrt(least * (1 - least) / SHUFFLES)
    return Score(name, what, score, chance, beyond, highest)


@dataclass(frozen=True)
class ProbeTable:
    """Means over seeds of the numbers of one probe, a row a mix and size. ``text`` explains them, ``""`` for a probe
    from outside the project."""

    probe: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text: str


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
        tables.append(ProbeTable(probe, header, tuple(rows), said_of_probe(probe) if probe in BUILT_IN else ""))
    return tuple(tables)


def _mean(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.3g}" if values else ""


def probe_notes(spec: SweepSpec, runs: Sequence[RunRecord]) -> list[str]:
    """A sentence for each probe that failed (on how many runs, and why on the first) or that has not run on all."""
    failed: dict[str, list[str]] = {}
    for _, result in failures(runs):
        failed.setdefault(result.name, []).append(result.reason)
    said = [
        f"The probe {name} failed on {counted(len(why), 'run')} ({why[0]}); `logs RUN` shows the whole error."
        for name, why in sorted(failed.items())
    ]
    found = [read_results(run.directory).keys() for run in runs if run.outcome.status is Status.FINISHED]
    names = [load_probe(each).name for each in spec.probes]
    if lacking := [name for name in names if any(name not in results for results in found)]:
        runs_without = sum(any(name not in results for name in lacking) for results in found)
        few = f"The probe {lacking[0]} has" if len(lacking) == 1 else f"The probes {listed(lacking)} have"
        said.append(f"{few} not run on {counted(runs_without, 'run')}; `probe SWEEP` runs what is missing.")
    return said
