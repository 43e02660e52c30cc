"""Texts that define functions, classes and values in memory: equal texts in two processes mean equal code."""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import os
import re
import reprlib
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial, partialmethod
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodDescriptorType,
    MethodType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple

import numpy as np

from trainables.contract.held_objects import (
    USUAL,
    fields_of,
    functions_of,
    name_of,
    name_of_callable,
    unwrapped,
    values_around,
)
from trainables.contract.user_modules import is_in_cell

PLAIN = (bool, int, float, complex, str, bytes, type(None))
"""Types of values whose text is their value."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
"""Types of nodes that make functions."""
BUILT_IN = (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, np.ufunc)
"""Types of compiled functions. Their texts have addresses, so they count by their names."""
MOST_BYTES = 1 << 20
"""Maximum number of bytes of an array that count one by one."""
MOST_DEPTH = 50
"""Maximum number of values in each other that count."""
LONGEST_TEXT = 200
"""Maximum number of characters of the text of a value in another value. A longer one is a hash."""
LARGEST_DECIMAL = 10**4000
"""Python prints only integers of at most 4,300 decimal digits."""
SAFE = reprlib.Repr()
"""Prints objects of any library, also those whose ``repr`` raises."""
SAFE.maxother = sys.maxsize
FIELDS = ("__pydantic_fields__",)
"""Special attributes that hold what a class declares."""
SOURCE = "text of source"
"""Beginning of the keys of a class's source."""
BASES = "code of bases"
"""Key of the names of a class's bases."""
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
    """Yield the texts of the functions and bases of a class, without values that they or the class hold."""
    yield _bases_of(kind)
    for name, function in sorted(functions_of(kind)):
        yield Part(name, " ".join(code_text(function.__code__)))


def parts_of_class(kind: type, memo: Memo | None = None) -> Iterator[Part]:
    """Yield the texts that define a class: the statements that made its functions, and what it holds now.

    Functions are those that the class has now, which may not be those of its source.
    """
    yield _bases_of(kind)
    functions = dict(functions_of(kind))
    sources = {name: source_of(function) for name, function in sorted(functions.items())}
    for number, statement in enumerate(dict.fromkeys(sources[name].statement for name in functions)):
        yield Part(f"{SOURCE} {number}", statement)
    for name, source in sources.items():
        yield Part(f"{name} code", source.place)
        yield Part(name, bound_text(functions[name], memo))
    yield from _attributes_of(kind, memo)


def loaded_parts(kind: type) -> Iterator[Part]:
    """Yield the texts that define a class as it was imported. Its file may have changed since."""
    yield _bases_of(kind)
    for name, function in sorted(functions_of(kind)):
        yield Part(name, value_text(function))
    yield from _attributes_of(kind)


def _bases_of(kind: type) -> Part:
    return Part(BASES, " ".join(map(name_of, kind.__bases__)))


def _attributes_of(kind: type, memo: Memo | None = None) -> Iterator[Part]:
    for name, value in sorted(vars(kind).items()):
        counts = (name in FIELDS or not is_special(name)) and not inspect.isfunction(value)
        if counts and (text := value_text(value, memo)):
            yield Part(f"{name} =", text)


def is_special(name: str) -> bool:
    """Return True for the name of an attribute that Python defines, such as ``__doc__``."""
    return name.startswith("__") and name.endswith("__")


class Source(NamedTuple):
    """The statement of a cell that made a function, such as a class or a dict with lambdas, and its place in it."""

    statement: str
    place: str


def source_of(function: FunctionType) -> Source:
    """Return the source of a function.

    If the cell is unknown, or is a file that may have changed since the function was imported, the statement is the
    function's compiled code as text.
    """
    code = function.__code__
    compiled = "\n".join(code_text(code))
    if code.co_filename not in linecache.cache or os.path.isfile(code.co_filename):
        return Source(compiled, "")
    lines = linecache.getlines(code.co_filename)
    around = [one for one in _statements_of("".join(lines)) if one.first <= code.co_firstlineno <= one.last]
    if not around:
        return Source(compiled, "")
    first, last = around[0].first, around[-1].last
    begun = sum(one.functions[code.co_firstlineno, code.co_name] for one in around)
    # Of several lambdas in a line, the compiled code tells which one it is.
    place = f"{code.co_firstlineno - first} {code.co_name} {compiled if begun != 1 else ''}".rstrip()
    return Source("".join(lines[first - 1 : last]).rstrip(), place)


class _Statement(NamedTuple):
    """The first and last line of a statement, from 1, and how many functions of each name begin at each line."""

    first: int
    last: int
    functions: Mapping[tuple[int, str], int]


@lru_cache(maxsize=256)
def _statements_of(cell: str) -> tuple[_Statement, ...]:
    """Return the statements of a cell. Return none if it is not Python."""
    try:
        body = ast.parse(cell).body
    except (SyntaxError, ValueError, RecursionError):
        return ()
    statements = list[_Statement]()
    for node in body:
        made = [one for one in ast.walk(node) if isinstance(one, FUNCTIONS)]
        functions = Counter((_first_line(one), getattr(one, "name", "<lambda>")) for one in made)
        statements.append(_Statement(_first_line(node), node.end_lineno or node.lineno, functions))
    return tuple(statements)


def _first_line(node: ast.stmt | ast.Lambda) -> int:
    """Return the first line of a node, or that of its first decorator."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def bound_text(function: FunctionType, memo: Memo | None = None) -> str:
    """Return the values that a function holds: its defaults, and variables of the functions around it."""
    return value_text([function.__defaults__, function.__kwdefaults__, *values_around(function)], memo)


def code_text(code: CodeType) -> Iterator[str]:
    """Yield the texts that define compiled code and the functions in it."""
    variables = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    parameters = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    yield f"{code.co_code.hex()} {code.co_exceptiontable.hex()} {variables} {parameters}"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from code_text(constant)
        else:
            yield value_text(constant)


class Memo:
    """The texts of values that contain each other. Each value is printed once, and may contain itself."""

    def __init__(self) -> None:
        self._depths: dict[int, int] = {}
        """How many values contain a value that is being printed, by its identity."""
        self._texts: dict[int, str] = {}
        self._printed: list[object] = []
        """Values, so that no other value gets the identity of one of them."""
        self._lowest = 0
        """The lowest depth of a value that a value below it contains again."""
        self._rings = 0

    def text_of(self, value: object) -> str:
        """Return a value as text, by a hash if it is long."""
        identity = id(value)
        depth = len(self._depths)
        if identity in self._depths:
            self._lowest = min(self._lowest, self._depths[identity])
            return f"... {depth - self._depths[identity]}"
        if identity in self._texts:
            return self._texts[identity]
        if depth == MOST_DEPTH:
            return "..."
        lowest, self._lowest = self._lowest, depth
        self._depths[identity] = depth
        self._printed.append(value)
        text = _text_of(value, self)
        if len(text) > LONGEST_TEXT:
            text = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
        del self._depths[identity]
        if self._lowest < depth:  # It contains a value that contains it, so its text depends on the way to it.
            self._rings += 1
            self._texts[identity] = f"ring {self._rings}"
        else:
            self._texts[identity] = text
        self._lowest = min(lowest, self._lowest)
        return text


def value_text(value: object, memo: Memo | None = None) -> str:
    """Return a value as text. An object whose text would differ between processes counts by its class, if that is in a
    cell, and by functions that it wraps. For any other, return an empty string."""
    if isinstance(value, int) and abs(value) >= LARGEST_DECIMAL:  # Python does not print it.
        return hex(value)
    if isinstance(value, PLAIN):
        return repr(value)
    return (memo or Memo()).text_of(value)


def _text_of(value: object, memo: Memo) -> str:
    text_of = partial(value_text, memo=memo)
    if inspect.isfunction(value):
        return f"{' '.join(code_text(value.__code__))} {bound_text(value, memo)}"
    if isinstance(value, partialmethod | partial):
        return f"partial {text_of([value.func, value.args, value.keywords])}"
    own = "" if type(value) in USUAL else f"{text_of(type(value))} "
    if isinstance(value, set | frozenset):
        return f"{own}{{{', '.join(sorted(map(text_of, value)))}}}"
    if isinstance(value, tuple | list | deque):
        return f"{own}({', '.join(map(text_of, value))})"
    if isinstance(value, dict | MappingProxyType):
        default = f" {text_of(value.default_factory)}" if isinstance(value, defaultdict) else ""
        return f"{own}{{{', '.join(f'{text_of(key)}: {text_of(entry)}' for key, entry in value.items())}}}{default}"
    if isinstance(value, BUILT_IN):
        return name_of(value)
    if (entries := fields_of(value)) is not None:
        return f"{own}{text_of(entries)}"
    if isinstance(value, np.ndarray):
        content = text_of(value.tolist()) if value.dtype.hasobject else _bytes_text(value.tobytes())
        return f"{value.dtype} {value.shape} {content}"
    if isinstance(value, type) and is_in_cell(module_of(value)):
        kinds = [kind for kind in value.__mro__ if kind.__module__ == value.__module__]
        parts = [part for kind in kinds for part in parts_of_class(kind, memo)]
        return f"class {' '.join(f'{key} {text}' for key, text in parts)} {text_of(type(value))}"
    # An object that raises when it is printed counts as one with an address only.
    text = _tensor_text(value) or SAFE.repr_instance(value, 1)
    if not ADDRESS.search(text):
        return text
    wrapped = [text_of(part) for part in unwrapped(value) if inspect.isfunction(part)]
    owner = [text_of(value.__self__)] if isinstance(value, MethodType) else []
    kind = [text_of(type(value))] if is_in_cell(module_of(type(value))) else []
    return " ".join([name_of_callable(value), *wrapped, *owner, *kind]).strip()


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
