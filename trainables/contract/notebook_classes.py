"""The hash of a class that was written in a notebook, or in a program without a file."""

from __future__ import annotations

import ast
import hashlib
import inspect
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial, partialmethod
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from trainables.contract.file_hashes import DIGITS
from trainables.contract.finder import is_installed, is_outside, top_name
from trainables.contract.present_code import imported_hash
from trainables.contract.user_modules import file_of, folder_of

PLAIN = (bool, int, float, complex, str, bytes, type(None))
"""Types of values whose text is their value."""
WRAPPED = ("fget", "fset", "fdel", "func", "__func__", "__wrapped__")
"""Attributes of a property or a decorated function with what it wraps."""
MOST_WRAPPED = 3
"""Maximum number of wrappers around a function that are looked into."""
ADDRESS = re.compile(r"\bat 0x[0-9a-f]+")
"""Pattern of an address in memory, in the text of an object that has no text of its own."""


class _Filled(NamedTuple):
    """A class whose attributes training may fill, such as a cache.

    Attributes:
        hash: Its hash before training.
        code: The hash of its functions alone.
        after: Its hash when the last sweep of it ended. Empty while a sweep of it runs.
    """

    hash: str
    code: str
    after: str = ""


_filled: WeakKeyDictionary[type, _Filled] = WeakKeyDictionary()


def hash_of_class(kind: object) -> str:
    """Return the hash of a class that was written in a notebook, and of its bases in the user's code.

    What training itself changed in the attributes of the class does not count (:func:`attributes_may_be_filled`).
    Return an empty string if it is not a class.
    """
    if not isinstance(kind, type):
        return ""
    filled = _filled.get(kind)
    if filled is not None and not filled.after:
        return filled.hash if _hash_of(kind, _code_parts) == filled.code else _hash_of(kind, _parts_of_class)
    now = _hash_of(kind, _parts_of_class)
    return filled.hash if filled is not None and now == filled.after else now


@contextmanager
def attributes_may_be_filled(kind: object) -> Iterator[None]:
    """Attribute changes of the attributes of a class within the context to a sweep of it. They do not change its hash,
    also later. Cells that run at the same time in another thread are not told apart."""
    if not isinstance(kind, type):
        yield
        return
    before = _Filled(hash_of_class(kind), _hash_of(kind, _code_parts))
    _filled[kind] = before
    try:
        yield
    finally:
        _filled[kind] = before._replace(after=_hash_of(kind, _parts_of_class))


def _hash_of(kind: type, parts_of: Callable[[type], Iterator[str]]) -> str:
    digest = hashlib.sha256()
    for base in kind.__mro__:
        module = base.__module__
        if not is_outside(module) or top_name(module) in sys.stdlib_module_names:
            continue
        if file_of(module) is None:
            digest.update("\0".join(parts_of(base)).encode() + b"\0")
        elif not is_installed(Path(folder_of(module))):
            # Its file may have changed since it was imported, so what was imported counts, too.
            digest.update(imported_hash(module).encode() + b"\0")
            loaded = _code_parts if parts_of is _code_parts else _loaded_parts
            digest.update("\0".join(loaded(base)).encode() + b"\0")
    return digest.hexdigest()[:DIGITS]


def _code_parts(kind: type) -> Iterator[str]:
    """Yield the texts of the functions of a class, without values that they or the class hold."""
    for name, function in sorted(_functions_of(kind)):
        yield f"{name}: {' '.join(_code_text(function.__code__))}"


def _parts_of_class(kind: type, around: tuple[int, ...] = ()) -> Iterator[str]:
    """Yield the texts that define a class: the source of each function, the source around it, and what it holds now.

    Functions are those that the class has now, which may not be those of its source. For ``around``, see
    :func:`_value_text`.
    """
    functions = dict(_functions_of(kind))
    texts = [_source_of(function) for function in functions.values()]
    texts += filter(None, map(partial(_source_around, kind), functions.values()))
    yield from dict.fromkeys(texts)
    for name, function in sorted(functions.items()):
        yield f"{name}: {_bound_text(function, around)}"
    yield from _attributes_of(kind, around)


def _loaded_parts(kind: type) -> Iterator[str]:
    """Yield the texts that define a class as it was imported. Its file may have changed since."""
    for name, function in sorted(_functions_of(kind)):
        yield f"{name}: {_value_text(function)}"
    yield from _attributes_of(kind)


def _attributes_of(kind: type, around: tuple[int, ...] = ()) -> Iterator[str]:
    for name, value in sorted(vars(kind).items()):
        is_special = name.startswith("__") and name.endswith("__")
        if not is_special and not inspect.isfunction(value) and (text := _value_text(value, around)):
            yield f"{name} = {text}"


def _functions_of(kind: type) -> Iterator[tuple[str, FunctionType]]:
    """Yield the functions of a class by name, also those of properties and of class and static methods."""
    for name, value in vars(kind).items():
        for number, function in enumerate(_unwrapped(value)):
            if inspect.isfunction(function):
                yield f"{name} {number}", function


def _unwrapped(value: object, depth: int = 0) -> Iterator[object]:
    """Yield a value and what it wraps, such as the function of a cached property."""
    yield value
    for part in WRAPPED if depth < MOST_WRAPPED else ():
        if (inner := getattr(value, part, None)) is not None:
            yield from _unwrapped(inner, depth + 1)


def _source_of(function: FunctionType) -> str:
    """Return the source of a function. If it is unknown, or in a file that may have changed since the function was
    imported, return its compiled code as text."""
    try:
        if os.path.isfile(function.__code__.co_filename):
            return "\n".join(_code_text(function.__code__))
        return inspect.getsource(function)
    except (OSError, TypeError):
        return "\n".join(_code_text(function.__code__))


def _bound_text(function: FunctionType, around: tuple[int, ...] = ()) -> str:
    """Return the values that a function holds: its defaults, and variables of the functions around it."""
    values: list[object] = [function.__defaults__, function.__kwdefaults__]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # A variable without a value.
            values.append(cell.cell_contents)
    return _value_text([value for value in values if not isinstance(value, type)], around)


def _code_text(code: CodeType) -> Iterator[str]:
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames}"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_text(constant)
        else:
            yield _value_text(constant)


def _value_text(value: object, around: tuple[int, ...] = ()) -> str:
    """Return a value as text. Return an empty string for an object whose text would differ between processes.

    ``around`` are the identities of the values that contain it, because a function or list can contain itself.
    """
    if isinstance(value, PLAIN):
        return repr(value)
    if id(value) in around:
        return "..."
    text_of = partial(_value_text, around=(*around, id(value)))
    if inspect.isfunction(value):
        return f"{' '.join(_code_text(value.__code__))} {_bound_text(value, (*around, id(value)))}"
    if isinstance(value, partialmethod | partial):
        return f"partial {text_of([value.func, value.args, value.keywords])}"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(text_of, value)))}}}"
    if isinstance(value, tuple | list | deque):
        return f"({', '.join(map(text_of, value))})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{text_of(key)}: {text_of(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, np.ndarray):
        content = text_of(value.tolist()) if value.dtype.hasobject else value.tobytes().hex()
        return f"{value.dtype} {value.shape} {content}"
    if isinstance(value, type) and is_outside(value.__module__) and file_of(value.__module__) is None:
        own = [kind for kind in value.__mro__ if kind.__module__ == value.__module__]
        return f"class {' '.join(part for kind in own for part in _parts_of_class(kind, (*around, id(value))))}"
    text = _tensor_text(value) or repr(value)
    return "" if ADDRESS.search(text) else text


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
        content = plain.numpy().tobytes().hex()
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
