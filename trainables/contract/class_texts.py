"""Texts that define functions, classes and values in memory: equal texts in two processes mean equal code."""

from __future__ import annotations

import ast
import hashlib
import inspect
import os
import re
import reprlib
import sys
from argparse import Namespace
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cached_property, partial, partialmethod
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodDescriptorType,
    MethodType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple

import numpy as np

from trainables.contract.user_modules import is_in_cell

PLAIN = (bool, int, float, complex, str, bytes, type(None))
"""Types of values whose text is their value."""
WRAPPED = ("fget", "fset", "fdel", "func", "__func__", "__wrapped__")
"""Attributes of a property or a decorated function with what it wraps."""
WRAPPERS = (property, staticmethod, classmethod, cached_property, partial, partialmethod, MethodType)
"""Types of values that have these attributes themselves."""
BUILT_IN = (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, np.ufunc)
"""Types of compiled functions. Their texts have addresses, so they count by their names."""
MOST_BYTES = 1 << 20
"""Maximum number of bytes of an array that count one by one."""
SAFE = reprlib.Repr()
"""Prints objects of any library, also those whose ``repr`` raises."""
SAFE.maxother = sys.maxsize
FIELDS = ("__pydantic_fields__",)
"""Special attributes that hold what a class declares."""
SOURCE = "text of source"
"""Beginning of the keys of a class's source."""
MOST_WRAPPED = 3
"""Maximum number of wrappers around a function that are looked into."""
ADDRESS = re.compile(r"\bat 0x[0-9a-f]+")
"""Pattern of an address in memory, in the text of an object that has no text of its own."""


class Part(NamedTuple):
    """A text with a key that says what it is about, such as a function's name."""

    key: str
    text: str


def module_of(one: FunctionType | type) -> str:
    """Return the module of a function or class, or an empty string if it has none, as after ``exec``."""
    name = one.__module__
    return name if isinstance(name, str) else ""


def code_parts(kind: type) -> Iterator[Part]:
    """Yield the texts of the functions of a class, without values that they or the class hold."""
    for name, function in sorted(functions_of(kind)):
        yield Part(name, " ".join(code_text(function.__code__)))


def parts_of_class(kind: type, around: tuple[int, ...] = ()) -> Iterator[Part]:
    """Yield the texts that define a class: the source of each function, the source around it, and what it holds now.

    Functions are those that the class has now, which may not be those of its source. For ``around``, see
    :func:`value_text`.
    """
    functions = dict(functions_of(kind))
    texts = [source_of(function) for function in functions.values()]
    texts += filter(None, map(partial(_source_around, kind), functions.values()))
    for number, text in enumerate(dict.fromkeys(texts)):
        yield Part(f"{SOURCE} {number}", text)
    for name, function in sorted(functions.items()):
        yield Part(name, bound_text(function, around))
    yield from _attributes_of(kind, around)


def loaded_parts(kind: type) -> Iterator[Part]:
    """Yield the texts that define a class as it was imported. Its file may have changed since."""
    for name, function in sorted(functions_of(kind)):
        yield Part(name, value_text(function))
    yield from _attributes_of(kind)


def _attributes_of(kind: type, around: tuple[int, ...] = ()) -> Iterator[Part]:
    for name, value in sorted(vars(kind).items()):
        is_special = name.startswith("__") and name.endswith("__") and name not in FIELDS
        if not is_special and not inspect.isfunction(value) and (text := value_text(value, around)):
            yield Part(f"{name} =", text)


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


def source_of(function: FunctionType) -> str:
    """Return the source of a function. If it is unknown, or in a file that may have changed since the function was
    imported, return its compiled code as text."""
    try:
        if os.path.isfile(function.__code__.co_filename):
            return "\n".join(code_text(function.__code__))
        return inspect.getsource(function)
    except (OSError, TypeError):
        return "\n".join(code_text(function.__code__))


def bound_text(function: FunctionType, around: tuple[int, ...] = ()) -> str:
    """Return the values that a function holds: its defaults, and variables of the functions around it."""
    return value_text([function.__defaults__, function.__kwdefaults__, *values_around(function)], around)


def values_around(function: FunctionType) -> Iterator[object]:
    """Yield the values of the variables that a function has from the functions around it."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name != "__class__":  # Python's own variable for `super()`.
            with suppress(ValueError):  # A variable without a value.
                yield cell.cell_contents


def code_text(code: CodeType) -> Iterator[str]:
    """Yield the texts that define compiled code and the functions in it."""
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames}"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from code_text(constant)
        else:
            yield value_text(constant)


def value_text(value: object, around: tuple[int, ...] = ()) -> str:
    """Return a value as text. Return an empty string for an object whose text would differ between processes.

    ``around`` are the identities of the values that contain it, because a function or list can contain itself.
    """
    if isinstance(value, PLAIN):
        return repr(value)
    if id(value) in around:
        return "..."
    text_of = partial(value_text, around=(*around, id(value)))
    if inspect.isfunction(value):
        return f"{' '.join(code_text(value.__code__))} {bound_text(value, (*around, id(value)))}"
    if isinstance(value, partialmethod | partial):
        return f"partial {text_of([value.func, value.args, value.keywords])}"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(text_of, value)))}}}"
    if isinstance(value, tuple | list | deque):
        return f"({', '.join(map(text_of, value))})"
    if isinstance(value, dict | MappingProxyType):
        return f"{{{', '.join(f'{text_of(key)}: {text_of(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, BUILT_IN):
        return name_of(value)
    if (entries := fields_of(value)) is not None:
        return f"{name_of(type(value))} {text_of(entries)}"
    if isinstance(value, np.ndarray):
        content = text_of(value.tolist()) if value.dtype.hasobject else _bytes_text(value.tobytes())
        return f"{value.dtype} {value.shape} {content}"
    if isinstance(value, type) and is_in_cell(module_of(value)):
        own = [kind for kind in value.__mro__ if kind.__module__ == value.__module__]
        parts = [part for kind in own for part in parts_of_class(kind, (*around, id(value)))]
        return f"class {' '.join(f'{key} {text}' for key, text in parts)}"
    # An object that raises when it is printed counts as one with an address only.
    text = _tensor_text(value) or SAFE.repr_instance(value, 1)
    return "" if ADDRESS.search(text) else text


def name_of(value: object) -> str:
    """Return the module and name of a function or class."""
    owner = getattr(value, "__module__", None) or type(getattr(value, "__self__", None)).__name__
    return f"{owner}.{getattr(value, '__qualname__', None) or getattr(value, '__name__', '')}"


def fields_of(value: object) -> list[tuple[str, object]] | None:
    """Return the fields of a dataclass or namespace with their names, or None for any other value."""
    if isinstance(value, SimpleNamespace | Namespace):
        return sorted(own_attributes(value).items())
    if is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name, None)) for field in fields(value)]
    return None


def _bytes_text(content: bytes) -> str:
    """Return bytes as text, by a hash if they are many."""
    return content.hex() if len(content) <= MOST_BYTES else hashlib.sha256(content).hexdigest()


def _tensor_text(value: Any) -> str:
    """Return a tensor as text, because its ``repr`` rounds its values. Return an empty string for another object, for a
    tensor on the device ``meta``, which has no values, and for tensors of classes of other libraries."""
    torch = sys.modules.get("torch")  # Not imported, because a class without tensors does not need it.
    if torch is None or not isinstance(value, torch.Tensor) or value.is_meta:
        return ""
    if value.is_nested:
        return f"nested {' '.join(map(_tensor_text, value.unbind()))}"
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        return ""
    value = value.detach().cpu()
    if value.is_quantized:
        value = value.dequantize()
    if value.layout is torch.strided:
        plain = value.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
        content = _bytes_text(plain.numpy().tobytes())
    elif value.is_mkldnn:
        content = _tensor_text(value.to_dense())
    else:
        entries = value.to_sparse_coo().coalesce()
        content = f"{_tensor_text(entries.indices())} {_tensor_text(entries.values())}"
    return f"{value.dtype} {value.layout} {tuple(value.shape)} {content}"


def _source_around(kind: type, method: FunctionType) -> str:
    """Return the source of a class around one of its methods. Return an empty string if the source is unknown or the
    method is from elsewhere.

    The standard library finds the source of a class only in the file of a module, so search around a method.
    """
    try:
        lines, row = inspect.findsource(method)
        tree = ast.parse("".join(lines))
    except (OSError, TypeError, SyntaxError):
        return ""
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
    for node in classes:
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        if first <= row < (node.end_lineno or 0):
            return "".join(lines[first - 1 : node.end_lineno])
    return ""
