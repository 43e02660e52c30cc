"""Settings that a Python text reads by a literal name: ``json.load(open(HERE / "config.json"))``.

A text may also write the file, and a change of it would then stop the sweep that wrote it. So a name counts only if
calls that read get it (:data:`READS`, or ``open`` without a mode for writing). If any other call gets a file of that
name, it may write the file. Calls that make, check or show paths (:data:`MAKES_PATHS`, :data:`CHANGES_NO_FILE`) do
neither.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from posixpath import basename, normpath
from typing import NamedTuple

from trainables.contract.expressions import last_name, texts_in, tree_of, values_of_names
from trainables.script.program_text import SETTINGS_SUFFIXES

READS = re.compile(
    r"open|(full_|safe_|unsafe_)?(load|read|parse)\w*|dotenv_values|from_(file|json|toml|yaml|pretrained)\w*|fromfile"
    r"|get_(config|data|settings)|(merge_from|evaluate)_\w*|Dynaconf"
)
"""Pattern of functions that read a file."""
OF_PACKAGE = frozenset({"get_data", "open_binary", "open_text", "read_binary", "read_text"})
"""Functions of :mod:`pkgutil` and :mod:`importlib.resources` that get a package and the name of a file in it."""
MAKES_PATHS = frozenset(
    {
        *("Path", "PosixPath", "PurePath", "absolute", "abspath", "expanduser", "fspath", "join", "joinpath"),
        *("format", "get", "getenv", "realpath", "relative_to", "resolve", "str", "with_name"),
    }
)
"""Functions that make a path."""
CHANGES_NO_FILE = re.compile(
    r"endswith|exists|getmtime|getsize|is_?file|len|startswith|stat"  # They check a path.
    r"|\w*(Error|Exception|Exit|Warning)|add_note|exit|print|repr|warn"  # They show it.
    r"|critical|debug|error|exception|info|log|warning"
)
"""Pattern of functions that get a path and leave its file as it is."""
READ_MODE = re.compile("[rbtU]*")
"""Pattern of a mode of ``open`` that only reads."""
NAME = re.compile(b"|".join(re.escape(suffix.encode()) for suffix in SETTINGS_SUFFIXES), re.IGNORECASE)
"""Pattern in every text that names settings."""


class NamedSettings(NamedTuple):
    """Settings that a Python text names.

    Attributes:
        read: Paths of the files that it reads.
        written: Names, without folders, of the files that it may write.
    """

    read: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()


def named_settings(content: bytes) -> NamedSettings:
    """Return the settings that a Python text names. Return none for another text."""
    return _named_in(content) if NAME.search(content) else NamedSettings()


@lru_cache(maxsize=256)
def _named_in(content: bytes) -> NamedSettings:
    if (tree := tree_of(content)) is None:
        return NamedSettings()
    known = {name: value for name, value in values_of_names(tree).items() if not _is_content(value)}
    read: set[str] = set()
    written: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _uses_file(function := last_name(node.func)):
            paths = set(_paths_given(node, known))
            if READS.fullmatch(function) and (function != "open" or _opens_to_read(node, known)):
                read |= paths
            else:
                written.update(map(basename, paths))
    return NamedSettings(frozenset(path for path in read if basename(path) not in written), frozenset(written))


def _uses_file(function: str) -> bool:
    """Return True for a function that may read or write the file of a path that it gets."""
    return function not in MAKES_PATHS and CHANGES_NO_FILE.fullmatch(function) is None


def _is_content(value: ast.AST) -> bool:
    """Return True for an expression with the content of a file."""
    return any(isinstance(node, ast.Call) and READS.fullmatch(last_name(node.func)) for node in ast.walk(value))


def _paths_given(call: ast.Call, known: Mapping[str, ast.expr]) -> Iterator[str]:
    """Yield the paths of settings that a call gets, also as the object of a method."""
    owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    for value in (*owner, *call.args, *(keyword.value for keyword in call.keywords)):
        for one in value.elts if isinstance(value, ast.List | ast.Tuple) else [value]:
            if not _is_content(one):
                yield from _path_of(one, known)
    if last_name(call.func) in OF_PACKAGE and len(call.args) > 1:
        package = "/".join(texts_in(call.args[0], dict(known))).replace(".", "/")
        yield from (f"{package}/{path}" for path in _path_of(call.args[1], known) if package)


def _path_of(value: ast.expr, known: Mapping[str, ast.expr]) -> list[str]:
    """Return a list with the path that an expression stands for, or an empty list if it is none of settings."""
    path = normpath("/".join(texts_in(value, dict(known))))
    return [path] if path.lower().endswith(SETTINGS_SUFFIXES) and "\0" not in path else []


def _opens_to_read(call: ast.Call, known: Mapping[str, ast.expr]) -> bool:
    """Return True if a call of ``open`` only reads. ``Path(...).open`` has its mode first."""
    is_method = isinstance(call.func, ast.Attribute) and bool(_path_of(call.func.value, known))
    position = 0 if is_method else 1
    modes = [*call.args[position : position + 1], *(word.value for word in call.keywords if word.arg == "mode")]
    return all(
        isinstance(mode, ast.Constant) and isinstance(mode.value, str) and READ_MODE.fullmatch(mode.value) is not None
        for mode in modes
    )
