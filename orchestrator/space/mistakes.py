"""Turns plain data (from YAML) into typed values, and everything that is wrong with it into sentences.

Pydantic does the checking, always in strict JSON mode: ``true`` is not a number and ``"6"`` is not an integer. Its
findings are translated here: the path of the key, what was given, what is allowed and the nearest match.
"""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from orchestrator.errors import did_you_mean
from trainables.base import SettingsError

Key = tuple[str | int, ...]
"""Path of a value inside a document: ``("settings", "task", "modulus")``."""

T = TypeVar("T")

STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""Names of search spaces, profiles and variants: they become directories and names of experiments."""

ONE_LINE = "^.+$"
"""Pattern of text that stands in a line of a table."""

YAML_WORDS = (
    (f"match pattern '{ONE_LINE}'", "be text on one line"),
    ("Input should be", "must be"),
    ("String should", "must"),
    ("a valid array", "a list"),
    ("an object", "a mapping"),
)


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong with a document, and where in it."""

    key: Key
    message: str
    unknown_key: bool = False


class InvalidDataError(ValueError):
    """Data that cannot be used; ``mistakes`` says why and has at least one entry."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__("; ".join(f"{dotted(p.key)}: {p.message}" if p.key else p.message for p in mistakes))
        self.mistakes = mistakes


def dotted(key: Key) -> str:
    """``settings.task.modulus``, ``mixes[1]``."""
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def parse(kind: type[T], data: Any, context: object = None) -> T:
    """An instance of ``kind`` (a pydantic model or a standard dataclass) made from plain data.

    Keys that ``kind`` does not have are refused at every depth. Validators get the ``context``. Raises
    :class:`InvalidDataError`.
    """
    holder = _holder(typing.cast(Hashable, kind))
    try:
        held = holder.model_validate_json(json.dumps({"value": data}), strict=True, context=context)
        return typing.cast(T, held.value)  # type: ignore[attr-defined]
    except ValidationError as error:
        raise InvalidDataError(list(mistakes(error, kind))) from error


@cache
def _holder(kind: Any) -> type[BaseModel]:
    """A model around ``kind``: standard dataclasses cannot declare themselves strict, but inside it they are."""
    return create_model("Holder", __config__=STRICT, value=(kind, ...))


def mistakes(error: ValidationError, kind: Any) -> Iterator[Mistake]:
    """Everything ``error`` found in the ``value`` of a holder of ``kind``."""
    for found in error.errors():
        key: Key = found["loc"][1:]
        cause = found.get("ctx", {}).get("error")
        if isinstance(cause, InvalidDataError):
            yield from (replace(mistake, key=key + mistake.key) for mistake in cause.mistakes)
        elif isinstance(cause, SettingsError):
            yield Mistake(_settings_key(kind, key, cause.key), explain(cause))
        elif found["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            yield Mistake(key, _unknown_key(str(key[-1]), sorted(_keys(kind, key[:-1]))), unknown_key=True)
        elif found["type"] == "missing":
            yield Mistake(key, "is missing")
        elif found["type"] == "value_error":
            yield Mistake(key, str(cause))
        else:
            yield Mistake(key, f"{_in_yaml_words(found['msg'])}; got {_short(found['input'])}")


def _settings_key(kind: Any, key: Key, named: str) -> Key:
    """The key that an error of a settings class is about: the one it names, from the top of the settings or ``key``."""
    if not (named and dataclasses.is_dataclass(kind)):
        return key
    parts = tuple(named.split("."))
    return parts if parts[0] in field_types(kind) else (*key, *parts)


def explain(error: SettingsError) -> str:
    """The error's message, with the nearest allowed value and all allowed ones where the error lists them."""
    text = str(error)
    if not error.allowed:
        return text
    hint = did_you_mean(error.given, error.allowed) if error.given else ""
    return f"{text}.{hint} Allowed: {', '.join(error.allowed)}"


def _unknown_key(given: str, allowed: list[str]) -> str:
    if not allowed:
        return "there is no such key; nothing can be set here"
    return f"there is no such key.{did_you_mean(given, allowed)} Allowed: {', '.join(allowed)}"


def _keys(kind: Any, key: Key) -> list[str]:
    """The keys a mapping at ``key`` inside ``kind`` may have."""
    if not key and hasattr(kind, "keys_in_a_file"):
        return list(kind.keys_in_a_file())
    for part in key:
        inside = typing.get_args(kind) if isinstance(part, int) else ()
        kind = inside[0] if inside else field_types(kind).get(str(part))
    return list(field_types(kind))


def leaf_paths(kind: Any, prefix: str = "") -> list[str]:
    """The dotted paths of everything inside ``kind`` that has no fields of its own."""
    paths: list[str] = []
    for name, inner in field_types(kind).items():
        paths += leaf_paths(inner, f"{prefix}{name}.") if field_types(inner) else [f"{prefix}{name}"]
    return paths


def field_types(kind: Any) -> dict[str, Any]:
    """Field names, as written in a document, and their types."""
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return {name: inner for member in typing.get_args(kind) for name, inner in field_types(member).items()}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}
    return {}


def _in_yaml_words(message: str) -> str:
    """Pydantic's "Input should be a valid array" as the rest of a sentence about a key."""
    for theirs, ours in YAML_WORDS:
        message = message.replace(theirs, ours)
    return message


def _short(value: Any, limit: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
