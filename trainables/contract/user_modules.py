"""The user's modules: their files and folders, and what they import from there.

The files of a module are read, not run (:mod:`trainables.contract.imports`), to find the names that it imports.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from trainables.contract.finder import FINDER, MAIN, elsewhere, is_installed, is_outside, module_file, top_name
from trainables.contract.imports import imports_of


def folder_of(module_name: str) -> str:
    """Return the folder that a module outside this project is imported from, or "" if it is unknown. If the module's
    file is a link, it is the folder of the link, in which Python finds other modules."""
    file = file_of(module_name)
    if file is None or not is_outside(module_name):
        return ""
    if module_name == MAIN:
        return str(file.parent.resolve())
    return str((file.parent if file.name.startswith("__init__.") else file).parents[module_name.count(".")].resolve())


def file_of(module_name: str) -> Path | None:
    """Return the file of an imported module, or None if it has none."""
    file = getattr(sys.modules.get(module_name), "__file__", None)
    return None if file is None else Path(os.path.abspath(file))


def files_of(module_name: str) -> dict[str, Path]:
    """Return the files of a module from outside this project, which has been imported, and of what it imports from its
    own folder, by name; none if they are unknown. A module comes after those that it imports, unless they import each
    other."""
    folder = folder_of(module_name)
    modules = own_modules(module_name, [Path(folder)]) if folder else {}
    return {name: named.file for name, named in modules.items() if named.file is not None}


def folders_of(names: Iterable[str]) -> dict[str, str]:
    """Return what another process needs to import the code of ``module:Class``, which has been imported: folders by the
    names of modules and packages at the top."""
    folders: dict[str, str] = {}
    served = list(dict.fromkeys(place.folder for place in FINDER.places.values()))
    for module_name in dict.fromkeys(name.partition(":")[0] for name in names):
        folder = folder_of(module_name)
        if folder and module_name != MAIN and not is_installed(Path(folder)):
            modules = own_modules(module_name, [Path(folder), *served])
            folders |= {top_name(name): str(named.folder) for name, named in modules.items()}
    return folders


def unnamed_file(module_name: str) -> Path | None:
    """Return the file of a module next to the user's code that none of its files names, or None without one."""
    folders = dict.fromkeys(place.folder for place in FINDER.places.values())
    files = (module_file(folder, module_name) for folder in folders if top_name(module_name) not in FINDER.places)
    return next(filter(None, files), None)


class _Named(NamedTuple):
    """A module that the user's code names: the folder that it is found in, and its file, or None for a package without
    one."""

    folder: Path
    file: Path | None


def _named_in(folder: Path, name: str) -> _Named | None:
    file = module_file(folder, name)
    return _Named(folder, file) if file is not None or folder.joinpath(*name.split(".")).is_dir() else None


def own_modules(module_name: str, folders: Sequence[Path]) -> dict[str, _Named]:
    """Return a module, its packages, and what they import from their own folder or, if Python does not find it by
    itself, from the other folders; by name, as :func:`files_of`."""
    root = folders[0]
    searched: dict[Path, None] = {}
    while True:
        own = _walk(module_name, folders, list(searched))
        files = [(one.file, imports_of(one.file, name)) for name, one in own.items() if one.file is not None]
        added = [folder for file, imports in files for folder in _below(root, file, imports.folders)]
        if searched.keys() >= set(added):
            return own
        searched |= dict.fromkeys(added)


def _below(root: Path, file: Path, names: Iterable[str]) -> list[Path]:
    """Return the folders that a file may mean by relative paths: from its own folder and from those above, up to
    ``root``."""
    above = [folder for folder in file.parents if folder.is_relative_to(root)]
    return [folder / name for name in sorted(names) for folder in above if os.path.isdir(folder / name)]


def _walk(module_name: str, folders: Sequence[Path], searched: Sequence[Path]) -> dict[str, _Named]:
    """Return :func:`own_modules`, with those in the folders below the first that its files have ``searched``."""
    root = folders[0]
    own = dict[str, _Named]()
    seen = set[str]()

    def find(name: str) -> _Named | None:
        top = top_name(name)
        if (named := _named_in(root, name)) is not None:
            return named if not is_installed(root) or top == top_name(module_name) else None
        below = next(filter(None, (_named_in(folder, name) for folder in searched)), None)
        if below is not None and not is_installed(below.folder):
            return below
        if elsewhere(top) is not None:
            return None
        return next(filter(None, (_named_in(folder, name) for folder in folders[1:])), None)

    def visit(name: str, named: _Named) -> None:
        seen.add(name)
        for other in sorted(imports_of(named.file, name).names if named.file is not None else ()):
            if other not in seen and is_outside(other) and (below := find(other)) is not None:
                visit(other, below)
        own[name] = named

    file = file_of(module_name) if module_name == MAIN else module_file(root, module_name)
    if file is not None and file.is_file():
        visit(module_name, _Named(root, file))
    return own
