"""How mixes are written in a search space, and the mixes that its budget and its recipes make of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from orchestrator.errors import unknown
from trainables.base import Mix

Fairness = Literal["total", "target", "both"]


def read_mix(value: Any) -> Mix:
    """A mix from ``"add+prod"``, ``"add+prod x2"`` or ``{add: 2, prod: 1}``, with its numbers rounded as in its name.

    Raises ``ValueError`` (a ``SettingsError`` where the mix itself is wrong).
    """
    if isinstance(value, Mix):
        mix = value
    elif isinstance(value, str):
        mix = Mix.parse(value)
    elif isinstance(value, Mapping):
        for task, weight in value.items():
            if isinstance(weight, bool) or not isinstance(weight, int | float):
                raise ValueError(f"the weight of {task!r} must be a number, got {weight!r}")
        mix = Mix.of(value)
    else:
        raise ValueError(f"a mix is written add+prod or {{add: 2, prod: 1}}, got {value!r}")
    return Mix.parse(mix.name)


def with_budgets(mixes: tuple[Mix, ...], target: str, fairness: Fairness) -> tuple[Mix, ...]:
    """The mixes with the budgets that ``fairness`` asks for. Mixes that already have them stay as they are."""
    if fairness == "total" or not all(target in mix.tasks for mix in mixes):
        return mixes  # A mix without the target is refused later, with the other mixes that lack it.
    matched = [mix.with_as_much(target, mixes[0]) for mix in mixes]
    if fairness == "target":
        return tuple(matched)
    pairs = [pair for mix, other in zip(mixes, matched, strict=True) for pair in (mix, other)]
    return tuple(dict.fromkeys(pairs))


def with_recipes(mixes: tuple[Mix, ...], recipes: Mapping[str, Any]) -> tuple[Mix, ...]:
    """Every mix once under each recipe, recipe by recipe. Mixes that already name a recipe stay as they are.

    Raises ``ValueError`` for a mix with an unknown recipe.
    """
    for mix in mixes:
        if mix.recipe and mix.recipe not in recipes:
            raise unknown("recipe", mix.recipe, recipes, where=f"the mix {mix}")
    if not recipes or any(mix.recipe for mix in mixes):
        return mixes
    return tuple(replace(mix, recipe=recipe) for recipe in recipes for mix in mixes)
