"""Whether a finding survives its recipe: the same comparison under several, side by side and in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from orchestrator.report.answer import Answer
from orchestrator.transition.scaling import Share, Variation, variation
from orchestrator.transition.types import Density, Synergy

SEED = 0
"""The intervals of variance shares are drawn: the same answer says the same each time."""


@dataclass(frozen=True)
class Finding:
    """What one mix saves under each recipe, in trainable parameters, against the baseline of that recipe."""

    mix: str
    baseline: str
    by_recipe: dict[str, Synergy]

    def recipes(self, sign: int) -> list[str]:
        """The recipes under which the mix certainly needs fewer parameters (1), more (-1), or neither is known (0)."""
        return [recipe for recipe, synergy in self.by_recipe.items() if _sign(synergy) == sign]


@dataclass(frozen=True)
class Panel:
    """An answer asked under several recipes."""

    findings: tuple[Finding, ...]
    variation: Variation | None


def panel(answer: Answer) -> Panel | None:
    """The findings of an answer over its recipes; None where it was asked under one."""
    if not answer.recipes:
        return None
    arms = {(mix.recipe, mix.plain): mix for mix in answer.mixes}
    recipes = list(dict.fromkeys(recipe for recipe, _ in arms))
    mixes = list(dict.fromkeys(mix for _, mix in arms))
    findings = []
    for mix in mixes:
        saved = {recipe: arms[recipe, mix].synergy_total for recipe in recipes}
        known = {recipe: synergy for recipe, synergy in saved.items() if synergy is not None}
        if known:
            findings.append(Finding(mix, mixes[0], known))
    densities = [[arms[recipe, mix].target.transition.density for mix in mixes] for recipe in recipes]
    return Panel(tuple(findings), _variation(answer, densities))


def sentence(finding: Finding) -> str:
    """Under which recipes the finding holds, in one sentence."""
    tried = len(finding.by_recipe)
    fewer, more, open_ = (finding.recipes(sign) for sign in (1, -1, 0))
    claim = f"{finding.mix} needs fewer parameters than {finding.baseline}"
    if len(fewer) == tried:
        return f"{claim} under all {tried} recipes tried"
    rest = [f"{word} under {_named(names)}" for word, names in (("more", more), ("undecided", open_)) if names]
    if fewer:
        return f"{claim} under {len(fewer)} of {tried} recipes tried ({_listed(fewer)}): {', '.join(rest)}"
    if not more:
        return f"whether {claim} is undecided under all {tried} recipes tried"
    return f"{claim} under none of the {tried} recipes tried: {', '.join(rest)}"


def variation_text(found: Variation, size_axis: str) -> str:
    """Shares of the variance in one sentence."""
    parts = (
        ("recipe", found.recipe),
        ("mix", found.mix),
        ("which recipe suits which mix", found.both),
        ("seeds", found.seeds),
    )
    said = ", ".join(f"{name} {_percent(share)}" for name, share in parts)
    bounded = f"; transitions beyond the sizes are counted at the largest {size_axis}" if found.bounded else ""
    return f"of the variance of ln {size_axis} at the transition: {said}{bounded}"


def _variation(answer: Answer, densities: list[list[Density | None]]) -> Variation | None:
    known = [[density for density in row if density is not None] for row in densities]
    if any(len(row) < len(densities[0]) for row in known):
        return None
    return variation(known, answer.counts[-1].size, answer.confidence, np.random.default_rng(SEED))


def _sign(synergy: Synergy) -> int:
    if not synergy.decided:
        return 0
    return 1 if synergy.low is not None and synergy.low >= 1 else -1


def _named(names: list[str]) -> str:
    return f"{len(names)} ({_listed(names)})"


def _listed(names: list[str]) -> str:
    return ", ".join(names)


def _percent(share: Share) -> str:
    return f"{share.value:.0%} [{share.low:.0%}, {share.high:.0%}]".replace("%", " %")
