"""Answers side by side: of several recipes, variants or sweeps. One table, one sentence a mix. Pure values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from orchestrator.report.answer import Answer
from orchestrator.report.rows import Row, targets
from orchestrator.report.words.verdicts import sentences
from orchestrator.transition.scaling import Place, Scaling, scaling
from orchestrator.transition.types import Synergy, Verdict

SEED = 0
"""Of the generator for intervals of exponents: the same answer gives the same text."""
KNOWN = (Verdict.FOUND, Verdict.ABOVE, Verdict.BELOW, Verdict.UNDECIDED)
"""Verdicts with a posterior that a law may rest on; a plateau is no transition."""


@dataclass(frozen=True)
class Compared:
    """One answer to compare; ``label`` tells it from the others.

    ``space`` and ``variant`` are names. ``along`` is the setting in which the variants of a space differ and ``place``
    its value; ``""`` and None if they do not differ in a number.
    """

    label: str
    answer: Answer
    space: str = ""
    variant: str = ""
    along: str = ""
    place: float | None = None

    @property
    def name(self) -> str:
        """Its variant, or else its label."""
        return self.variant or self.label


@dataclass(frozen=True)
class Finding:
    """The parameters that one mix saves against ``baseline``, by the names of the answers."""

    mix: str
    baseline: str
    saved: dict[str, Synergy] = field(default_factory=dict)

    def names(self, sign: int) -> list[str]:
        """The answers in which the mix certainly needs fewer parameters (1), more (-1), or neither is known (0)."""
        return [name for name, synergy in self.saved.items() if _sign(synergy) == sign]


def recipes_of(answer: Answer) -> list[Compared]:
    """An answer under each of its recipes; ``[]`` for an answer of one recipe."""
    return [Compared(recipe.name, answer.under(recipe.name)) for recipe in answer.recipes]


def comparison_rows(compared: Sequence[Compared]) -> list[Row]:
    """The target's row of every mix of every answer."""
    return [row for each in compared for row in targets(each.answer, each.label)]


def findings(compared: Sequence[Compared]) -> list[Finding]:
    """A finding for each mix that any of the answers compares with its baseline."""
    found: dict[str, Finding] = {}
    for each in compared:
        for mix in each.answer.mixes:
            if mix.synergy_total is not None:
                finding = found.setdefault(mix.mix, Finding(mix.mix, each.answer.baseline_of(mix)))
                finding.saved[each.name] = mix.synergy_total
    return list(found.values())


def comparison_sentences(compared: Sequence[Compared], what: str) -> list[str]:
    """One sentence a mix for answers to one question, such as ``what`` = ``recipe``; else each answer's own."""
    same = len({(each.answer.target, each.answer.baseline) for each in compared}) == 1
    if same and len(compared) > 1 and (found := findings(compared)):
        return [_sentence(finding, what) for finding in found]
    return [f"{each.label}: {said}" for each in compared for said in sentences(each.answer)]


def _sentence(finding: Finding, what: str) -> str:
    tried = len(finding.saved)
    parts = [
        f"{word} {len(names)}" + ("" if len(names) == tried else f" ({', '.join(names)})")
        for word, names in (
            ("fewer in", finding.names(1)),
            ("more in", finding.names(-1)),
            ("undecided in", finding.names(0)),
        )
        if names
    ]
    whats = what if tried == 1 else f"{what}s"
    return f"{finding.mix} against {finding.baseline}, parameters needed: {', '.join(parts)} of {tried} {whats}."


def _sign(synergy: Synergy) -> int:
    if not synergy.decided:
        return 0
    return 1 if synergy.low is not None and synergy.low >= 1 else -1


@dataclass(frozen=True)
class MixScaling:
    """Growth of the transition of one mix along the setting; ``law`` is None if too little is known."""

    mix: str
    law: Scaling | None


def can_scale(compared: Sequence[Compared]) -> bool:
    """True for variants of one space that differ in a number."""
    return len(compared) > 1 and len({(each.space, each.along) for each in compared}) == 1 and bool(compared[0].along)


def mix_scalings(compared: Sequence[Compared]) -> list[MixScaling]:
    """A law for each mix that every variant has, in the order of the first."""
    shared = [
        mix.mix
        for mix in compared[0].answer.mixes
        if all(mix.mix in {other.mix for other in each.answer.mixes} for each in compared)
    ]
    rng = np.random.default_rng(SEED)
    return [MixScaling(mix, _law(compared, mix, rng)) for mix in shared]


def scaling_words(compared: Sequence[Compared]) -> Iterator[str]:
    """A sentence for each mix: ``add: n_embed at the transition goes as modulus^0.6 [0.2, 1.1], over 4 values``."""
    name = compared[0].along.rpartition(".")[2]
    axis = compared[0].answer.size_axis
    for each in mix_scalings(compared):
        law = each.law
        if law is None:
            yield f"{each.mix}: too little is known to say how {axis} at the transition moves with {name}"
            continue
        span = f"{law.exponent:.2f} [{law.low:.2f}, {law.high:.2f}]"
        said = f"{each.mix}: {axis} at the transition goes as {name}^{span}, over {law.places} values"
        if law.bounded:
            said += f"; transitions beyond the sizes are counted at the largest {axis}"
        yield said


def _law(compared: Sequence[Compared], mix: str, rng: np.random.Generator) -> Scaling | None:
    places = []
    for each in compared:
        found = each.answer.mix(mix).target.transition
        if found.density is None or found.verdict not in KNOWN or each.place is None:
            return None
        largest, beyond = float(each.answer.counts[-1].size), found.verdict is Verdict.ABOVE
        places.append(Place(each.place, found.density, largest, beyond))
    return scaling(places, compared[0].answer.confidence, rng)
