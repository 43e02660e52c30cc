"""What functions, classes and objects hold. Their code does not run, but a computed field of a dataclass does."""

from __future__ import annotations

import inspect
from argparse import Namespace
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cached_property, partial, partialmethod
from types import FunctionType, MappingProxyType, MethodType, ModuleType, SimpleNamespace

WRAPPED = ("fget", "fset", "fdel", "func", "__func__", "__wrapped__")
"""Attributes of a property or a decorated function with what it wraps."""
WRAPPERS = (property, staticmethod, classmethod, cached_property, partial, partialmethod, MethodType)
"""Types of values that have these attributes themselves."""
USUAL = (dict, MappingProxyType, set, frozenset, list, tuple, deque)
"""Types of Python whose values only have entries."""
MOST_WRAPPED = 3
"""Maximum number of wrappers around a function that are looked into."""


def functions_of(kind: type) -> Iterator[tuple[str, FunctionType]]:
    """Yield the functions of a class by name, also those of properties and of class and static methods."""
    for name, value in vars(kind).items():
        for number, function in enumerate(unwrapped(value)):
            if inspect.isfunction(function):
                yield f"{name} {number}", function


def unwrapped(value: object, depth: int = 0) -> Iterator[object]:
    """Yield a value and what it wraps, such as the function of a cached property."""
    yield value
    for part in WRAPPED if depth < MOST_WRAPPED else ():
        # Only these types are asked: an object may raise anything when it is asked for an unknown attribute.
        inner = getattr(value, part, None) if isinstance(value, WRAPPERS) else own_attributes(value).get(part)
        if inner is not None:
            yield from unwrapped(inner, depth + 1)


def own_attributes(value: object) -> Mapping[str, object]:
    """Return the attributes that an object has itself, without running code of its class."""
    try:
        return dict(object.__getattribute__(value, "__dict__"))
    except (AttributeError, TypeError, ValueError):  # It has none, or gives this name to something else.
        return {}


def values_around(function: FunctionType) -> Iterator[object]:
    """Yield the values of the variables that a function has from the functions around it."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name != "__class__":  # Python's own variable for `super()`.
            with suppress(ValueError):  # A variable without a value.
                yield cell.cell_contents


def name_of(value: object) -> str:
    """Return the module and name of a function or class, or of a method with the name of what it is bound to."""
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
    owner = getattr(value, "__self__", None)
    if owner is None or isinstance(owner, ModuleType):
        return f"{getattr(value, '__module__', None)}.{name}"
    return f"{name_of(owner) if _has_name(owner) else name_of(type(owner))} {name}"


def name_of_callable(value: object) -> str:
    """Return the name of a compiled function or a bound method. Return an empty string for any other object."""
    return name_of(value) if callable(value) and _has_name(value) else ""


def _has_name(value: object) -> bool:
    """Return True if an object, or its type, gives it a name, as the type of functions does."""
    is_named = "__name__" in own_attributes(value) or any("__name__" in vars(kind) for kind in type(value).__mro__)
    return is_named or isinstance(value, type | MethodType)


def fields_of(value: object) -> list[tuple[str, object]] | None:
    """Return the fields of a dataclass or namespace with their names, also undeclared ones. Return None for any other
    value."""
    if isinstance(value, SimpleNamespace | Namespace):
        return sorted(own_attributes(value).items())
    if is_dataclass(value) and not isinstance(value, type):
        declared = {field.name: getattr(value, field.name, None) for field in fields(value)}
        return list({**declared, **own_attributes(value)}.items())
    return None
