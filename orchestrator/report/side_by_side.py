"""Answers of several recipes, variants or sweeps next to each other: one table, and one sentence per mix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from orchestrator.report.answer import Answer
from orchestrator.report.sentences.findings import outcome_text, sentences
from orchestrator.system.text import counted
from orchestrator.transition.scaling import PlacedTransition, Scaling, scaling
from orchestrator.transition.types import Verdict

SEED = 0
"""Seed for the intervals of exponents, so that the same answer gives the same text."""


@dataclass(frozen=True)
class LabeledAnswer:
    """An answer to compare.

    Attributes:
        label: Unique name of the answer.
        along: Setting in which variants differ.
        place: Value of that setting, None without such a setting.
        pairs: Keys of the runs in each mix's comparison with its baseline.
        is_imported: True for the answer of a sweep that came with an archive.
    """

    label: str
    answer: Answer
    space: str = ""
    variant: str = ""
    along: str = ""
    place: float | None = None
    pairs: Mapping[str, frozenset[tuple[str, str]]] = field(default_factory=dict)
    is_imported: bool = False


def recipes_of(answer: Answer) -> list[LabeledAnswer]:
    """Return an answer under each of its recipes, or an empty list if it has a single recipe."""
    return [LabeledAnswer(name, answer.under(name)) for name in answer.recipes]


def finding(answer: Answer) -> tuple[str, ...]:
    """Return a sentence per comparison or, with several recipes, a sentence per mix over all recipes."""
    recipes = recipes_of(answer)
    texts = sentences(answer)
    several = len(recipes) > 1 and len(texts) > 1  # "Nothing was learned" is true under every recipe.
    return tuple(comparison_sentences(recipes, "recipe")) if several else texts


def comparison_sentences(compared: Sequence[LabeledAnswer], kind: str) -> list[str]:
    """Return a sentence per mix if all answers share target and baseline, otherwise each answer's own sentences.

    ``kind`` is the noun for the answers, such as ``recipe``.
    """
    outcomes: dict[tuple[str, str], dict[str, str]] = {}
    repeated: list[str] = []
    variants = Counter(entry.variant for entry in compared)
    for index, entry in enumerate(compared):
        answer = entry.answer
        is_named = entry.variant and variants[entry.variant] == 1
        for mix in answer.compared:
            if (other := _containing(compared, index, mix.mix)) is not None:  # The same evidence counts once.
                repeated.append(
                    f"{entry.label} is not counted for {mix.mix}, because {other.label} has all of its pairs."
                )
                continue
            mixes = (mix.mix, answer.baseline_of(mix).mix)
            outcomes.setdefault(mixes, {})[entry.variant if is_named else entry.label] = outcome_text(answer, mix)
    same = len({(entry.answer.target, entry.answer.baseline) for entry in compared}) == 1
    if same and len(compared) > 1 and outcomes:
        return [*(_sentence(*mixes, by_name, kind) for mixes, by_name in outcomes.items()), *repeated]
    return [f"{entry.label}: {text}" for entry in compared for text in sentences(entry.answer)]


def _containing(compared: Sequence[LabeledAnswer], index: int, mix: str) -> LabeledAnswer | None:
    """Return the first other answer whose pairs include all pairs of the answer at ``index``.

    This happens if one sweep extends another. If both have the same pairs, the earlier one is kept. A sweep of this
    user always counts before an imported one, whose author may have copied its pairs.
    """
    entry = compared[index]
    pairs = entry.pairs.get(mix, frozenset())
    for other_index, other in enumerate(compared):
        other_pairs = other.pairs.get(mix, frozenset())
        is_first = (other.is_imported, other_index) < (entry.is_imported, index)
        is_repeated = pairs == other_pairs and is_first
        is_extended = pairs < other_pairs and (entry.is_imported or not other.is_imported)
        if pairs and other_index != index and (is_repeated or is_extended):
            return other
    return None


def _sentence(mix: str, baseline: str, outcomes: Mapping[str, str], kind: str) -> str:
    """Return ``add+prod against add: fewer parameters in 1 (a), no difference shown in 1 (b) of 2 recipes.``"""
    names: dict[str, list[str]] = {}
    for name, outcome in outcomes.items():
        names.setdefault(outcome, []).append(name)
    parts = [
        f"{outcome} in {len(group)}" + ("" if len(group) == len(outcomes) else f" ({', '.join(group)})")
        for outcome, group in sorted(names.items())
    ]
    return f"{mix} against {baseline}: {', '.join(parts)} of {counted(len(outcomes), kind)}."


def can_scale(compared: Sequence[LabeledAnswer]) -> bool:
    """Return True if these are variants of one space that differ in a number."""
    settings = {(entry.space, entry.along) for entry in compared}
    return len(compared) > 1 and len(settings) == 1 and bool(compared[0].along)


def mix_scalings(compared: Sequence[LabeledAnswer]) -> dict[str, Scaling | None]:
    """Return how the transition of each mix grows with the setting, or None if unknown.

    Mixes that are not in every variant are omitted.
    """
    first, *others = ([mix.mix for mix in entry.answer.mixes] for entry in compared)
    rng = np.random.default_rng(SEED)
    return {mix: _law(compared, mix, rng) for mix in first if all(mix in mixes for mixes in others)}


def scaling_text(compared: Sequence[LabeledAnswer]) -> Iterator[str]:
    """Yield a sentence per mix: ``add: n_embed at the transition grows as modulus^0.6 [0.2, 1.1], over 4 values``."""
    name = compared[0].along.rpartition(".")[2]
    axis = compared[0].answer.size_axis
    for mix, law in mix_scalings(compared).items():
        if law is None:
            yield f"{mix}: too few transitions are known to relate {axis} to {name}"
            continue
        span = f"{law.exponent:.2f} [{law.low:.2f}, {law.high:.2f}]"
        beyond = f"; transitions beyond the tested sizes count as the largest {axis}" if law.bounded else ""
        yield f"{mix}: {axis} at the transition grows as {name}^{span}, over {law.places} values{beyond}"


def _law(compared: Sequence[LabeledAnswer], mix: str, rng: np.random.Generator) -> Scaling | None:
    places = []
    for entry in compared:
        transition = entry.answer.mix(mix).target.transition
        largest = float(entry.answer.counts[-1].size)
        if transition.density is None or transition.verdict is Verdict.NEAR_FLOOR or entry.place is None:
            return None
        places.append(PlacedTransition(entry.place, transition.density, largest, transition.verdict is Verdict.ABOVE))
    return scaling(places, rng)
