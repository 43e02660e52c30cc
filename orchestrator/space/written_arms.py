"""Arms as written in a search space, and copies of them for its budgets and recipes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, Field

from orchestrator.space.parsing import ONE_LINE, parse
from orchestrator.system.did_you_mean import unknown
from orchestrator.system.strict import STRICT
from trainables.contract.arms import ALL, Arm, Mix, Phase
from trainables.contract.settings import SettingsError

Fairness = Literal["total", "target", "both"]
"""What is equal for every mix: all examples, the examples of the target, or each in turn."""


class WrittenPhase(BaseModel):
    """A phase in a search space."""

    model_config = STRICT

    mix: Any
    """Tasks of this phase: ``add+prod`` or ``{add: 2, prod: 1}``."""
    share: float | None = Field(default=None, gt=0, le=1)
    """Share of the arm's steps. Phases without a share divide the rest equally."""
    takes: list[str] | str = ALL
    """Parts of the model taken over from the previous phase. The others start from new weights."""
    frozen: list[str] | str = Field(default_factory=list)
    """Parts of the model that do not change."""
    size: int | None = Field(default=None, ge=1)
    """Size of this phase's models, if it differs from the run's size."""


class WrittenArm(BaseModel):
    """An arm in a search space that has a name or several phases."""

    model_config = STRICT

    name: str = Field(max_length=200, pattern=ONE_LINE)
    """Name of the arm, on one line."""
    mix: Any = None
    """Tasks of an arm of one phase, instead of ``phases``."""
    phases: list[WrittenPhase] = Field(default_factory=list)
    """Phases, in the order of training."""
    budget: float = Field(default=1.0, gt=0)
    """Multiple of the settings' steps and examples."""
    recipe: str = ""
    """Name of a recipe; by default the arm is trained under all of them."""

    def arm(self) -> Arm:
        """Return the arm. Raises ``ValueError`` if it has neither a mix nor phases, or both."""
        if (self.mix is None) == (not self.phases):
            raise ValueError(f"the arm {self.name} needs either a mix or phases")
        phases = self.phases or [WrittenPhase(mix=self.mix)]
        shares = [phase.share for phase in phases]
        rest = max(0.0, 1.0 - sum(share or 0.0 for share in shares)) / max(1, shares.count(None))
        made = (
            Phase(read_mix(phase.mix), phase.share or rest, _parts(phase.takes), _parts(phase.frozen), phase.size)
            for phase in phases
        )
        return Arm(tuple(made), self.budget, self.recipe, self.name)


def read_arm(value: Any) -> Arm:
    """Return an arm from one of its forms, with numbers rounded to six digits as in names.

    The forms are ``"add+prod"``, ``"add+prod x2"``, ``{add: 2, prod: 1}`` and ``{name: ..., phases: [{mix: max, share:
    0.25}, {mix: add}]}``. The last form may have ``mix`` instead of ``phases`` for a single phase.

    Raises ``ValueError``. It is a ``SettingsError`` if the arm itself is wrong.
    """
    if isinstance(value, Arm | str):
        arm = value if isinstance(value, Arm) else Arm.parse(value)
        phases = tuple(replace(phase, mix=_rounded(phase.mix)) for phase in arm.phases)
        return replace(arm, phases=phases, budget=float(f"{arm.budget:.6g}"))
    if isinstance(value, Mapping) and ("phases" in value or {"mix", "name"} <= value.keys()):
        return parse(WrittenArm, value).arm()
    return Arm.of(read_mix(value))


def read_mix(value: Any) -> Mix:
    """Return a mix from ``"add+prod"`` or ``{add: 2, prod: 1}``. Raises ``ValueError``."""
    if isinstance(value, str):
        return _rounded(Mix.parse(value))
    if not isinstance(value, Mapping):
        raise ValueError(f"write a mix as add+prod or {{add: 2, prod: 1}}; got {value!r}")
    for task, weight in value.items():
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            raise ValueError(f"the weight of {task!r} must be a number, got {weight!r}")
    return _rounded(Mix.of(value))


def written(arm: Arm) -> Any:
    """Return the arm as plain values for :func:`read_arm`: only its name if that is enough."""
    try:
        if not arm.label and read_arm(arm.name) == arm:
            return arm.name
    except SettingsError:
        pass  # The name of a task contains an arm's syntax.
    phases = [
        {"mix": phase.mix.ratios, "share": phase.share, "takes": list(phase.takes), "frozen": list(phase.frozen)}
        | ({} if phase.size is None else {"size": phase.size})
        for phase in arm.phases
    ]
    return {"name": arm.composition, "phases": phases, "budget": arm.budget, "recipe": arm.recipe}


def phases_text(arm: Arm) -> str:
    """Return the phases of an arm in a line: ``prod for 0.5 of the steps, then add for 0.5, takes embedding``."""
    texts: list[str] = []
    for phase in arm.phases:
        takes = () if phase is arm.phases[0] or phase.takes == (ALL,) else phase.takes or ("nothing",)
        parts = [f"{phase.mix} for {phase.share:g}{'' if texts else ' of the steps'}"]
        parts += [f"{word} {', '.join(names)}" for word, names in (("takes", takes), ("frozen", phase.frozen)) if names]
        parts += [] if phase.size is None else [f"size {phase.size}"]
        texts.append(", ".join(parts))
    return ", then ".join(texts)


def with_budgets(arms: tuple[Arm, ...], target: str, fairness: Fairness) -> tuple[Arm, ...]:
    """Return the arms with the budgets that ``fairness`` requires. Arms that already have them do not change."""
    if fairness == "total" or not all(target in arm.tasks for arm in arms):
        return arms  # Arms without the target are refused later, all in one message.
    matched = [arm.with_as_much(target, arms[0]) for arm in arms]
    if fairness == "target":
        return tuple(matched)
    return tuple(dict.fromkeys(arm for pair in zip(arms, matched, strict=True) for arm in pair))


def with_recipes(arms: tuple[Arm, ...], recipes: Mapping[str, Any]) -> tuple[Arm, ...]:
    """Return each arm under all recipes, or only under its own recipe if it has one.

    Raises ``ValueError`` for an unknown recipe.
    """
    for arm in arms:
        if arm.recipe and arm.recipe not in recipes:
            raise unknown("recipe", arm.recipe, recipes, where=f"the mix {arm}")
    if not recipes or all(arm.recipe for arm in arms):
        return arms
    return tuple(replace(arm, recipe=recipe) for recipe in recipes for arm in arms if arm.recipe in ("", recipe))


def _parts(value: Sequence[str] | str) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _rounded(mix: Mix) -> Mix:
    # Names have six digits. Without rounding, an arm that was read from its name would be another arm, with another
    # key.
    return Mix.of({task: float(f"{ratio:.6g}") for task, ratio in mix.ratios.items()})
