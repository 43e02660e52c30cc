"""Whether the runs whose similarities are shown hold a structure, by the probe ``separation``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.report.answer import Answer
from orchestrator.report.explaining import Paragraph
from orchestrator.report.page.probe_tables import CHANCE, PREFIX
from orchestrator.report.panels import pairs
from orchestrator.store.probed import numbers_of
from orchestrator.store.records import RunRecord
from trainables.base import Family, Words
from trainables.probes.embeddings import SHUFFLES

SEPARATION = f"{PREFIX}separation/"
BEYOND_CHANCE = 0.05
"""A score is called beyond chance where at most this share of random orders of the items score as high."""
ERRORS = 3.0
"""Standard errors by which a share of random orders may lie above what it would be of all orders."""
PLACE = "similarities"
"""The section of the report that shows these runs."""
NOTHING = "no structure beyond chance"
GROUPS = ((1.0, "clearly"), (0.5, "partly"), (-math.inf, "faintly"))
NEIGHBOURS = ((0.8, "clearly"), (0.4, "partly"), (-math.inf, "faintly"))
"""What a score is called from so much on: one of groups, which is 2 at most, and one of neighbours, 1 at most."""


@dataclass(frozen=True)
class Score:
    """One score of the probe, of what (``even and odd numbers``) and what that is (``apart``), by how much
    (``clearly``), and the share of random orders of the items that score as high: ``chance``. ``beyond`` says that this
    is little, ``highest`` that no order scores higher, with too few items for it to be little."""

    name: str
    groups: str
    strength: str
    what: str
    score: float
    chance: float
    beyond: bool
    highest: bool

    @property
    def words(self) -> str:
        """``even and odd numbers clearly apart``."""
        return f"{self.groups} {self.strength} {self.what}"

    @property
    def is_told(self) -> bool:
        """Whether it is told in words: as beyond chance, or as perhaps chance."""
        return self.beyond or self.highest

    def __str__(self) -> str:
        return f"{self.name} {self.score:.2f} (p {self.chance:.2g})"


@dataclass(frozen=True)
class Held:
    """What one run holds, the clearest score first. ``items`` says how many it was asked of, and of what: ``6 number
    tokens``."""

    size: int
    seed: int
    items: str
    scores: tuple[Score, ...]

    @property
    def told(self) -> tuple[Score, ...]:
        """The scores that are told in words."""
        return tuple(each for each in self.scores if each.is_told)

    @property
    def said(self) -> str:
        """``even and odd numbers clearly apart``, ``no structure beyond chance``."""
        return " and ".join(each.words for each in self.told) or NOTHING

    @property
    def judged(self) -> str:
        """The same, each with its chance: ``even and odd numbers clearly apart (p 0.11)``."""
        return " and ".join(f"{each.words} (p {each.chance:.2g})" for each in self.told) or NOTHING

    @property
    def detail(self) -> str:
        """Every score with its p."""
        return ", ".join(map(str, self.scores))


@dataclass(frozen=True)
class Structure:
    """What the runs shown for one mix hold, below and above its transition; None where there is no run, or the probe
    did not look at it."""

    mix: str
    below: Held | None
    above: Held | None

    @property
    def said(self) -> str:
        """Both sides in a sentence without its full stop."""
        if self.below and self.above and self.below.said == self.above.said:
            return f"{self.mix}: {self.below.said}, below its transition and above it"
        if (
            self.below
            and self.above
            and [each.name for each in self.below.told] == [each.name for each in self.above.told]
        ):
            strengths = " and ".join(each.strength for each in self.above.told)
            return f"{self.mix}: {self.below.said} below its transition, {strengths} above it"
        sides = (("below its transition", self.below), ("above it", self.above))
        return f"{self.mix}: " + ", ".join(f"{held.said} {where}" for where, held in sides if held)

    @property
    def doubtful(self) -> dict[str, str]:
        """What is told that may be chance, as ``GROUPS WHAT``, and of how many items."""
        held = [each for each in (self.below, self.above) if each]
        return {f"{score.groups} {score.what}": each.items for each in held for score in each.told if score.highest}


def structures(answer: Answer, runs: Sequence[RunRecord], family: Family) -> tuple[Structure, ...]:
    """For each mix what the probe ``separation`` found in the runs that are shown below and above its transition. Mixes
    of whose runs it looked at none are left out."""
    found = [Structure(pair.mix, _held(pair.below, family), _held(pair.above, family)) for pair in pairs(answer, runs)]
    return tuple(each for each in found if each.below or each.above)


def told(found: Sequence[Structure], words: Words) -> tuple[Paragraph, ...]:
    """The same as a paragraph; none where there is nothing to tell."""
    said = [f"{each.said}." for each in found]
    doubtful = {what: items for each in found for what, items in each.doubtful.items()}
    said += [f"With {items}, {what} may be chance." for what, items in doubtful.items()]
    return (Paragraph(words.held.capitalize(), " ".join(said), PLACE),) if found else ()


def smallest_chance(labels: Sequence[int]) -> float:
    """The share of all orders of the items that group them as ``labels`` [n] do: no p of that grouping is smaller."""
    sizes = Counter(labels).values()
    alike = math.prod(map(math.factorial, Counter(sizes).values()))
    return math.prod(map(math.factorial, sizes)) * alike / math.factorial(len(labels))


def _held(run: RunRecord | None, family: Family) -> Held | None:
    """What one run holds; None where the probe did not look at it."""
    if run is None:
        return None
    numbers = {name.removeprefix(SEPARATION): value for name, value in numbers_of(run.directory).items()}
    known = [(chance, name, numbers[name]) for name in numbers if (chance := numbers.get(name + CHANCE)) is not None]
    if not known:
        return None
    groupings = family.groupings()
    items = f"{max(map(len, groupings.values()), default=0)} {family.words.item}s"
    scores = tuple(_score(name, score, chance, family) for chance, name, score in sorted(known))
    return Held(run.config.size, run.config.seed, items, scores)


def _score(name: str, score: float, chance: float, family: Family) -> Score:
    labels = family.groupings().get(name)
    strength = next(word for least, word in (NEIGHBOURS if labels is None else GROUPS) if score >= least)
    groups = "neighbours" if labels is None else family.grouping_words().get(name, name)
    beyond = chance <= BEYOND_CHANCE
    least = 0.0 if labels is None else smallest_chance(labels)
    highest = not beyond and chance <= least + ERRORS * math.sqrt(least * (1 - least) / SHUFFLES)
    return Score(name, groups, strength, "alike" if labels is None else "apart", score, chance, beyond, highest)
