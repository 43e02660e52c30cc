"""Names that a Python file imports, by its text: in statements, and in calls of ``importlib.import_module``."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

CALLED = "import_module"
"""Function of :mod:`importlib` that imports a module by its name."""


def imported_names(file: Path, name: str) -> frozenset[str]:
    """Return the names that a Python file, the module ``name``, may import as modules, and the packages around them and
    around itself. Of a name that is computed, only the packages before the computed part are known."""
    if file.suffix != ".py":
        return frozenset(_around(name))
    status = file.stat()
    return _names_in(file, name, (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))


@lru_cache(maxsize=1024)
def _names_in(file: Path, name: str, state: tuple[int, ...]) -> frozenset[str]:
    """Return :func:`imported_names` of a file in this ``state``, by which a changed file is read again."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return frozenset(_around(name))  # Python reports it when the module is imported.
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    functions = {CALLED, "__import__", *_other_names(tree)}
    names = set(_around(name))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = _absolute("." * node.level + (node.module or ""), package)
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names if base)}
        elif isinstance(node, ast.Call) and _last_name(node.func) in functions:
            names.add(_name_of_call(node, package))
    around = {outer for one in names for outer in _around(one)}
    return frozenset(filter(_can_be_a_file, names | around))


def _other_names(tree: ast.AST) -> Iterator[str]:
    """Yield the names under which a file imports :func:`importlib.import_module`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "importlib":
            yield from (alias.asname for alias in node.names if alias.name == CALLED and alias.asname)


def _last_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _name_of_call(call: ast.Call, package: str) -> str:
    """Return the module that a call imports, or "" if its name is computed."""
    values = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "name")]
    anchors = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "package")]
    written = _text_of(values[0]) if values else ""
    anchor = _text_of(anchors[0]) if anchors else ""
    return _absolute(written, anchor or package)


def _text_of(value: ast.expr) -> str:
    """Return a literal text, or the packages at the beginning of a formatted text (``f"plugins.{name}"``)."""
    if isinstance(value, ast.JoinedStr) and value.values:
        return _text_of(value.values[0]).rpartition(".")[0]
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


def _can_be_a_file(name: str) -> bool:
    return all(part and "/" not in part and "\0" not in part for part in name.split("."))


def _absolute(name: str, package: str) -> str:
    """Return a name that may begin with dots as seen from a package, or "" if it leads out of all packages."""
    if not name.startswith("."):
        return name
    try:
        return importlib.util.resolve_name(name, package).rstrip(".")
    except ImportError:
        return ""


def _around(name: str) -> Iterator[str]:
    """Yield the packages around a module."""
    parts = name.split(".")
    for count in range(1, len(parts)):
        yield ".".join(parts[:count])
