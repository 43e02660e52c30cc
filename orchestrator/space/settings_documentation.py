"""Documentation of search spaces: every setting with its form, its default and its owner's words.

The words are those beside the fields: the text below a field, or the sentences of its class that name it.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import re
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any

import annotated_types
from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from orchestrator.search.registry import METHODS, settings_type
from orchestrator.space.arms import WrittenArm, WrittenPhase
from orchestrator.space.expected import Expectation
from orchestrator.space.mistakes import field_types
from orchestrator.space.search import DEFAULT_METHOD
from orchestrator.space.settings import plain_settings
from orchestrator.space.spec import DEFAULT_FAMILY, SweepSpec
from trainables.base import load_family
from trainables.probes.base import load_probe

NOUNS = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "null": "null",
    "array": "a list",
}
"""Types of a JSON schema in words."""
BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "above",
    "maximum": "at most",
    "exclusiveMaximum": "below",
}
LISTS = {"mixes", "sizes", "probes"}
FILE_KEYS = {
    "like": "A search space, by name or path, whose keys hold where this file does not say otherwise.",
    "profiles": "Scales of the same question, from the largest to the smallest: names, with the keys they change.",
    "variants": "Sweeps of the same question on several tasks, models or budgets: names, with the keys they change.",
    "expects": " ".join((Expectation.__doc__ or "").split()),
}
"""What a file may hold besides a specification's fields."""


@dataclass(frozen=True)
class Entry:
    """One setting: its dotted path, its form in words, its default in words (``""`` where it must be written) and what
    it means."""

    path: str
    form: str
    default: str
    text: str


def entries(family: str = DEFAULT_FAMILY) -> list[Entry]:
    """Every setting of a search space with models of this family. Raises ``SettingsError`` for an unknown family."""
    kind = load_family(family)
    found = [Entry(name, "in a file", "", text) for name, text in FILE_KEYS.items()]
    for name in SweepSpec.model_fields:
        if name == "settings":
            found += _fields_of(kind.Settings, "settings.", _defaults(kind.Settings))
        elif name == "search":
            found += _search()
        elif name in SweepSpec.keys_in_a_file():
            found += _field(SweepSpec, name, "", {"probes": ", ".join(kind.probes) or "none"})
        if name == "mixes":
            found += [*_fields_of(WrittenArm, "mixes.", {}), *_fields_of(WrittenPhase, "mixes.phases.", {})]
    return found


def _search() -> Iterator[Entry]:
    yield Entry("search.method", _one_of(METHODS), DEFAULT_METHOD, "How the runs are chosen.")
    seen: dict[str, list[str]] = {}
    for method in METHODS:
        for field in dataclasses.fields(settings_type(method)):
            seen.setdefault(field.name, []).append(method)
    for name, methods in seen.items():
        for entry in _field(settings_type(methods[0]), name, "search.", _defaults(settings_type(methods[0]))):
            whose = "" if len(methods) == len(METHODS) else f" (method {' or '.join(methods)})"
            yield dataclasses.replace(entry, form=entry.form + whose)


def _fields_of(kind: Any, prefix: str, defaults: Mapping[str, Any]) -> Iterator[Entry]:
    for name in field_types(kind):
        yield from _field(kind, name, prefix, defaults)


def _field(kind: Any, name: str, prefix: str, defaults: Mapping[str, Any]) -> Iterator[Entry]:
    """A field's entry; where it holds fields of its own, theirs."""
    annotation, path, text = field_types(kind)[name], f"{prefix}{name}", said_of(kind, name)
    inner = next((member for member in _members(annotation) if field_types(member)), None)
    if inner is not None and name not in LISTS:
        own = defaults.get(name)
        own = own if isinstance(own, Mapping) else _defaults(inner)
        if text or inner is not annotation:
            yield Entry(path, "a mapping", "", text)
        yield from _fields_of(inner, f"{path}.", own)
        return
    field = _model_field(kind, name)
    form = "a list" if name in LISTS else _words(_schema_of(annotation, field.metadata if field else ()))
    yield Entry(path, form, _default(kind, name, defaults), text)


def _model_field(kind: Any, name: str) -> FieldInfo | None:
    """The field of a pydantic model that a file names so; None of other classes."""
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return None
    return next(field for own, field in kind.model_fields.items() if (field.alias or own) == name)


def _members(annotation: Any) -> tuple[Any, ...]:
    """The types that a value may have."""
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return tuple(part for member in typing.get_args(annotation) for part in _members(member))
    if typing.get_origin(annotation) is typing.Annotated:
        return _members(typing.get_args(annotation)[0])
    return (annotation,)


def _schema_of(annotation: Any, rules: Sequence[Any]) -> dict[str, Any]:
    """JSON schema of a value of this type within the bounds among these rules."""
    for rule in rules:
        if isinstance(rule, annotated_types.BaseMetadata):
            annotation = Annotated[annotation, rule]
    return TypeAdapter(annotation).json_schema()


def _words(schema: Mapping[str, Any]) -> str:
    """A JSON schema of one value in words."""
    if "anyOf" in schema:
        return " or ".join(map(_words, schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return _one_of(schema.get("enum") or [schema["const"]])
    bounds = " and ".join(f"{said} {schema[name]:g}" for name, said in BOUNDS.items() if name in schema)
    return f"{NOUNS.get(schema.get('type', ''), 'a mapping')} {bounds}".strip()


def _one_of(values: Any) -> str:
    return ", ".join(str(value) for value in values)


def _defaults(kind: Any) -> Mapping[str, Any]:
    """The defaults of a dataclass as plain values; none where it cannot be made without being told something."""
    if not dataclasses.is_dataclass(kind) or any(
        field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        for field in dataclasses.fields(kind)
    ):
        return {}
    return plain_settings(typing.cast(Any, kind)())


def _default(kind: Any, name: str, defaults: Mapping[str, Any]) -> str:
    if name in defaults:
        return _plain(defaults[name])
    if (field := _model_field(kind, name)) is None:
        return ""
    if field.default is not PydanticUndefined:
        return _plain(field.default)
    return "none" if field.default_factory is not None else ""


def _plain(value: Any) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def said_of_probe(name: str) -> str:
    """Documentation of a built-in probe, from its class: its numbers, their formulas, ranges and sources."""
    return inspect.cleandoc(type(load_probe(name)).__doc__ or "").replace("``", "`")


def said_of(kind: Any, name: str) -> str:
    """Documentation of a field, from the text below it or from its class, or ``""``."""
    for owner in kind.__mro__:
        if owner is not object and (below := _below_fields(owner).get(name)):
            return below
    for owner in kind.__mro__:
        if said := _sentences(inspect.cleandoc(owner.__doc__ or ""), name):
            return said
    return ""


@cache  # Every field of a class asks for the same source.
def _below_fields(owner: type) -> dict[str, str]:
    """The texts that stand below the fields of a class, by field."""
    try:
        source = textwrap.dedent(inspect.getsource(owner))
    except (OSError, TypeError):  # A class that was made, not written.
        return {}
    body = typing.cast(ast.ClassDef, ast.parse(source).body[0]).body
    found = {}
    for field, below in itertools.pairwise(body):
        named = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if named and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            name = typing.cast(ast.Name, typing.cast(ast.AnnAssign, field).target).id
            found[name] = " ".join(str(below.value.value).split())
    return found


def _sentences(text: str, name: str) -> str:
    """The paragraph below a name that stands alone, or the sentences that hold it."""
    defined = re.search(rf"^``{name}``\n((?:[ \t]+.*\n?)+)", text, re.MULTILINE)
    if defined is not None:
        return " ".join(defined[1].split())
    sentences = re.split(r"(?<=[.:])\s+(?=[A-Z`])", " ".join(text.split()))
    return " ".join(each for each in sentences if f"``{name}``" in each or f"``{name}: " in each)
