"""Source of a family from outside this project: where its module is found, a hash of it, and whether it has changed.

A run's key covers its settings, not the code of ``train``. So each run keeps a hash of the family's module and of the
modules that it imports from its own folder. Comments and empty lines do not change the hash.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import io
import os
import shlex
import stat
import sys
import tokenize
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from weakref import WeakKeyDictionary

from trainables import IMPORTED_AT

PRODUCT = ("trainables", "orchestrator", "search_spaces")
"""Packages of this project. The versions of its families are in keys of runs, so their source is not hashed."""
MAIN = "__main__"
"""Name of the module of a script or notebook."""
INSTALLED = ("site-packages", "dist-packages")
"""Folders in which every package belongs to somebody else."""
DIGITS = 16
"""Hex digits of a hash."""

_folders: list[str] = []
"""Folders at the end of the search path that :func:`search_in` keeps in order, the one named last first."""
_current = ""
"""The folder that :func:`search_in` was called with last."""
_offered: list[str] = []
"""Folders of the search space that was opened last, the nearest first."""
_here = ""
"""The working directory, if the user's command names code or a search space."""
_known: WeakKeyDictionary[ModuleType, str] = WeakKeyDictionary()
"""Hash of the files of a module at the time when they were imported."""


class NameTakenError(ImportError):
    """Another module is imported in place of the one in the folder of the search space."""


def is_outside(module_name: str) -> bool:
    """Return True for a module that is not part of this project."""
    return module_name.partition(".")[0] not in PRODUCT


def offer(folders: Sequence[str]) -> None:
    """Name the folders of a search space, the nearest first, in which :func:`search_offered` looks for code.

    Nothing in them can be imported before that. Libraries try to import optional modules, and would run a file of such
    a name next to a search space without any code.
    """
    _offered[:] = folders


def offer_working_directory(folder: str) -> None:
    """Name the working directory, in which :func:`search_offered` looks last."""
    global _here
    _here = folder


def search_offered(module_name: str) -> None:
    """Let Python find a module outside this project in the offered folders. Raises ``ImportError`` if it is in one that
    everybody can write: other users could put modules there, also under the names of optional ones of libraries."""
    if not is_outside(module_name):
        return
    usable = []
    # Code that a home names has been imported already, from a folder that this user trusts.
    for folder in dict.fromkeys([*_offered, *([_here] if _here and module_name not in sys.modules else [])]):
        if not _is_open_to_all(folder):
            usable.append(folder)
        elif _in_folder(Path(folder), module_name) is not None:
            raise ImportError(
                f"everybody can write {folder}, so other users can put modules there: take that right away "
                f"(chmod o-w {shlex.quote(str(folder))}), or move the code"
            )
    if _here in usable and _here not in sys.path:
        sys.path.append(_here)  # At the end: its modules do not replace those of a library or of this program.
    for folder in reversed([folder for folder in usable if folder in _offered]):
        _search_first_in(folder)


def _is_open_to_all(folder: str) -> bool:
    try:
        return bool(os.stat(folder).st_mode & stat.S_IWOTH)
    except OSError:  # Missing, so nothing is found in it.
        return False


def search_in(folder: str) -> None:
    """Let Python find the modules of a folder. They hide modules of the same name in folders that were named earlier.

    Installed modules are still found first, so the folder hides none of them.
    """
    # A specification keeps its folder, whichever search space was opened since.
    _offered.clear()
    _search_first_in(folder)


def _search_first_in(folder: str) -> None:
    global _current
    _current = folder
    last = sys.path[-1] if sys.path else ""
    if folder not in _folders and folder in sys.path and folder != last:
        return  # The user's own choice, such as PYTHONPATH.
    if folder in _folders[:1] and folder in sys.path:
        return
    if os.path.isabs(last) and last not in _folders and last == os.getcwd():
        _folders.append(last)  # The working directory of the command line.
    _folders[:] = [folder, *(other for other in _folders if other != folder and other in sys.path)]
    sys.path[:] = [path for path in sys.path if path not in _folders] + _folders
    for name, module in list(sys.modules.items()):
        if not is_outside(name):  # The folder may be another checkout of this project, which runs already.
            continue
        file = getattr(module, "__file__", None) or ""
        is_other = any(file.startswith(f"{other}{os.sep}") for other in _folders[1:])
        if is_other and not file.startswith(f"{folder}{os.sep}") and _in_folder(Path(folder), name) is not None:
            del sys.modules[name]
    importlib.invalidate_caches()


def check_place(module_name: str) -> None:
    """Raise :class:`NameTakenError` if an imported module is not the one in the folder that was named last."""
    module = sys.modules.get(module_name)
    beside = _in_folder(Path(_current), module_name) if _current and is_outside(module_name) else None
    file = _file_of(module_name)
    if module is not None and beside is not None and file != beside.resolve():
        own = "Python's own module" if module_name in sys.stdlib_module_names else "another module"
        raise NameTakenError(f"{own} of that name ({file or 'built in'}) hides {beside}: rename the file")


def folder_of(module_name: str) -> str:
    """Return the folder that a module outside this project is imported from, or "" if it is unknown."""
    file = _file_of(module_name)
    if file is None or not is_outside(module_name):
        return ""
    if module_name == MAIN:
        return str(file.parent)
    return str((file.parent if file.name == "__init__.py" else file).parents[module_name.count(".")])


def _file_of(module_name: str) -> Path | None:
    file = getattr(sys.modules.get(module_name), "__file__", None)
    return None if file is None else Path(file).resolve()


def source_hash(name: str) -> str:
    """Return the hash of the code of ``module:Class``, which has been imported, or "" if the class belongs to this
    project or its code is unknown."""
    module_name, colon, class_name = name.partition(":")
    module = sys.modules.get(module_name)
    if not colon or module is None or not is_outside(module_name):
        return ""
    if _file_of(module_name) is None:
        return _hash_of_cells(getattr(module, class_name, None))
    if module not in _known:
        _known[module] = _hash_of_files(_own_files(module_name))
    return _known[module]


def files_of(module_name: str) -> list[Path]:
    """Return the files of a module from outside this project, which has been imported, and of the modules that it
    imports from its own folder; none if they are unknown."""
    return list(_own_files(module_name).values())


def reload_changed(module_name: str) -> None:
    """Import a module and those of its folder again if one of their files has changed since. Otherwise a notebook would
    train the code that it imported first. May raise any exception of these modules."""
    module = sys.modules.get(module_name)
    if module is None or module_name == MAIN or not is_outside(module_name) or _file_of(module_name) is None:
        return
    files = _own_files(module_name)
    now = _hash_of_files(files)
    changed = max((file.stat().st_mtime for file in files.values()), default=0.0)
    # If this program did not import the module, the time of its import is unknown. Only files that changed after this
    # program was imported can differ from the imported code.
    is_old = _known[module] != now if module in _known else changed > IMPORTED_AT
    if is_old:
        importlib.invalidate_caches()
        for name, file in files.items():
            # Python would use the compiled file again if the source has the same size and second of its last change.
            with suppress(OSError, NotImplementedError):
                Path(importlib.util.cache_from_source(str(file))).unlink()
            if name in sys.modules:
                importlib.reload(sys.modules[name])
    _known[module] = now


def _hash_of_files(files: Mapping[str, Path]) -> str:
    digest = hashlib.sha256()
    for name, file in sorted(files.items()):
        digest.update(f"{'' if name == MAIN else name}\0".encode() + without_comments(file.read_bytes()) + b"\0")
    return digest.hexdigest()[:DIGITS] if files else ""


def _hash_of_cells(kind: object) -> str:
    """Return the hash of a class that was written in a notebook, or "" if its source is not kept."""
    methods = [value for value in vars(kind).values() if inspect.isfunction(value)] if isinstance(kind, type) else []
    try:
        texts = [inspect.getsource(method) for method in methods]
    except (OSError, TypeError):
        return ""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:DIGITS] if texts else ""


def _own_files(module_name: str) -> dict[str, Path]:
    """Return the file of a module and of all modules that it imports from its own folder, by name. A module comes after
    those that it imports, unless they import each other."""
    root = Path(folder_of(module_name))
    own = dict[str, Path]()
    is_installed = any(part in INSTALLED for part in root.parts)
    top = module_name.partition(".")[0]
    seen = set[str]()

    def visit(name: str, file: Path) -> None:
        seen.add(name)
        for other in sorted(_imports(file, name)):
            if other in seen or not is_outside(other) or (is_installed and other.partition(".")[0] != top):
                continue
            if (found := _in_folder(root, other)) is not None:
                visit(other, found)
        own[name] = file

    file = _file_of(module_name)
    if file is not None and file.is_file():
        visit(module_name, file)
    return own


def _in_folder(folder: Path, name: str) -> Path | None:
    """Return the file of a module in a folder, or None without one."""
    path = folder.joinpath(*name.split("."))
    return next((file for file in (path / "__init__.py", path.with_name(f"{path.name}.py")) if file.is_file()), None)


def _imports(file: Path, name: str) -> set[str]:
    """Return the names that a Python file may import as modules, and the packages around them."""
    if file.suffix != ".py":
        return set()
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return set()  # Python reports it when the module is imported.
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = name.split(".")
                above = parts[: len(parts) - node.level + (file.name == "__init__.py")]
                base = ".".join([*above, *([node.module] if node.module else [])])
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    around = {".".join(parts[:count]) for parts in (one.split(".") for one in names) for count in range(1, len(parts))}
    return (names | around) - {""}


def without_comments(source: bytes) -> bytes:
    """Return Python source without comments and empty lines. Text inside strings stays. Return any other content
    unchanged."""
    try:
        lines = source.decode("utf-8").replace("\r\n", "\n").split("\n")
        dropped = set[int]()
        for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
            row, column = token.start
            if token.type == tokenize.COMMENT:
                lines[row - 1] = lines[row - 1][:column].rstrip()
            if token.type == tokenize.NL and not lines[row - 1].strip():
                dropped.add(row - 1)
    except (UnicodeDecodeError, tokenize.TokenError, SyntaxError):
        return source
    return "\n".join(line for row, line in enumerate(lines) if row not in dropped).encode()
