"""Functions and classes that cells of a notebook took from a file that has changed since."""

from __future__ import annotations

import inspect
import os
import sys
from functools import lru_cache
from importlib.machinery import SOURCE_SUFFIXES
from types import CodeType, FunctionType

from trainables.contract.class_texts import (
    bound_text,
    code_text,
    loaded_parts,
    module_of,
)
from trainables.contract.held_objects import functions_of, own_attributes
from trainables.contract.user_modules import file_of


def is_old_copy(one: FunctionType | type) -> bool:
    """Return True if the file of a function or class, which has been imported, does not have its code now.

    Tools that reload modules give old functions and classes the new code, so these may stay.
    """
    name = module_of(one)
    module = sys.modules.get(name)
    file = file_of(name)
    if module is None or file is None or file.suffix not in SOURCE_SUFFIXES:
        return False
    functions = [function for _, function in functions_of(one)] if isinstance(one, type) else [one]
    # Others were made by libraries, as the methods of a dataclass.
    own = os.path.realpath(file)
    written = [function for function in functions if os.path.realpath(function.__code__.co_filename) == own]
    codes = _codes_in(file.read_bytes())
    for function in written:
        scope = function.__globals__
        is_of_old_module = scope.get("__name__") == name and scope is not vars(module)
        if is_of_old_module or _text_of(function.__code__) not in codes:
            return True
    now: object = module
    for part in one.__qualname__.split("."):
        now = own_attributes(now).get(part)
    if isinstance(one, type):
        return isinstance(now, type) and now is not one and list(loaded_parts(now)) != list(loaded_parts(one))
    if not inspect.isfunction(now) or _text_of(now.__code__) != _text_of(one.__code__):
        return False  # Another function has its name, such as one around it.
    return bound_text(now) != bound_text(one)


def _text_of(code: CodeType) -> str:
    return "\n".join(code_text(code))


@lru_cache(maxsize=64)
def _codes_in(content: bytes) -> frozenset[str]:
    """Return the texts of the code of all functions in a file with a content."""
    codes = set[str]()
    inner = [compile(content, "<file>", "exec", dont_inherit=True)]
    while inner:
        code = inner.pop()
        codes.add(_text_of(code))
        inner += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return frozenset(codes)
