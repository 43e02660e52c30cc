"""Documentation of search spaces: form, default and docstring of every setting."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from orchestrator.search.registry import METHODS
from orchestrator.space.expectations import Expectation
from orchestrator.space.parsing import field_types
from orchestrator.space.search_method import DEFAULT_METHOD
from orchestrator.space.spec import SweepSpec
from orchestrator.space.written_arms import WrittenArm, WrittenPhase
from orchestrator.space.written_spec import DEFAULT_FAMILY
from trainables.families import load_family
from trainables.script.options import ScriptOptions

FORMS = {int: "a whole number", float: "a number", str: "text", bool: "true or false", types.NoneType: "null"}
"""Names of types of values."""
LISTS = {"mixes", "sizes", "probes"}
"""Settings that are documented as lists, because their elements have several forms."""
FILE_KEYS = {
    "like": "A search space, by name or path, whose keys apply unless this file sets them.",
    "profiles": "Scales of the same question, from the largest to the smallest: names, with the keys they change.",
    "variants": "Sweeps of the same question on several tasks, models or budgets: names, with the keys they change.",
    "expects": " ".join((Expectation.__doc__ or "").split()),
}
"""Keys of a file that are not fields of a specification."""


@dataclass(frozen=True)
class Entry:
    """A setting. ``path`` is its dotted name. ``default`` is empty for a required setting."""

    path: str
    form: str
    default: str
    text: str


def entries(family: str = DEFAULT_FAMILY) -> list[Entry]:
    """Return every setting with this family, in the specification's order. Raises ``SettingsError`` if unknown."""
    kind = load_family(family)
    fields = itertools.groupby(_entries(SweepSpec), lambda entry: entry.path.partition(".")[0])
    groups = {name: list(group) for name, group in fields if name in SweepSpec.keys_in_a_file()}
    groups["mixes"] += [*_entries(WrittenArm, "mixes."), *_entries(WrittenPhase, "mixes.phases.")]
    groups["script"] += [*_entries(ScriptOptions, "script.")]
    groups["settings"] = [*_entries(kind.Settings, "settings.")]
    groups["search"] = [*_search()]
    groups["probes"] = [dataclasses.replace(groups["probes"][0], default=", ".join(kind.probes) or "none")]
    in_file = [Entry(name, "only in a YAML file", "", text) for name, text in FILE_KEYS.items()]
    return in_file + [entry for group in groups.values() for entry in group]


def docstrings(kind: type) -> dict[str, str]:
    """Return the text below each field. Pydantic's ``use_attribute_docstrings`` drops inherited dataclass fields."""
    texts = {}
    for owner in reversed(kind.__mro__[:-1]):  # Base classes first, so that a subclass can replace their texts.
        try:
            source = textwrap.dedent(inspect.getsource(owner))
        except (OSError, TypeError):  # A class made at run time does not have a source.
            continue
        for field, below in itertools.pairwise(typing.cast(ast.ClassDef, ast.parse(source).body[0]).body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    texts[name] = " ".join(text.split())
    return texts


def _search() -> Iterator[Entry]:
    """Yield the settings of the searchers. If only some methods have a setting, its entry names these methods."""
    yield Entry("search.method", ", ".join(METHODS), DEFAULT_METHOD, "How the runs are chosen.")
    methods: dict[Entry, list[str]] = {}
    for method in METHODS:
        for entry in _entries(METHODS[method].Settings, "search."):
            methods.setdefault(entry, []).append(method)
    for entry, names in methods.items():
        form = entry.form if len(names) == len(METHODS) else f"{entry.form} (method {' or '.join(names)})"
        yield dataclasses.replace(entry, form=form)


def _entries(kind: Any, prefix: str = "", defaults: Mapping[str, Any] | None = None) -> Iterator[Entry]:
    """Yield an entry for each field of a dataclass or pydantic model, followed by the entries of its inner fields."""
    texts = docstrings(kind)
    defaults = _defaults(kind) | dict(defaults or {})
    for name, annotation in field_types(kind).items():
        path = f"{prefix}{name}"
        default = defaults[name]
        text = texts.get(name, "")
        members = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
        inner = next((member for member in members if field_types(member)), None)
        if name in LISTS or inner is None:
            form = "a list" if name in LISTS else _form(annotation)
            yield Entry(path, form, _shown(default), text)
            continue
        if text:
            yield Entry(path, "a mapping", "", text)
        yield from _entries(inner, f"{path}.", vars(default) if dataclasses.is_dataclass(default) else None)


def _defaults(kind: Any) -> dict[str, Any]:
    """Return the default of each field, or the library's sentinel for a required field."""
    if issubclass(kind, BaseModel):
        fields = kind.model_fields.items()
        return {field.alias or name: field.get_default(call_default_factory=True) for name, field in fields}
    return {
        field.name: field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        for field in dataclasses.fields(kind)
    }


def _form(annotation: Any) -> str:
    if typing.get_origin(annotation) is typing.Annotated:
        return _form(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) is typing.Literal:
        return ", ".join(map(str, typing.get_args(annotation)))
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return " or ".join(map(_form, typing.get_args(annotation)))
    return FORMS.get(annotation, "a list" if typing.get_origin(annotation) in (list, tuple) else "a mapping")


def _shown(default: Any) -> str:
    if default is dataclasses.MISSING or default is PydanticUndefined:
        return ""
    if default is None or default in ({}, [], ()):
        return "none"
    if isinstance(default, bool):
        return str(default).lower()
    return str(list(default) if isinstance(default, tuple) else default)
