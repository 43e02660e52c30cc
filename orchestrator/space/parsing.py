"""Typed values from plain data (of YAML files), and a sentence for each mistake in the data.

Pydantic checks the data in strict JSON mode: ``true`` is not a number and ``"6"`` is not an integer. This module
translates its errors: the path of the key, the given and allowed values, and the nearest match.
"""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from orchestrator.system.did_you_mean import did_you_mean
from orchestrator.system.typed import UnusableTypeError, UnwritableError, from_plain
from trainables.base import SettingsError

Key = tuple[str | int, ...]
"""Path of a value in a document: ``("settings", "task", "modulus")``."""

T = TypeVar("T")

NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""Pattern of names of search spaces, profiles and variants, which become directories and experiment names."""
ONE_LINE = "^.+$"
"""Pattern of text for one line of a table."""
YAML_WORDS = {
    f"match pattern '{ONE_LINE}'": "be text on one line",
    "Input should be": "must be",
    "String should": "must",
    "a valid array": "a list",
    "a valid integer": "a whole number",
    "an object": "a mapping",
}
"""Phrases of pydantic, and our phrases for the end of a sentence about a key."""


@dataclass(frozen=True)
class Mistake:
    """A mistake in a document and its key. ``allowed`` are the valid keys, if the key is unknown."""

    key: Key
    message: str
    allowed: tuple[str, ...] | None = None


class InvalidDataError(ValueError):
    """Invalid data, with at least one of ``mistakes``."""

    def __init__(self, *mistakes: Mistake) -> None:
        texts = (f"{dotted(one.key)}: {one.message}" if one.key else one.message for one in mistakes)
        super().__init__("; ".join(texts))
        self.mistakes = mistakes


def dotted(key: Key) -> str:
    """Return a key as text: ``settings.task.modulus``, ``mixes[1]``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in key).removeprefix(".")


def parse(kind: type[T], data: Any, at: Key = ()) -> T:
    """Return an instance of ``kind`` (a pydantic model or a standard dataclass) made from plain data.

    Unknown keys are refused at every depth. Raises :class:`InvalidDataError`, whose keys begin with ``at``.
    """
    try:
        return from_plain(kind, data)
    except UnusableTypeError as error:
        why = f"{kind.__module__}:{kind.__qualname__} has a field whose type cannot be read from YAML"
        raise InvalidDataError(Mistake(at, f"{why}: {str(error).splitlines()[0]}")) from error
    except UnwritableError as error:
        mistakes = [replace(mistake, key=at + mistake.key) for mistake in unwritable(data)]
        raise InvalidDataError(*mistakes or [Mistake(at, str(error))]) from error
    except ValidationError as error:
        whole = [details["loc"][1:] for details in error.errors() if _is_whole(details)]
        changed = reduce(_with_integer, whole, data)
        if json.dumps(changed) != json.dumps(data):  # 1e3 equals 1000, but is written in another way.
            return parse(kind, changed, at)
        mistakes = [replace(mistake, key=at + mistake.key) for mistake in _mistakes(error, kind)]
        raise InvalidDataError(*mistakes) from error


def unwritable(data: Any, key: Key = ()) -> Iterator[Mistake]:
    """Yield a mistake for each value that no file can contain, such as a function passed from Python."""
    if isinstance(data, Mapping):
        for name, value in data.items():
            if isinstance(name, str | int | float | None):
                yield from unwritable(value, (*key, str(name)))
            else:
                yield Mistake(key, f"a key must be text; got {name!r:.60}")
    elif isinstance(data, list | tuple):
        for place, value in enumerate(data):
            yield from unwritable(value, (*key, place))
    elif not isinstance(data, str | int | float | None):
        yield Mistake(key, f"must be text, a number, a list or a mapping; got {data!r:.60}")


def _is_whole(details: Any) -> bool:
    """Return True if pydantic refused a number such as 1e3 only because it is written as a float."""
    value = details["input"]
    return details["type"] == "int_type" and isinstance(value, float) and value.is_integer() and abs(value) < 2**53


def _with_integer(data: Any, key: Key) -> Any:
    """Return data with the number at ``key`` as an integer.

    For a union, pydantic's key also contains the name of a type, which is not in the data. Then return the data
    unchanged, so that the mistake is reported.
    """
    if not key:
        return int(data) if isinstance(data, float) else data
    if isinstance(data, Mapping) and key[0] in data:
        return {**data, key[0]: _with_integer(data[key[0]], key[1:])}
    if isinstance(data, list | tuple) and isinstance(key[0], int):
        return [_with_integer(value, key[1:]) if place == key[0] else value for place, value in enumerate(data)]
    return data


def _mistakes(error: ValidationError, kind: Any) -> Iterator[Mistake]:
    for details in error.errors():
        key: Key = details["loc"][1:]
        cause = details.get("ctx", {}).get("error")
        if isinstance(cause, InvalidDataError):
            yield from (replace(mistake, key=key + mistake.key) for mistake in cause.mistakes)
        elif isinstance(cause, SettingsError):
            yield Mistake(_settings_key(kind, key, cause.key), explain(cause))
        elif details["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            allowed = tuple(sorted(_keys(kind, key[:-1])))
            yield Mistake(key, unknown_key(allowed, did_you_mean(str(key[-1]), allowed)), allowed)
        elif details["type"] == "missing":
            yield Mistake(key, "this key is missing")
        elif details["type"] == "value_error":
            yield Mistake(key, str(cause))
        else:
            message = details["msg"]
            for theirs, ours in YAML_WORDS.items():
                message = message.replace(theirs, ours)
            yield Mistake(key, f"{message}; got {details['input']!r:.60}")


def _settings_key(kind: Any, key: Key, named: str) -> Key:
    """Return an error's key. A settings class specifies it from the top of the settings or from ``key``."""
    if not (named and dataclasses.is_dataclass(kind)):
        return key
    parts = tuple(named.split("."))
    return parts if parts[0] in field_types(kind) else (*key, *parts)


def explain(error: SettingsError) -> str:
    """Return the message of an error, with its allowed values and the nearest match if the error lists them."""
    if not error.allowed:
        return str(error)
    hint = did_you_mean(error.given, error.allowed) if error.given else ""
    return f"{error}.{hint} Allowed: {', '.join(error.allowed)}"


def unknown_key(allowed: Sequence[str], hint: str) -> str:
    """Return the message for an unknown key."""
    if not allowed:
        return f"there is no such key{hint or '; nothing can be set here'}"
    return f"there is no such key.{hint} Allowed: {', '.join(allowed)}"


def _keys(kind: Any, key: Key) -> list[str]:
    """Return the keys allowed in a mapping at ``key`` inside ``kind``."""
    if not key and hasattr(kind, "keys_in_a_file"):
        return list(kind.keys_in_a_file())
    for part in key:
        inside = typing.get_args(kind) if isinstance(part, int) else ()
        kind = inside[0] if inside else field_types(kind).get(str(part))
    return list(field_types(kind))


def leaf_paths(kind: Any, prefix: str = "") -> list[str]:
    """Return the dotted paths of all values inside ``kind`` that do not have fields."""
    paths: list[str] = []
    for name, inner in field_types(kind).items():
        paths += leaf_paths(inner, f"{prefix}{name}.") if field_types(inner) else [f"{prefix}{name}"]
    return paths


def field_types(kind: Any) -> dict[str, Any]:
    """Return the types of fields by name, as written in a document."""
    if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
        return {name: inner for member in typing.get_args(kind) for name, inner in field_types(member).items()}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return {field.alias or name: field.annotation for name, field in kind.model_fields.items()}
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}
    return {}
