"""Names that a Python file imports, and folders that it adds to Python's search path, found by reading its text."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from posixpath import normpath
from typing import NamedTuple

from trainables.contract.expressions import assignments, last_name, texts_in, values_of_names

IMPORTING = frozenset({"import_module", "__import__", "resolve_name", "run_module"})
"""Functions of :mod:`importlib`, :mod:`pkgutil` and :mod:`runpy` that import a module by its name."""
NAMES_OF_CALL = ("name", "mod_name")
"""Parameters of these functions for the name."""
DOTTED = re.compile(r"\.*[^\W\d]\w*([.:][^\W\d]\w*)+|\.+[^\W\d]\w*")
"""Pattern of a text that could be the name of a module in a package, or of a function or class in it."""
MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
"""Pattern of the absolute name of a module."""
FROM_A_FILE = {"spec_from_file_location": 1, "SourceFileLoader": 1, "load_source": 1, "run_path": 0}
"""Functions that import a file by its path, with the position of the path."""
ADDS_FOLDER = frozenset({"addsitedir"})
"""Functions that add a folder to Python's search path."""
ADDING = frozenset({"append", "extend", "insert"})
"""Methods that add to a list."""
LONGEST_NAME = 240
"""Maximum number of characters of the name of a module, which its file has with a suffix."""
EXPORTS = "__all__"
"""Name of the list of a package's modules that ``from package import *`` imports."""


IMPORT_STATEMENT = re.compile(rb"^[ \t]*((?:from\s+[\w.]+\s+)?import\s+(?:\([^)]*\)|[^\n;]+))", re.MULTILINE)
"""Pattern of an import statement in a program that cannot be parsed."""


class Imports(NamedTuple):
    """Possible imports of a Python file.

    Attributes:
        names: Modules, and the packages around them.
        folders: Folders that the file adds to Python's search path, or from which it imports a file. They are relative
            to the file's folder or to a folder above it.
        packages: Packages from which the file imports modules whose names it computes.
        texts: Texts that could be the name of a module in a package, or of a function in it. Any library can import
            by such a name (``pydoc.locate``, Hydra).
    """

    names: frozenset[str]
    folders: frozenset[str] = frozenset()
    packages: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()


def imports_of(file: Path, name: str) -> Imports:
    """Return the possible imports of a Python file, which is the module ``name``.

    They include the packages around the module. If a name is computed, only the packages before the computed part are
    known. A compiled file, or one that is not Python, has no others.
    """
    if file.name.endswith(tuple(EXTENSION_SUFFIXES)):
        return Imports(frozenset(_around(name)))
    status = file.stat()
    return _imports_in(file, name, (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))


@lru_cache(maxsize=1024)
def _imports_in(file: Path, name: str, state: tuple[int, ...]) -> Imports:
    """Return the possible imports of a file. ``state`` changes with the file, so a changed file is read again."""
    try:
        tree = _parsed(file.read_bytes())
    except (SyntaxError, ValueError):
        return Imports(frozenset(_around(name)))  # Python reports it when the module is imported.
    is_package = file.name == "__init__.py"
    own = {"__name__": name, "__package__": name if is_package else name.rpartition(".")[0]}
    paths = set(_imported_paths(tree))
    names = {*_around(name), *_names_in_statements(tree, own), *(Path(path).stem for path in paths)}
    if is_package:
        names |= {f"{name}.{listed}" for listed in _listed(tree)}
    around = {outer for inner in names for outer in _around(inner)}
    folders = {*_added_folders(tree), *(path.rpartition("/")[0] for path in paths)}
    return Imports(
        frozenset(filter(_can_be_a_file, names | around)),
        frozenset(folders),
        frozenset(filter(_can_be_a_file, _packages_of_computed_names(tree, own))),
        frozenset(filter(_can_be_a_file, _texts_like_names(tree, own))),
    )


def required_names(file: Path) -> frozenset[str]:
    """Return the outermost packages and modules that a Python file imports by absolute names, without those that it can
    do without: imports in a ``try`` with a handler, and those for type checkers only.

    Return nothing for a file that is not Python, or cannot be read.
    """
    try:
        return frozenset(_required_in(_parsed(file.read_bytes())))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()


def _parsed(source: bytes) -> ast.AST:
    """Return the tree of a program. If it has syntax that this Python does not know, such as that of a later Python,
    return the tree of its import statements. Raises ``SyntaxError`` and ``ValueError``."""
    try:
        return ast.parse(source)
    except SyntaxError:
        statements = [b" ".join(one.split()) for one in IMPORT_STATEMENT.findall(re.sub(rb"#[^\n]*", b"", source))]
        return ast.parse(b"\n".join(statement for statement in statements if _is_statement(statement)))


def _is_statement(source: bytes) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return True


def _required_in(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        yield node.module.partition(".")[0]
    elif isinstance(node, ast.Call) and last_name(node.func) in IMPORTING:
        texts = [argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant)]
        yield from (text.partition(".")[0] for text in texts if isinstance(text, str) and MODULE.fullmatch(text))
    is_optional = isinstance(node, ast.Try) and bool(node.handlers)
    is_optional |= isinstance(node, ast.If) and last_name(node.test) == "TYPE_CHECKING"
    if not is_optional:
        for child in ast.iter_child_nodes(node):
            yield from _required_in(child)


def _names_in_statements(tree: ast.AST, own: Mapping[str, str]) -> Iterator[str]:
    """Yield the modules that statements and calls of a file name. ``own`` has its ``__name__`` and ``__package__``."""
    functions = _names_of(tree, IMPORTING)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute("." * node.level + (node.module or ""), own["__package__"])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names if base)
        elif isinstance(node, ast.Call) and (function := functions.get(last_name(node.func))) is not None:
            yield (name := _name_of_call(node, own))
            if function == "run_module" and name:
                yield f"{name}.__main__"  # What runs if it is a package.


def _names_of(tree: ast.AST, originals: Collection[str]) -> dict[str, str]:
    """Return the names that a file uses for functions or lists, each with its original name."""
    names = {original: original for original in originals}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname and alias.name in originals}
    for targets, value in assignments(tree):
        if (original := last_name(value)) in originals:
            names |= {name: original for name in map(last_name, targets) if name}
    return names


def _packages_of_computed_names(tree: ast.AST, own: Mapping[str, str]) -> Iterator[str]:
    """Yield the packages before the computed part of the names that calls import."""
    functions = _names_of(tree, IMPORTING).keys()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and last_name(node.func) in functions:
            names = [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg in NAMES_OF_CALL)]
            if names and not _beginning(names[0], own)[1]:
                yield _name_of_call(node, own)


def _texts_like_names(tree: ast.AST, own: Mapping[str, str]) -> Iterator[str]:
    """Yield the texts of a file that could be names in a package, in their absolute form."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and DOTTED.fullmatch(node.value):
            yield _absolute(node.value.replace(":", "."), own["__package__"])


def _name_of_call(call: ast.Call, own: Mapping[str, str]) -> str:
    """Return the module that a call imports, or an empty string if its name is computed."""
    values = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg in NAMES_OF_CALL)]
    anchors = [*call.args[1:2], *(keyword.value for keyword in call.keywords if keyword.arg == "package")]
    written = _name_in(values[0], own) if values else ""
    anchor = _name_in(anchors[0], own) if anchors else ""
    return _absolute(written.partition(":")[0], anchor or own["__package__"])


def _name_in(value: ast.expr, own: Mapping[str, str]) -> str:
    """Return the name that an expression stands for.

    If the name is computed (``f"plugins.{name}"``), return the packages before the computed part.
    """
    text, is_whole = _beginning(value, own)
    return text if is_whole else text.rpartition(".")[0]


def _beginning(value: ast.expr, own: Mapping[str, str]) -> tuple[str, bool]:
    """Return the text at the beginning of an expression, and True if it is the whole expression."""
    match value:
        case ast.Constant(value=str(text)):
            return text, True
        case ast.Name(id=name) if name in own:
            return own[name], True
        case ast.FormattedValue(value=inner, conversion=-1, format_spec=None):
            return _beginning(inner, own)
        case ast.JoinedStr(values=parts):
            pass
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = [left, right]
        case _:
            return "", False
    text = ""
    for part in parts:
        more, is_whole = _beginning(part, own)
        text += more
        if not is_whole:
            return text, False
    return text, True


def _listed(tree: ast.AST) -> Iterator[str]:
    """Yield the texts in :data:`EXPORTS`."""
    values = [value for targets, value in assignments(tree) if EXPORTS in map(last_name, targets)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ADDING:
            values += node.args if last_name(node.func.value) == EXPORTS else []
    for value in values:
        yield from texts_in(value, {})


def _imported_paths(tree: ast.AST) -> Iterator[str]:
    """Yield the paths of the files that calls import."""
    known = values_of_names(tree)
    functions = _names_of(tree, FROM_A_FILE)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (function := functions.get(last_name(node.func))) is not None:
            position = FROM_A_FILE[function]
            keywords = [keyword.value for keyword in node.keywords if keyword.arg in ("location", "path", "path_name")]
            path = _path_in([*node.args[position : position + 1], *keywords], known)
            if path.endswith(".py"):
                yield path


def _added_folders(tree: ast.AST) -> Iterator[str]:
    """Yield the folders that a file adds to Python's search path."""
    known = values_of_names(tree)
    lists = set(_names_of_search_path(tree))
    functions = _names_of(tree, ADDS_FOLDER).keys()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (_adds_to(node.func, lists) or last_name(node.func) in functions):
            yield from (_path_in([value], known) for value in _elements(node.args[-1:]))
    for targets, value in assignments(tree):
        if any(_is_search_path(target, lists) for target in targets):
            yield from (_path_in([element], known) for element in _elements([value]))


def _names_of_search_path(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a file gives to ``sys.path``, or to the search path of its own package."""
    yield "__path__"
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "sys":
            yield from (alias.asname or alias.name for alias in node.names if alias.name == "path")
    for targets, value in assignments(tree):
        if _is_search_path(value, set()):
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def _adds_to(function: ast.expr, lists: Collection[str]) -> bool:
    return isinstance(function, ast.Attribute) and function.attr in ADDING and _is_search_path(function.value, lists)


def _is_search_path(value: ast.expr, lists: Collection[str]) -> bool:
    """Return True for ``sys.path`` or another name of it in ``lists``, and for a slice of it."""
    whole = value.value if isinstance(value, ast.Subscript) else value
    if isinstance(whole, ast.Name):
        return whole.id in lists
    return isinstance(whole, ast.Attribute) and whole.attr == "path" and last_name(whole.value) == "sys"


def _elements(values: list[ast.expr]) -> Iterator[ast.expr]:
    for value in values:
        yield from value.elts if isinstance(value, ast.List | ast.Tuple) else [value]


def _path_in(values: list[ast.expr], known: Mapping[str, ast.expr]) -> str:
    """Return the texts in an expression as a relative path, without ``..`` at its beginning."""
    unread = dict(known)
    parts = normpath("/".join(text for value in values for text in texts_in(value, unread))).split("/")
    return "/".join(part for part in parts if part not in ("", ".", "..") and "\0" not in part)


def _can_be_a_file(name: str) -> bool:
    return all(part and len(part) <= LONGEST_NAME and "/" not in part and "\0" not in part for part in name.split("."))


def _absolute(name: str, package: str) -> str:
    """Return the absolute form of a name that may begin with dots, relative to a package.

    Return an empty string if the name leads out of all packages.
    """
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
