"""A specification from disk, read as what it was asked to be.

What is newly asked is checked against every rule of today (spec.py). What was asked long ago is not: a rule added
since, a method that is gone or hardware that is missing must not hide what was found. Here values only get their types.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from orchestrator.search.registry import METHODS, settings_type
from orchestrator.space.arms import read_arm
from orchestrator.space.layers import merge
from orchestrator.space.plain import plain_settings
from orchestrator.space.search import Search
from orchestrator.space.spec import SweepSpec
from orchestrator.space.tuning import Range, Tune
from orchestrator.space.validation import Key, dotted
from trainables.base import Family, SettingsError
from trainables.contract.arms import Arm
from trainables.named import load_family

M = TypeVar("M", bound=BaseModel)

WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


@dataclass(frozen=True)
class StoredSpec:
    """A specification as it was written. ``lacks`` says why its family cannot be had; ``""`` where it can.

    Without its family the settings are plain values, and neither configurations nor parameter counts can be asked for.
    """

    spec: SweepSpec
    lacks: str = ""


def read_stored(data: Any) -> StoredSpec:
    """The specification in a sweep's own file. Raises ``ValueError`` for values it cannot have held."""
    values = _mapping(data, ())
    written = {name: value for name, value in values.items() if name not in ("settings", "recipes")}
    spec = _model(SweepSpec, written | {"settings": {}}, ())
    recipes = _mapping(values.get("recipes", {}), ("recipes",))
    settings = _mapping(values.get("settings", {}), ("settings",))
    try:
        family = complete_family(spec.family)
    except SettingsError as error:
        return StoredSpec(spec.model_copy(update={"settings": settings, "recipes": recipes}), str(error))
    own = _instance(family.Settings, settings, ("settings",))
    spec = spec.model_copy(update={"settings": own, "recipes": recipes})
    # Kept where the specification would otherwise work them out, and check them, when they are first asked for.
    spec.__dict__["recipe_settings"] = {
        name: _recipe(family, own, overlay, ("recipes", name)) for name, overlay in recipes.items()
    }
    return StoredSpec(spec)


def complete_family(name: str) -> type[Family]:
    """The class of a family. Raises :class:`SettingsError` where there is none, or only the beginning of one."""
    family = load_family(name)
    if missing := sorted(family.__abstractmethods__):
        raise SettingsError(f"{name!r} is no complete family: it lacks {', '.join(missing)}", key="family", given=name)
    return family


def _recipe(family: type[Family], own: Any, overlay: Any, key: Key) -> Any:
    return _instance(family.Settings, merge(plain_settings(own), _mapping(overlay, key)), key)


def _typed(kind: Any, value: Any, key: Key) -> Any:
    """``value`` in the type that ``kind`` asks for."""
    if typing.get_origin(kind) is Annotated:
        kind = typing.get_args(kind)[0]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any or origin is typing.Literal:
        return value
    if origin is typing.Union or origin is types.UnionType:
        return _member(arguments, value, key)
    if origin is tuple:
        return _tuple(arguments, value, key)
    if origin is dict:
        return {name: _typed(arguments[1], inner, (*key, name)) for name, inner in _mapping(value, key).items()}
    if kind is Arm:
        return read_arm(value)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _model(kind, _mapping(value, key), key)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _instance(kind, _mapping(value, key), key)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    return _scalar(kind, value, key)


def _scalar(kind: Any, value: Any, key: Key) -> Any:
    if kind is float and type(value) is int:
        return float(value)
    if kind in WORDS and type(value) is not kind:
        raise ValueError(f"{dotted(key)} must be {WORDS[kind]}; got {value!r}")
    return value


def _member(kinds: tuple[Any, ...], value: Any, key: Key) -> Any:
    """The first of several kinds that the value can have."""
    if value is None and types.NoneType in kinds:
        return None
    words: list[str] = []
    for kind in kinds:
        literal = typing.get_origin(kind) is typing.Literal
        if kind is types.NoneType or (literal and value not in typing.get_args(kind)):
            continue
        try:
            return _typed(kind, value, key)
        except ValueError as error:
            words.append(str(error))
    raise ValueError(words[0] if words else f"{dotted(key)} cannot be {value!r}")


def _tuple(kinds: tuple[Any, ...], value: Any, key: Key) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise ValueError(f"{dotted(key)} must be a list; got {value!r}")
    each = [kinds[0]] * len(value) if len(kinds) == 2 and kinds[1] is Ellipsis else list(kinds)
    if len(each) != len(value):
        raise ValueError(f"{dotted(key)} must hold {len(each)} values; got {value!r}")
    return tuple(
        _typed(kind, inner, (*key, place)) for place, (kind, inner) in enumerate(zip(each, value, strict=True))
    )


def _model(kind: type[M], values: Mapping[str, Any], key: Key) -> M:
    """A model of ours without its validators; what was not written has its default."""
    if kind is Search:
        values = _search(values, key)
    elif kind is Tune:
        values = {**values, "settings": dict(_ranges(_mapping(values.get("settings"), (*key, "settings")), ()))}
    fields = {field.alias or name: (name, field) for name, field in kind.model_fields.items()}
    _no_strangers(values, fields, key)
    found: dict[str, Any] = {}
    for written, (_, field) in fields.items():
        if written in values:
            found[written] = _typed(field.annotation, values[written], (*key, written))
        elif (default := field.get_default(call_default_factory=True)) is not PydanticUndefined:
            found[written] = default
        else:
            raise ValueError(f"{dotted((*key, written))} is missing")
    return kind.model_construct(**found)


def _instance(kind: type, values: Mapping[str, Any], key: Key) -> Any:
    """A family's settings without the checks that they make of themselves."""
    hints = typing.get_type_hints(kind)
    fields = {field.name: field for field in dataclasses.fields(kind)}
    _no_strangers(values, fields, key)
    made: Any = object.__new__(kind)
    for name, field in fields.items():
        if name in values:
            value = _typed(hints[name], values[name], (*key, name))
        elif field.default is not dataclasses.MISSING:
            value = field.default
        elif field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        else:
            raise ValueError(f"{dotted((*key, name))} is missing")
        object.__setattr__(made, name, value)
    return made


def _search(values: Mapping[str, Any], key: Key) -> dict[str, Any]:
    """A method beside its settings; those of a method that is still there get the defaults of today."""
    method = _typed(str, values.get("method"), (*key, "method"))
    known = (
        {field.name: field.default for field in dataclasses.fields(settings_type(method))} if method in METHODS else {}
    )
    return {"method": method, "settings": known | {name: value for name, value in values.items() if name != "method"}}


def _ranges(values: Mapping[str, Any], above: Key) -> typing.Iterator[tuple[str, Mapping[str, Any]]]:
    """Every range inside nested mappings, by its dotted path."""
    names = {field.alias or name for name, field in Range.model_fields.items()}
    for name, inner in values.items():
        mapping = _mapping(inner, (*above, name))
        if mapping.keys() & names:
            yield ".".join(map(str, (*above, name))), mapping
        else:
            yield from _ranges(mapping, (*above, name))


def _mapping(value: Any, key: Key) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{dotted(key) or 'it'} must map keys to values; got {value!r:.60}")
    return value


def _no_strangers(values: Mapping[str, Any], known: Mapping[str, Any], key: Key) -> None:
    """A key that means nothing today cannot be left out: who reads on would believe something else was asked."""
    if strangers := [name for name in values if name not in known]:
        raise ValueError(f"{dotted((*key, strangers[0]))} means nothing to this version of the program")
