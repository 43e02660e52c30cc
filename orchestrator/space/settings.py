"""Settings as plain values, and recipes: other settings for the same comparison."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass, replace
from typing import Any

from pydantic import BaseModel

from orchestrator.space.arms import written
from orchestrator.space.mistakes import InvalidDataError, Mistake, parse
from orchestrator.space.overlays import merge
from trainables.base import Family
from trainables.contract.arms import Arm
from trainables.contract.settings import described_fields


def flatten(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as one mapping with dotted keys. Lists stay values."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def plain_settings(settings: Any) -> dict[str, Any]:
    """Return a family's settings as plain YAML values."""
    values: dict[str, Any] = _plain(python_numbers(asdict(settings)))
    return values


def python_numbers(value: Any) -> Any:
    """Return a value with Python's numbers and lists in place of numpy's, at every depth."""
    if isinstance(value, Mapping):
        return {key: python_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(python_numbers, value)) if type(value) in (list, tuple) else value
    return value.tolist() if hasattr(value, "tolist") else value


def plain_value(value: Any) -> Any:
    """Return a value of a specification (``resources``, an arm, settings, numbers) as plain YAML values."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", warnings="error")
    if isinstance(value, Arm):
        return written(value)
    if is_dataclass(value) and not isinstance(value, type):
        return plain_settings(value)
    if isinstance(value, Mapping):
        return {key: plain_value(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain_value(inner) for inner in value]
    return _plain(python_numbers(value))


def _plain(value: Any) -> Any:
    """Turn tuples into lists and string enums into strings."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, str) else value


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.=-]*(,[A-Za-z0-9_.=-]+)*")
LONGEST_NAME = 64


def resolve(recipes: Mapping[str, Any], family: Family, sizes: tuple[int, ...]) -> dict[str, Any]:
    """Return the family's settings under each recipe, by name.

    Raises :class:`InvalidDataError` for invalid names and settings, recipes that change the task or the number of
    parameters, and recipes with the same settings.
    """
    base = plain_settings(family.settings)
    resolved: dict[str, Any] = {}
    mistakes: list[Mistake] = []
    for name, overlay in recipes.items():
        if not NAME.fullmatch(name) or len(name) > LONGEST_NAME:
            allowed = (
                f"letters and digits, and '_', '.', '=', '-' and ',' between them; at most {LONGEST_NAME} characters"
            )
            mistakes.append(Mistake((name,), f"a recipe's name may contain {allowed}; got {name!r}"))
            continue
        if not isinstance(overlay, Mapping) or not isinstance(overlay.get("settings"), Mapping):
            form = "{settings: {training: {learning_rate: 1.0e-4}}}"
            mistakes.append(Mistake((name,), f"must have settings, such as {form}; got {overlay!r}"))
            continue
        if others := [key for key in overlay if key != "settings"]:
            mistakes.append(
                Mistake((name, others[0]), "a recipe may contain only settings: to change other keys, write variants:")
            )
            continue
        try:
            settings: Any = parse(type(family).Settings, merge(base, overlay["settings"]))
        except InvalidDataError as error:
            mistakes += [replace(mistake, key=(name, "settings", *mistake.key)) for mistake in error.mistakes]
            continue
        mistakes += _changed(name, family, type(family)(settings), sizes)
        # Compare as run keys do: a recipe that sets a default explicitly is the same recipe.
        described = described_fields(settings)
        same = [other for other, earlier in resolved.items() if described_fields(earlier) == described]
        if same:
            mistakes.append(Mistake((name,), f"has the same settings as recipe {same[0]!r}"))
        resolved[name] = settings
    if mistakes:
        raise InvalidDataError(mistakes)
    return resolved


def difference(settings: Any, recipe: Any) -> str:
    """Return the changes of a recipe in one line: ``training.learning_rate 0.005``."""
    before, after = (flatten(plain_settings(values)) for values in (settings, recipe))
    changed = {key: value for key, value in after.items() if before.get(key) != value and value is not None}
    return ", ".join(f"{key} {value}" for key, value in changed.items()) or "as written"


def _changed(name: str, family: Family, other: Family, sizes: tuple[int, ...]) -> list[Mistake]:
    """Refuse changes of task or parameters, because recipes are compared by a task's transitions in parameters."""
    if other.tasks() != family.tasks() or other.subject() != family.subject():
        return [Mistake((name,), "changes the task; write variants: to do that")]
    if any(other.parameters(size) != family.parameters(size) for size in sizes):
        return [Mistake((name,), "changes the number of parameters; write variants: to do that")]
    return []
