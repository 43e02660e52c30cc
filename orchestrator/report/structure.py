"""The structure that runs hold, by the probe ``separation``: in how many runs below and above each transition."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.home.probed import numbers_of
from orchestrator.home.records import RunRecord
from orchestrator.report.answer import Answer, MixAnswer
from orchestrator.report.page.probe_tables import CHANCE, PREFIX
from orchestrator.report.words.advice import Paragraph
from orchestrator.report.words.findings import called
from orchestrator.report.words.numbers import counted
from orchestrator.space.evidence import stands_for_its_size
from orchestrator.transition.types import Verdict
from trainables.base import Family, Words
from trainables.probes.embeddings import SHUFFLES

SEPARATION = f"{PREFIX}separation/"
BEYOND_CHANCE = 0.05
"""A score is beyond chance if at most this share of random orders of the items score as high."""
ERRORS = 3.0
"""Standard errors by which a share of random orders may exceed that of all orders."""
PLACE = "similarities"
"""The section of the report that shows these runs."""


@dataclass(frozen=True)
class Score:
    """One score of the probe: ``what`` it finds (``even and odd numbers apart``), and ``chance``, the share of random
    orders of the items that score as high. ``beyond``: that share is small. ``highest``: no order scores higher, and
    the items are too few for the share to be small."""

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

    @property
    def detail(self) -> str:
        """Every score with its p."""
        return ", ".join(map(str, self.scores))


@dataclass(frozen=True)
class Side:
    """The runs of a mix on one side of its transition; ``where`` is ``below``, ``above``, or ``""`` if the transition
    is not known."""

    where: str
    runs: tuple[Held, ...]

    def counts(self) -> dict[str, int]:
        """In how many of the runs each thing was found, beyond chance or as clearly as so few items allow."""
        return Counter(score.what for run in self.runs for score in run.scores if score.beyond or score.highest)


@dataclass(frozen=True)
class Structure:
    """The runs of one mix that the probe looked at. ``items`` are what it was asked of: ``6 number tokens``."""

    mix: str
    items: str
    sides: tuple[Side, ...]

    @property
    def said(self) -> str:
        """``add: even and odd numbers apart in 2 of 6 runs below, 5 of 5 above``."""
        found = list(dict.fromkeys(what for side in self.sides for what in side.counts()))
        return f"{self.mix}: " + (" and ".join(map(self._said, found)) or "no structure beyond chance")

    def _said(self, what: str) -> str:
        sides: list[str] = []
        for side in self.sides:
            runs = "" if sides else f" {'run' if len(side.runs) == 1 else 'runs'}"
            where = f" {side.where}" if side.where else ""
            sides.append(f"{side.counts().get(what, 0)} of {len(side.runs)}{runs}{where}")
        return f"{what} in {', '.join(sides)}"

    @property
    def doubtful(self) -> list[str]:
        """Findings for which the items are too few to exclude chance."""
        scores = [score for side in self.sides for run in side.runs for score in run.scores]
        return list(dict.fromkeys(score.what for score in scores if score.highest))


def structures(answer: Answer, runs: Sequence[RunRecord], family: Family) -> tuple[Structure, ...]:
    """For each mix the runs that the probe ``separation`` looked at; mixes without any are left out."""
    kept = [run for run in runs if stands_for_its_size(run.config, run.outcome)]
    groupings = family.groupings()
    items = counted(max(map(len, groupings.values()), default=0), family.words.item)
    found = []
    for mix in answer.mixes:
        held = [each for run in kept if run.config.label == mix.mix and (each := _held(run, family))]
        sides = tuple(side for side in _sides(mix, held) if side.runs)
        found += [Structure(called(mix), items, sides)] if sides else []
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


def _sides(mix: MixAnswer, held: Sequence[Held]) -> tuple[Side, ...]:
    """The runs outside the transition's interval; all of them, on no side, if no transition was found."""
    found = mix.target.transition
    if found.verdict is not Verdict.FOUND or found.relative.value is None:
        return (Side("", tuple(held)),)
    low, high = found.relative.low or found.relative.value, found.relative.high or found.relative.value
    below = tuple(run for run in held if run.size <= low)
    above = tuple(run for run in held if run.size >= high)
    return Side("below", below), Side("above", above)


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
