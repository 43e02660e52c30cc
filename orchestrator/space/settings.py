"""Settings as plain values, and recipes: other settings for the same comparison."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from pydantic import BaseModel

from orchestrator.space.overlays import merge
from orchestrator.space.parsing import InvalidDataError, Mistake, parse
from orchestrator.space.written_arms import read_arm, written
from trainables.base import Family
from trainables.contract.arms import Arm
from trainables.contract.settings import described_fields, digest_of

RECIPE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.=-]*(,[A-Za-z0-9_.=-]+)*")
"""Pattern of names of recipes."""
LONGEST_NAME = 64
"""Maximum number of characters of a recipe's name."""


def flatten(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one mapping with dotted keys. Lists stay values."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def plain_value(value: Any) -> Any:
    """Return a value of a specification as plain YAML values. It may be a model, an arm, settings or a number."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", warnings="error")
    if isinstance(value, Arm):
        return written(read_arm(value))
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        return {key: plain_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain_value(inner) for inner in value]
    if isinstance(value, str):
        return str(value)  # A member of an enumeration is also a string.
    return value.tolist() if hasattr(value, "tolist") else value  # Arrays and numbers of numpy have tolist.


def resolve(recipes: Mapping[str, Any], family: Family, sizes: tuple[int, ...]) -> dict[str, Any]:
    """Return the family's settings under each recipe, by name.

    Raises:
        InvalidDataError: A name or settings are invalid, a recipe changes the task or the number of parameters, or two
            recipes have the same settings.
    """
    resolved: dict[str, Any] = {}
    names: dict[str, str] = {}  # The first recipe with each description of its settings.
    mistakes: list[Mistake] = []
    # Not without recipes: a family that cannot count its parameters is refused later, with a better message.
    parameters = [family.parameters(size) for size in sizes] if recipes else []
    for name, overlay in recipes.items():
        try:
            settings = _settings(name, overlay, family)
        except InvalidDataError as error:
            mistakes += error.mistakes
            continue
        key = ("recipes", name)
        other = type(family)(settings)
        # Compare as run keys do: a recipe that sets a default explicitly is the same recipe.
        same = names.setdefault(digest_of(described_fields(settings)), name)
        # Recipes are compared by a task's transitions in parameters.
        if other.tasks() != family.tasks() or other.subject() != family.subject():
            mistakes.append(Mistake(key, "changes the task; write variants: to do that"))
        elif [other.parameters(size) for size in sizes] != parameters:
            mistakes.append(Mistake(key, "changes the number of parameters; write variants: to do that"))
        elif same != name:
            mistakes.append(Mistake(key, f"has the same settings as recipe {same!r}"))
        resolved[name] = settings
    if mistakes:
        raise InvalidDataError(*mistakes)
    return resolved


def _settings(name: str, overlay: Any, family: Family) -> Any:
    """Return the family's settings under one recipe. Raises :class:`InvalidDataError`."""
    key = ("recipes", name)
    if not RECIPE_NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        allowed = f"letters and digits, and '_', '.', '=', '-' and ',' between them; at most {LONGEST_NAME} characters"
        raise InvalidDataError(Mistake(key, f"a recipe's name may contain {allowed}; got {name!r}"))
    if not isinstance(overlay, Mapping) or not isinstance(overlay.get("settings"), Mapping):
        form = "{settings: {training: {learning_rate: 1.0e-4}}}"
        raise InvalidDataError(Mistake(key, f"must have settings, such as {form}; got {overlay!r}"))
    if others := [other for other in overlay if other != "settings"]:
        message = "a recipe may contain only settings: to change other keys, write variants:"
        raise InvalidDataError(Mistake((*key, others[0]), message))
    merged = merge(plain_value(family.settings), overlay["settings"])
    return parse(type(family).Settings, merged, at=(*key, "settings"))


def difference(settings: Any, recipe: Any) -> str:
    """Return the changes of a recipe in one line: ``training.learning_rate 0.005``."""
    before, after = (flatten(plain_value(values)) for values in (settings, recipe))
    changed = {key: value for key, value in after.items() if before.get(key) != value and value is not None}
    return ", ".join(f"{key} {value}" for key, value in changed.items()) or "as written"
