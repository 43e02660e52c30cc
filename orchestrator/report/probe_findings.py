"""Findings of probes: structure on both sides of a transition, numbers by size, and failed or missing probes.

The probe ``separation`` scores how much more alike the items of a group are than other items. It also reports how often
random orders of the items score as high.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from orchestrator.home.run_files import failed_probes, numbers_of, read_results
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.sentences.explanation import Paragraph
from orchestrator.report.sentences.transitions import called
from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec
from orchestrator.system.text import counted, listed
from trainables.base import Family, Status
from trainables.probes.base import load_probe
from trainables.probes.embeddings import SHUFFLES
from trainables.probes.nulls import grouping_count

NUMBER_PREFIX = "probe/"
"""Start of the name of every number of a probe."""
CHANCE = ".p"
"""End of the name of a number that is the probability of another number under chance."""
SEPARATION = f"{NUMBER_PREFIX}separation/"
"""Start of the names of the numbers of the probe ``separation``."""
BEYOND_CHANCE = 0.05
"""A score is beyond chance if at most this share of random orders scores as high."""
ERRORS = 3.0
"""Standard errors by which the share of sampled orders may exceed the share of all orders."""
MOST_DRAWN_NUMBERS = 60
"""Maximum number of probes' numbers on a page. Each has a panel, which takes a fifth of a second."""

Structures = dict[str, bool]
"""The structures in one run. The value is True if there are too few items to exclude chance."""


def structure_paragraphs(answer: Answer, runs: Sequence[Run], family: Family) -> tuple[Paragraph, ...]:
    """Return a paragraph on the structures on both sides of the transition of each mix that was learned.

    It counts the runs with results of the probe ``separation``. Return an empty tuple if there are none.
    """
    sentences = []
    doubtful = set[str]()
    for mix in filter(lambda mix: mix.learned, answer.mixes):
        own = [run for run in runs if run.config.label == mix.mix and run.is_finished]
        probed = ((run.config.size, _structures(run, family)) for run in own)
        sides = _sides(mix, [(size, structures) for size, structures in probed if structures is not None])
        if any(sides.values()):
            doubts_by_kind = [pair for group in sides.values() for structures in group for pair in structures.items()]
            counts = "; ".join(_counted(kind, sides) for kind in dict(doubts_by_kind))
            sentences.append(f"{called(mix)}: {counts or 'no structure beyond chance'}.")
            doubtful |= {kind for kind, is_doubtful in doubts_by_kind if is_doubtful}
    items = counted(max(map(len, family.groupings().values()), default=0), family.words.item)
    if doubtful:
        sentences.append(f"With only {items}, chance may explain that {' and that '.join(sorted(doubtful))}.")
    return (Paragraph(family.words.held.capitalize(), " ".join(sentences)),) if sentences else ()


def _counted(kind: str, sides: Mapping[str, Sequence[Structures]]) -> str:
    """Return ``even and odd numbers are apart in 2 of 6 runs below the transition and 5 of 5 above``."""
    counts: list[str] = []
    for side, runs in sides.items():
        tried = str(len(runs)) if counts else counted(len(runs), "run")
        where = f" {side} the transition" if side and not counts else f" {side}"
        if runs:
            counts.append(f"{sum(kind in run for run in runs)} of {tried}{where}".rstrip())
    return f"{kind} in {' and '.join(counts)}"


def _sides(mix: MixAnswer, runs: Sequence[tuple[int, Structures]]) -> dict[str, list[Structures]]:
    """Return the runs below and above the transition's interval, by side.

    Without a transition, return all runs under an empty name.
    """
    placed = mix.target.transition.relative
    value = mix.target.transition.relative.value
    if not mix.target.transition.is_located or value is None:
        return {"": [structures for _, structures in runs]}
    return {
        "below": [structures for size, structures in runs if size <= (placed.low or value)],
        "above": [structures for size, structures in runs if size >= (placed.high or value)],
    }


def _structures(run: Run, family: Family) -> Structures | None:
    """Return the structures in one run, the least likely by chance first, or None if the probe did not run."""
    numbers = {name.removeprefix(SEPARATION): value for name, value in numbers_of(run.directory).items()}
    known = sorted((numbers[name + CHANCE], name) for name in numbers if name + CHANCE in numbers)
    structures = {}
    for chance, name in known:
        labels = family.groupings().get(name)
        least = 0.0 if labels is None else 1 / grouping_count(labels)
        # With few items, even the best order may have more than 5% of all orders as its equals. A score then counts if
        # no other order exceeds it, apart from sampling error.
        if chance <= max(BEYOND_CHANCE, least + ERRORS * math.sqrt(least * (1 - least) / SHUFFLES)):
            kind = "neighbors are alike" if labels is None else f"{family.grouping_words().get(name, name)} are apart"
            structures[kind] = chance > BEYOND_CHANCE
    return structures if known else None


class ProbePoint(NamedTuple):
    """A number of one run. ``is_chance`` is True if too many random orders of the items score as high."""

    mix: str
    size: int
    value: float
    is_chance: bool


PointsByNumber = dict[str, list[ProbePoint]]
"""Points of a probe by name of the number."""


def probe_points(runs: Sequence[Run]) -> dict[str, PointsByNumber]:
    """Return the numbers of finished runs, by probe and by name of the number."""
    points: dict[str, PointsByNumber] = {}
    for run in runs:
        if not run.is_finished:
            continue
        numbers = numbers_of(run.directory)
        for name, value in sorted(numbers.items()):
            # The p-value of a number is not a point. It decides whether the points of the number are hollow.
            if name.removesuffix(CHANCE) == name or name.removesuffix(CHANCE) not in numbers:
                probe, _, number = name.removeprefix(NUMBER_PREFIX).partition("/")
                is_chance = numbers.get(name + CHANCE, 0.0) > BEYOND_CHANCE
                point = ProbePoint(run.config.label, run.config.size, value, is_chance)
                points.setdefault(probe, {}).setdefault(number, []).append(point)
    return points


def drawn_points(points: Mapping[str, PointsByNumber]) -> tuple[dict[str, PointsByNumber], list[str]]:
    """Return the points for the panels of a page, by probe in the order of names, and a sentence about numbers that are
    not drawn.

    Args:
        points: The result of :func:`probe_points`.
    """
    every = [(probe, number) for probe in sorted(points) for number in points[probe]]
    drawn: dict[str, PointsByNumber] = {}
    for probe, number in every[:MOST_DRAWN_NUMBERS]:
        drawn.setdefault(probe, {})[number] = points[probe][number]
    if len(every) <= MOST_DRAWN_NUMBERS:
        return drawn, []
    some = f"Of {len(every):,} numbers of probes, the first {MOST_DRAWN_NUMBERS} are drawn, because a page has room for"
    return drawn, [f"{some} no more; `export SWEEP` writes all of them."]


def probe_notes(spec: SweepSpec, runs: Sequence[Run]) -> list[str]:
    """Return a sentence per failed probe, with the first reason, a sentence about missing probes, and one per probe
    whose numbers are of different code. Another sweep that shares runs may have probed them again."""
    failed: dict[str, list[str]] = {}
    codes: dict[str, set[tuple[int, str]]] = {}
    for run in runs:
        for result in failed_probes(run.outcome, run.directory):
            failed.setdefault(result.name, []).append(result.reason)
        for result in read_results(run.directory).values():
            if not result.error:
                codes.setdefault(result.name, set()).add((result.version, result.source))
    sentences = [
        f"The probe {name} failed on {counted(len(reasons), 'run')} ({reasons[0]}); `logs RUN` shows the whole error."
        for name, reasons in sorted(failed.items())
    ]
    results = [read_results(run.directory).keys() for run in runs if run.outcome.status is Status.FINISHED]
    names = [load_probe(name).name for name in spec.probes]
    if missing := [name for name in names if any(name not in own for own in results)]:
        runs_without = sum(any(name not in own for name in missing) for own in results)
        have = f"The probe {missing[0]} has" if len(missing) == 1 else f"The probes {listed(missing)} have"
        without = f"{have} not run on {counted(runs_without, 'run')}"
        sentences.append(f"{without}; `probe SWEEP` computes the missing results.")
    return sentences + [
        f"The numbers of the probe {name} are of different versions of its code; `probe SWEEP` updates the others."
        for name, versions in sorted(codes.items())
        if len(versions) > 1
    ]
