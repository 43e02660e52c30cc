"""The user's modules: their files and folders, and the modules that they import from there.

The files of a module are read, not run (:mod:`trainables.contract.imports`), to find the names that it imports.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES
from pathlib import Path
from typing import NamedTuple

from trainables.contract.finder import (
    FINDER,
    MAIN,
    elsewhere,
    is_installed,
    is_of_python,
    is_outside,
    module_file,
    top_name,
)
from trainables.contract.imports import Imports, imports_of

MOST_MODULES = 2000
"""Maximum number of modules in a package. All of them are read and hashed."""
MODULE_SUFFIXES = (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES)
"""Suffixes of the files of modules."""


_named: dict[str, None] = {}
"""Modules that :func:`note_named` was told."""


class TooManyModulesError(ImportError):
    """A package has more than :data:`MOST_MODULES` modules."""


def note_named(module_name: str) -> bool:
    """Note that a user has named a module, for a family or a probe. Return True the first time."""
    is_first = module_name not in _named
    _named[module_name] = None
    return is_first


def named_modules() -> list[str]:
    """Return the modules that users have named in this process, in order."""
    return list(_named)


def folder_of(module_name: str) -> str:
    """Return the folder from which a module outside this project is imported, or an empty string if it is unknown or
    the module belongs to Python itself.

    For a linked file, return the link's folder: Python looks for sibling modules there.
    """
    file = file_of(module_name)
    if file is None or not is_outside(module_name) or is_of_python(file):
        return ""
    depth = _name_in_package(module_name).count(".")
    return str((file.parent if file.name.startswith("__init__.") else file).parents[depth].resolve())


def _name_in_package(module_name: str) -> str:
    """Return the name of a module. Add its package to the name of the main program of ``python -m package.module``."""
    if module_name != MAIN:
        return module_name
    main = sys.modules[MAIN]
    spec = getattr(main, "__spec__", None)
    package = getattr(main, "__package__", None) if spec is None else spec.parent
    return f"{package}.{MAIN}" if package else MAIN


def imports_here(file: Path, module_name: str) -> Imports:
    """Return the possible imports of the file of a module of this process, which may be its main program."""
    return imports_of(file, _name_in_package(module_name))


def file_of(module_name: str) -> Path | None:
    """Return the file of an imported module, or None if it has none."""
    file = getattr(sys.modules.get(module_name), "__file__", None)
    if file is None or not (os.path.isabs(file) or os.path.isfile(file)):
        return None  # Libraries invent relative paths for modules that they make, as torch does for torch.ops.
    return Path(os.path.abspath(file))


def is_in_cell(module_name: str) -> bool:
    """Return True for a module without a file, as that of the cells of a notebook."""
    is_library = not is_outside(module_name) or top_name(module_name) in sys.stdlib_module_names
    return not is_library and file_of(module_name) is None


def is_in_users_file(module_name: str) -> bool:
    """Return True for an imported module in a file of the user, which is not the main program."""
    return (
        is_outside(module_name)
        and top_name(module_name) not in (MAIN, *sys.stdlib_module_names)
        and file_of(module_name) is not None
        and not is_installed(Path(folder_of(module_name)))
    )


def files_of(module_name: str) -> dict[str, Path]:
    """Return the files of a module from outside this project and of the modules that it imports from its own folder.

    They are by the names of modules. A module comes after the modules that it imports, unless they import each other.
    The module must have been imported. Return nothing if its files are unknown.
    """
    folder = folder_of(module_name)
    modules = own_modules(module_name, [Path(folder)]) if folder else {}
    return {name: named.file for name, named in modules.items() if named.file is not None}


def folders_of(names: Iterable[str]) -> dict[str, str]:
    """Return the folders that another process needs to import the code of ``module:Class``.

    They are by the names of outermost packages, or of modules outside packages. The code must have been imported here.
    """
    folders: dict[str, str] = {}
    served = list(dict.fromkeys(place.folder for place in FINDER.places.values()))
    for module_name in dict.fromkeys(name.partition(":")[0] for name in names):
        folder = folder_of(module_name)
        if folder and module_name != MAIN and not is_installed(Path(folder)):
            modules = own_modules(module_name, [Path(folder), *served])
            folders |= {top_name(name): str(named.folder) for name, named in modules.items()}
    return folders


def unnamed_file(module_name: str) -> Path | None:
    """Return the file of a module next to the user's code that the code does not name, or None if there is none."""
    folders = dict.fromkeys(place.folder for place in FINDER.places.values())
    files = (module_file(folder, module_name) for folder in folders if top_name(module_name) not in FINDER.places)
    return next(filter(None, files), None)


class _NamedModule(NamedTuple):
    """A module that the user's code names: the folder in which it is found, and its file. A package may have no
    file."""

    folder: Path
    file: Path | None


def _named_in(folder: Path, name: str) -> _NamedModule | None:
    """Return a module or package in a folder, or None if there is none."""
    file = module_file(folder, name)
    return _NamedModule(folder, file) if file is not None or folder.joinpath(*name.split(".")).is_dir() else None


def own_modules(
    module_name: str, folders: Sequence[Path], script: Path | None = None, path: Sequence[Path] = ()
) -> dict[str, _NamedModule]:
    """Return a module, its packages, and the modules that they import, by name. The order is that of :func:`files_of`.

    A package with a file counts whole: its modules may import each other by computed names. A package without a file
    may be any directory, so it counts whole only if a file imports from it by a name with a computed part.

    Args:
        module_name: The module.
        folders: The folder of the module, then other folders of the user's code.
        script: The file, if another process runs it as a script. Modules with names of this project's packages then
            count, too.
        path: Folders that the other process has on Python's search path.

    Raises:
        TooManyModulesError: A package has too many modules.
    """
    root = folders[0]
    searched = dict.fromkeys(path)
    read = imports_here if script is None else imports_of
    # Files that are found may add folders to Python's search path. Walk again until there are no new ones.
    while True:
        own = _walk(module_name, folders, list(searched), script)
        files = [(named.file, read(named.file, name)) for name, named in own.items() if named.file is not None]
        added = [folder for file, imports in files for folder in _below(root, file, imports.folders)]
        if searched.keys() >= set(added):
            return own
        searched |= dict.fromkeys(added)


def _below(root: Path, file: Path, names: Iterable[str]) -> list[Path]:
    """Return the folders to which relative paths in a file may lead, from its own folder or from a folder above it, up
    to ``root``."""
    above = [folder for folder in file.parents if folder.is_relative_to(root)]
    return [folder / name for name in sorted(names) for folder in above if os.path.isdir(folder / name)]


def _walk(
    module_name: str, folders: Sequence[Path], searched: Sequence[Path], script: Path | None
) -> dict[str, _NamedModule]:
    """Return the result of :func:`own_modules` if files have added the folders ``searched`` to the search path."""
    root = folders[0]
    own = dict[str, _NamedModule]()
    seen = set[str]()
    computed = set[str]()
    read = imports_here if script is None else imports_of

    @cache  # Files often import the same modules.
    def find(name: str) -> _NamedModule | None:
        # Nearly the order in which Python would look. A script's own folder is first on its search path, and its files
        # usually add folders before installed packages. Other folders of the user's code come last, so that a module
        # there can never hide an installed one.
        top = top_name(name)
        named = _named_in(root, name)
        candidates = list(filter(None, (_named_in(folder, name) for folder in searched)))
        # A module in a later folder hides a directory without a file in an earlier one.
        below = next((one for one in candidates if one.file is not None), next(iter(candidates), None))
        if named is not None and (named.file is not None or below is None or below.file is None):
            return named if not is_installed(root) or top == top_name(module_name) else None
        if below is not None and not is_installed(below.folder):
            return below
        if elsewhere(top) is not None:
            return None
        return next(filter(None, (_named_in(folder, name) for folder in folders[1:])), None)

    def visit(name: str, named: _NamedModule) -> None:
        seen.add(name)
        imports = read(named.file, name) if named.file is not None else Imports(frozenset())
        computed.update(imports.packages)
        written = {inner for text in imports.texts for inner in _inner_names(text) if module_file(root, inner)}
        for other in sorted(imports.names | written):
            if other not in seen and (script is not None or is_outside(other)) and (below := find(other)) is not None:
                visit(other, below)
        own[name] = named

    file = script or (file_of(module_name) if module_name == MAIN else module_file(root, module_name))
    if file is not None and file.is_file():
        visit(module_name, _NamedModule(root, file))
        while more := [
            (name, below)
            for package, named in own.items()
            if package in computed or _is_outermost_with_file(package, named)
            for name, below in _modules_below(package, named).items()
            if name not in seen
        ]:
            for name, below in more:
                if name not in seen:
                    visit(name, below)
        own[module_name] = own.pop(module_name)  # After what it imports by computed names.
    return own


def _inner_names(text: str) -> Iterator[str]:
    """Yield the beginnings of a dotted name that are modules in a package, if they are modules."""
    parts = text.split(".")
    return (".".join(parts[:count]) for count in range(2, len(parts) + 1))


def _is_outermost_with_file(package: str, named: _NamedModule) -> bool:
    is_package = named.file is not None and named.file.name.startswith("__init__.")
    around = [".".join(package.split(".")[:count]) for count in range(1, package.count(".") + 1)]
    has_outer = any(module_file(named.folder, outer) is not None for outer in around)
    return is_package and not has_outer and not is_installed(named.folder)


def modules_in(folder: Path, package: str) -> list[str]:
    """Return the names of all modules below a package in a folder. Raises :class:`TooManyModulesError`."""
    return list(_modules_below(package, _NamedModule(folder, None)))


def _modules_below(package: str, named: _NamedModule) -> dict[str, _NamedModule]:
    """Return all modules and packages below a package, by name. Raises :class:`TooManyModulesError`.

    Directories and files with a dot in their names are omitted, because Python cannot import them.
    """
    found: dict[str, _NamedModule] = {}
    above: list[tuple[str, frozenset[str]]] = [(package, frozenset())]
    while above:
        outer, around = above.pop()
        directory = named.folder.joinpath(*outer.split("."))
        # A link may lead back to a directory above it. Its modules then have endless names. A link to another
        # directory gives its modules a second name.
        if not directory.is_dir() or (real := os.path.realpath(directory)) in around:
            continue
        for entry in sorted(os.listdir(directory)):
            name, _, suffix = entry.partition(".")
            inner = f"{outer}.{name}"
            if not suffix:
                above.append((inner, around | {real}))
            elif name not in ("", "__init__") and f".{suffix}" in MODULE_SUFFIXES:
                file = module_file(named.folder, inner)
                found[inner] = _NamedModule(named.folder, file)
            if name == "__init__" and outer != package:
                found[outer] = _NamedModule(named.folder, module_file(named.folder, outer))
        if len(found) > MOST_MODULES:
            raise TooManyModulesError(
                f"the package {named.folder / package} has more than {MOST_MODULES:,} modules, which would all count "
                "as code of the family: put the family into a package of its own"
            )
    return found
