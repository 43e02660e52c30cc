"""The hash of a class that was written in a notebook, or in a program without a file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import NamedTuple
from weakref import WeakKeyDictionary

from trainables.contract.class_texts import (
    bound_text,
    code_parts,
    code_text,
    loaded_parts,
    module_of,
    parts_of_class,
    source_of,
    value_text,
)
from trainables.contract.file_hashes import DIGITS
from trainables.contract.present_code import imported_hash
from trainables.contract.used_code import used_code
from trainables.contract.user_modules import is_in_cell, is_in_users_file


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
        return filled.hash if _hash_of(kind, code_parts) == filled.code else _hash_of(kind, parts_of_class)
    now = _hash_of(kind, parts_of_class)
    return filled.hash if filled is not None and now == filled.after else now


@contextmanager
def attributes_may_be_filled(kind: object) -> Iterator[None]:
    """Attribute changes of the attributes of a class within the context to a sweep of it. They do not change its hash,
    also later. Cells that run at the same time in another thread are not told apart."""
    if not isinstance(kind, type):
        yield
        return
    before = _Filled(hash_of_class(kind), _hash_of(kind, code_parts))
    _filled[kind] = before
    try:
        yield
    finally:
        _filled[kind] = before._replace(after=_hash_of(kind, parts_of_class))


def _hash_of(kind: type, parts_of: Callable[[type], Iterator[str]]) -> str:
    digest = hashlib.sha256()
    for base in kind.__mro__:
        module = module_of(base)
        if is_in_cell(module):
            digest.update("\0".join(parts_of(base)).encode() + b"\0")
        elif is_in_users_file(module):
            # Its file may have changed since it was imported, so what was imported counts, too.
            digest.update(imported_hash(module).encode() + b"\0")
            loaded = code_parts if parts_of is code_parts else loaded_parts
            digest.update("\0".join(loaded(base)).encode() + b"\0")
    digest.update("".join(f"{part}\0" for part in _used_parts(kind, parts_of)).encode())
    return digest.hexdigest()[:DIGITS]


def _used_parts(kind: type, parts_of: Callable[[type], Iterator[str]]) -> Iterator[str]:
    """Yield the texts of what a class uses. Values count only if those of the class do."""
    used = used_code(kind)
    hashes = {**used.hashes, **{name: imported_hash(name) for name in used.modules}}
    yield from (f"{name} {hashes[name]}" for name in sorted(hashes))
    loaded = code_parts if parts_of is code_parts else loaded_parts
    # The file of what cells took from it may have changed since, so what they hold counts, too.
    taken = [(f"{module_of(one)}.{one.__qualname__}", one, loaded) for one in used.taken]
    yield from sorted(
        f"{name}: {' '.join(parts(one)) if isinstance(one, type) else _function_text(one, parts)}"
        for name, one, parts in (*taken, *((name, one, parts_of) for name, one in used.cells))
    )
    if parts_of is not code_parts:
        yield from sorted(f"{name} = {value_text(value)}" for name, value in used.values)


def _function_text(function: FunctionType, parts_of: Callable[[type], Iterator[str]]) -> str:
    if parts_of is code_parts:
        return " ".join(code_text(function.__code__))
    return f"{source_of(function)} {bound_text(function)}"
