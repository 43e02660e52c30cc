"""How a search space may write what it compares, and which arms its budget and recipes make of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, Field

from orchestrator.errors import unknown
from orchestrator.space.mistakes import ONE_LINE, STRICT, parse
from trainables.contract.arms import ALL, Arm, Mix, Phase
from trainables.contract.settings import SettingsError

Fairness = Literal["total", "target", "both"]


class WrittenPhase(BaseModel):
    """A phase as a search space writes it."""

    model_config = STRICT | {"frozen": True}

    mix: Any
    """Trained in this phase: ``add+prod`` or ``{add: 2, prod: 1}``."""
    share: float | None = Field(default=None, gt=0, le=1)
    """Of the arm's steps; phases that do not say it have equal parts of what the others leave."""
    takes: list[str] | str = ALL
    """Parts of the model taken over from the phase before; the others start from first weights."""
    frozen: list[str] | str = Field(default_factory=list)
    """Parts of the model that stay as they are."""
    size: int | None = Field(default=None, ge=1)
    """Of this phase's models, if it is not the run's own."""


class WrittenArm(BaseModel):
    """An arm as a search space writes it, where it has a name of its own or several phases."""

    model_config = STRICT | {"frozen": True}

    name: str = Field(max_length=200, pattern=ONE_LINE)
    """On one line."""
    mix: Any = None
    """Of an arm of one phase, in place of ``phases``."""
    phases: list[WrittenPhase] = Field(default_factory=list)
    """Trained one after the other."""
    budget: float = Field(default=1.0, gt=0)
    """Steps, in times those of the settings."""
    recipe: str = ""
    """By name, if not all recipes are meant."""


def read_arm(value: Any) -> Arm:
    """An arm from ``"add+prod"``, ``"add+prod x2"``, ``{add: 2, prod: 1}`` or, in full, ``{name: ..., phases: [{mix:
    max, share: 0.25}, {mix: add}]}`` (``mix`` in place of ``phases`` for one phase); numbers are rounded to what names
    say.

    Raises ``ValueError`` (a ``SettingsError`` where the arm itself is wrong).
    """
    if isinstance(value, Arm | str):
        arm = value if isinstance(value, Arm) else Arm.parse(value)
        phases = tuple(replace(phase, mix=_rounded(phase.mix)) for phase in arm.phases)
        return replace(arm, phases=phases, budget=float(f"{arm.budget:.6g}"))
    if isinstance(value, Mapping) and ("phases" in value or ("mix" in value and "name" in value)):
        return _in_full(parse(WrittenArm, value))
    return Arm.of(read_mix(value))


def read_mix(value: Any) -> Mix:
    """A mix from ``"add+prod"`` or ``{add: 2, prod: 1}``. Raises ``ValueError``."""
    if isinstance(value, str):
        return _rounded(Mix.parse(value))
    if not isinstance(value, Mapping):
        raise ValueError(f"a mix is written add+prod or {{add: 2, prod: 1}}, got {value!r}")
    for task, weight in value.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            raise ValueError(f"the weight of {task!r} must be a number, got {weight!r}")
    return _rounded(Mix.of(value))


def written(arm: Arm) -> Any:
    """The arm as plain values that :func:`read_arm` reads: its name where that says it all."""
    try:
        if not arm.label and read_arm(arm.name) == arm:
            return arm.name
    except SettingsError:
        pass  # A task's name has a sign in it that means something in an arm's.
    phases = [
        {
            "mix": phase.mix.ratios,
            "share": phase.share,
            "takes": list(phase.takes),
            "frozen": list(phase.frozen),
            **({} if phase.size is None else {"size": phase.size}),
        }
        for phase in arm.phases
    ]
    return {"name": arm.composition, "phases": phases, "budget": arm.budget, "recipe": arm.recipe}


def phases_text(arm: Arm) -> str:
    """The phases of an arm in a line: ``prod for 0.5 of the steps, then add for 0.5, takes embedding``."""
    said: list[str] = []
    for phase in arm.phases:
        takes = () if phase is arm.phases[0] or phase.takes == (ALL,) else phase.takes or ("nothing",)
        parts = [f"{phase.mix} for {phase.share:g}{'' if said else ' of the steps'}"]
        parts += [f"{word} {', '.join(names)}" for word, names in (("takes", takes), ("frozen", phase.frozen)) if names]
        parts += [] if phase.size is None else [f"size {phase.size}"]
        said.append(", ".join(parts))
    return ", then ".join(said)


def with_budgets(arms: tuple[Arm, ...], target: str, fairness: Fairness) -> tuple[Arm, ...]:
    """The arms with the budgets that ``fairness`` asks for. Arms that have them already stay as they are."""
    if fairness == "total" or not all(target in arm.tasks for arm in arms):
        return arms  # An arm without the target is refused later, with the others that lack it.
    matched = [arm.with_as_much(target, arms[0]) for arm in arms]
    if fairness == "target":
        return tuple(matched)
    pairs = [pair for arm, other in zip(arms, matched, strict=True) for pair in (arm, other)]
    return tuple(dict.fromkeys(pairs))


def with_recipes(arms: tuple[Arm, ...], recipes: Mapping[str, Any]) -> tuple[Arm, ...]:
    """The arms once for each recipe, recipe by recipe; an arm that names its recipe for that one alone. Where all name
    theirs they stay as they are.

    Raises ``ValueError`` for an arm with a recipe that is not there.
    """
    for arm in arms:
        if arm.recipe and arm.recipe not in recipes:
            raise unknown("recipe", arm.recipe, recipes, where=f"the mix {arm}")
    if not recipes or all(arm.recipe for arm in arms):
        return arms
    return tuple(replace(arm, recipe=recipe) for recipe in recipes for arm in arms if arm.recipe in ("", recipe))


def _in_full(asked: WrittenArm) -> Arm:
    if (asked.mix is None) == (not asked.phases):
        raise ValueError(f"the arm {asked.name} needs either a mix or phases")
    phases = asked.phases or [WrittenPhase(mix=asked.mix)]
    said = sum(phase.share or 0.0 for phase in phases)
    silent = sum(phase.share is None for phase in phases)
    left = max(0.0, 1.0 - said) / silent if silent else 0.0
    made = tuple(
        Phase(
            read_mix(each.mix),
            left if each.share is None else each.share,
            _parts(each.takes),
            _parts(each.frozen),
            each.size,
        )
        for each in phases
    )
    return Arm(made, asked.budget, asked.recipe, asked.name)


def _parts(value: Sequence[str] | str) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _rounded(mix: Mix) -> Mix:
    """The mix with weights of six digits, as its name says them."""
    return Mix.of({task: float(f"{ratio:.6g}") for task, ratio in mix.ratios.items()})
