"""The hash of a class that was written in a notebook, or in a program without a file.

Training may fill attributes of the class and lists of cells, such as a cache. What a sweep changed stands for what was
there before, also when the sweep has ended. What cells change counts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import NamedTuple
from weakref import WeakKeyDictionary

from trainables.contract.class_texts import (
    SOURCE,
    Part,
    bound_text,
    code_parts,
    code_text,
    loaded_parts,
    module_of,
    parts_of_class,
    source_of,
)
from trainables.contract.file_hashes import DIGITS
from trainables.contract.present_code import imported_hash
from trainables.contract.used_code import used_code
from trainables.contract.user_modules import is_in_cell, is_in_users_file

CODE = re.compile(rf"file of .*|.* code|.* {SOURCE} \d+|constant .*", re.DOTALL)
"""Pattern of the keys of code and constants, which training does not change. A cell or an editor has changed them
meanwhile."""
PartsOf = Callable[[type], Iterator[Part]]
"""Yields the texts that define a class, or only those of its code."""


class _Running(NamedTuple):
    """The hashes of a class when a sweep of it began: of all texts, and of its code alone."""

    hash: str
    code: str


_running: WeakKeyDictionary[type, list[_Running]] = WeakKeyDictionary()
_before: dict[Part, str | None] = {}
"""For each text that a sweep has changed: the text before the sweep. None if there was none."""


def hash_of_class(kind: object) -> str:
    """Return the hash of a class that was written in a notebook, of its bases in the user's code, and of what it uses.

    What training itself changed does not count (:func:`attributes_may_be_filled`). Return an empty string if it is not
    a class.
    """
    if not isinstance(kind, type):
        return ""
    if running := _running.get(kind):
        first = running[0]
        return first.hash if _hash_of(_parts(kind, code_parts)) == first.code else _hash_of(_parts(kind))
    return _hash_of(_parts(kind))


@contextmanager
def attributes_may_be_filled(kind: object) -> Iterator[None]:
    """Attribute changes within the context to a sweep of a class. They do not change its hash, also later. Cells that
    run at the same time in another thread are not told apart."""
    if not isinstance(kind, type):
        yield
        return
    before = _parts(kind)
    running = _running.setdefault(kind, [])
    running.append(_Running(hash_of_class(kind), _hash_of(_parts(kind, code_parts))))
    try:
        yield
    finally:
        running.pop()
        for key, text in _parts(kind).items():
            if before.get(key) != text and not CODE.fullmatch(key):
                _before[Part(key, text)] = _text_before(key, before[key]) if key in before else None


def _text_before(key: str, text: str) -> str | None:
    return _before.get(Part(key, text), text)


def _hash_of(parts: dict[str, str]) -> str:
    texts = {key: _text_before(key, text) for key, text in parts.items()}
    content = "".join(f"{key}\0{text}\0" for key, text in sorted(texts.items()) if text is not None)
    return hashlib.sha256(content.encode()).hexdigest()[:DIGITS]


def _parts(kind: type, parts_of: PartsOf = parts_of_class) -> dict[str, str]:
    """Return the texts that define a class and what it uses, by keys that say what they are about."""
    loaded = code_parts if parts_of is code_parts else loaded_parts
    parts = dict[str, str]()
    for number, base in enumerate(kind.__mro__):
        module = module_of(base)
        # `type("Board", ...)` gives a class the module of a library.
        if is_in_cell(module) or (base is kind and not is_in_users_file(module)):
            parts |= {f"{number} {base.__qualname__} {key}": text for key, text in parts_of(base)}
        elif is_in_users_file(module):
            # Its file may have changed since it was imported, so what was imported counts, too.
            parts[f"file of {module}"] = imported_hash(module)
            parts |= {f"{number} {base.__qualname__} {key}": text for key, text in loaded(base)}
    used = used_code(kind)
    parts |= {f"file of {name}": text for name, text in used.hashes.items()}
    parts |= {f"file of {name}": imported_hash(name) for name in used.modules}
    for name, one in used.cells.items():
        parts |= {f"cell {name} {key}": text for key, text in _parts_of_used(one, parts_of)}
    for name, one in used.taken.items():
        parts |= {f"taken {name} {key}": text for key, text in _parts_of_used(one, loaded)}
    parts |= {f"constant {name}": text for name, text in used.constants.items()}
    if parts_of is not code_parts:
        parts |= {f"value {name}": text for name, text in used.values.items()}
    return parts


def _parts_of_used(one: FunctionType | type, parts_of: PartsOf) -> Iterator[Part]:
    if isinstance(one, type):
        yield from parts_of(one)
    elif parts_of is code_parts:
        yield Part("code", " ".join(code_text(one.__code__)))
    else:
        yield Part("code", "\n".join(source_of(one)))
        yield Part("values", bound_text(one))
