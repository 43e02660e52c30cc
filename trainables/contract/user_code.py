"""Modules of the user: found by name in their own folders, which are never on Python's search path.

Libraries try to import optional modules such as ``ujson``, and a file of such a name in a folder on the search path
would run. So a search space names a module, and :data:`FINDER` finds that module, its package, and what their files
name in turn (:mod:`trainables.contract.imports`), but nothing else in the folder, and only what is not installed.
"""

from __future__ import annotations

import importlib
import logging
import os
import shlex
import stat
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ExtensionFileLoader, ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from trainables.contract.imports import imports_of

log = logging.getLogger(__name__)

PRODUCT = ("trainables", "orchestrator", "search_spaces")
"""Packages of this project. The versions of its families are in keys of runs, so their source is not hashed."""
PROGRAM = str(Path(__file__).resolve().parents[2])
"""Folder of this project's packages."""
MAIN = "__main__"
"""Name of the module of a script or notebook."""
INSTALLED = ("site-packages", "dist-packages")
"""Folders in which every package has another author."""
BUILT_IN = "built-in"
"""Place of a module of Python itself that has no file."""
INHERITED = "user code"
"""Key of :data:`FINDER` in what processes of :mod:`multiprocessing` inherit."""

_offered: list[str] = []
"""Folders of the search space that was opened last, the nearest first."""
_here = ""
"""The working directory, if the user's command names code or a search space."""
_is_here_open = False
"""Whether other users can write the working directory, or a folder above it."""


class NameTakenError(ImportError):
    """Another module is imported in place of the one in the folder of the search space."""


def allowed(file: Path) -> str:
    """Return "": no file is refused."""
    return ""


class Place(NamedTuple):
    """The folder of a module or package, and why a file in it must not be imported, or ""."""

    folder: Path
    refusal: Callable[[Path], str] = allowed


class SourceLoader(SourceFileLoader):
    """Loads a module from its source alone. A compiled file next to it may be another user's."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class Finder(MetaPathFinder):
    """Finds the modules of the user that were named, unless Python finds others of these names by itself.

    Attributes:
        places: Places by the name of a module or package at the top.
    """

    def __init__(self) -> None:
        self.places: dict[str, Place] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        place = self.places.get(_top(fullname))
        if place is None or (path is None and elsewhere(fullname) is not None):
            return None
        own = [place.folder] if path is None else [one for one in map(Path, path) if one.is_relative_to(place.folder)]
        name = fullname.rpartition(".")[2]
        for folder in own:
            if (file := module_file(folder, name)) is not None:
                if why := place.refusal(file):
                    raise ImportError(why)
                return _spec(fullname, file)
        packages = [str(folder / name) for folder in own if (folder / name).is_dir()]
        if not packages:
            return None
        spec = ModuleSpec(fullname, None, is_package=True)  # A package without a file.
        spec.submodule_search_locations = packages
        return spec

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, ({top: str(place.folder) for top, place in self.places.items()},)


FINDER = Finder()
"""The finder of this process. Processes of :mod:`multiprocessing`, such as loaders of data, inherit it."""


def _received(folders: Mapping[str, str]) -> Finder:
    serve(folders)
    return FINDER


def _spec(name: str, file: Path) -> ModuleSpec | None:
    kind = SourceLoader if file.suffix in SOURCE_SUFFIXES else ExtensionFileLoader
    return spec_from_file_location(name, file, loader=kind(name, str(file)))


def is_outside(module_name: str) -> bool:
    """Return True for a module that is not part of this project."""
    return _top(module_name) not in PRODUCT


def _top(module_name: str) -> str:
    return module_name.partition(".")[0]


def module_file(folder: Path, name: str) -> Path | None:
    """Return the file of a module in a folder, or None without one."""
    path = folder.joinpath(*name.split("."))
    suffixes = (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES)
    names = [*(path / f"__init__{suffix}" for suffix in suffixes), *(Path(f"{path}{suffix}") for suffix in suffixes)]
    return next(filter(Path.is_file, names), None)


def elsewhere(top: str) -> str | None:
    """Return the file of the module or package that Python finds by itself, or None without one. Of directories without
    a file, only those of installed packages count."""
    for finder in sys.meta_path:
        spec = None if finder is FINDER else finder.find_spec(top, None)
        if spec is not None:
            directories = [one for one in spec.submodule_search_locations or () if is_installed(Path(one))]
            if places := [*filter(None, [spec.origin]), *directories]:
                return places[0]
    return None


def offer(folders: Sequence[str]) -> None:
    """Name the folders of a search space, the nearest first, in which :func:`import_code` looks for modules. They hide
    modules of the same name in folders that were named earlier."""
    _offered[:] = folders


def offer_working_directory(folder: str, *, is_open: bool) -> None:
    """Name the working directory, in which :func:`import_code` looks last.

    A search space counts on it only if it is below, and if the directory is not ``is_open``, which means that other
    users can write it or a folder above it.
    """
    global _here, _is_here_open
    _here, _is_here_open = folder, is_open


def import_code(module_name: str) -> ModuleType:
    """Import a module that the user has named, from an offered folder or from where Python finds it.

    May raise any exception of the module, :class:`NameTakenError`, and ``ImportError`` if it is in a folder that
    everyone can write to: other users could put modules there.
    """
    find_offered(module_name)
    if module_name not in sys.modules:
        importlib.invalidate_caches()  # It may just have been written.
    module = importlib.import_module(module_name)
    folder = folder_of(module_name)
    if folder and module_name != MAIN:
        _serve([Path(folder)], module_name)  # Python may have found it by itself, but may not in another process.
    return module


def find_offered(module_name: str) -> None:
    """Let Python find a module from outside this project, and what it imports from its folder, in the offered folders.
    Raises as :func:`import_code`."""
    if not is_outside(module_name) or module_name == MAIN:
        return
    offered = [Path(folder).resolve() for folder in _offered if not _is_open_to_all(folder)]
    # Code that a home names has been imported already, from a folder that this user trusts.
    here = _usable_here() if module_name not in sys.modules else []
    for folder in offered:
        if module_file(folder, module_name) is not None:
            _serve([folder, *offered, *here], module_name)
            _check_place(folder, module_name)
            return
    if here and module_file(here[0], module_name) is not None and elsewhere(_top(module_name)) is None:
        _serve([*here, *offered], module_name)
        return
    for place in filter(_is_open_to_all, filter(None, (*_offered, _here))):
        if module_file(Path(place), module_name) is not None:
            raise ImportError(
                f"everyone can write to {place}, so other users can put modules there: remove that permission "
                f"(chmod o-w {shlex.quote(place)}), or move the code"
            )


def import_from(folder: Path, module_name: str, refusal: Callable[[Path], str]) -> None:
    """Import a module from a folder, and what it imports from there, except files for which ``refusal`` returns why
    not. May raise any exception of the module, and :class:`NameTakenError`."""
    _serve([folder], module_name, refusal)
    _check_place(folder, module_name)
    importlib.import_module(module_name)


def _usable_here() -> list[Path]:
    """Return the working directory, as a list, if modules may be found in it. A user who is in another user's folder
    and opens a search space elsewhere has not named the code in that folder."""
    if not _here or _is_open_to_all(_here):
        return []
    here = Path(_here).resolve()
    is_above = any(Path(folder).resolve().is_relative_to(here) for folder in _offered)
    return [here] if not _offered or (is_above and not _is_here_open) else []


def _is_open_to_all(folder: str) -> bool:
    try:
        return bool(os.stat(folder).st_mode & stat.S_IWOTH)
    except OSError:  # Missing, so nothing is found in it.
        return False


def is_installed(folder: Path) -> bool:
    """Return True for a folder of installed packages, or one below it."""
    return any(part in INSTALLED for part in folder.parts)


def _serve(folders: Sequence[Path], module_name: str, refusal: Callable[[Path], str] = allowed) -> None:
    """Find a module in the first of some folders from now on, and what it imports in the first that has it."""
    if is_installed(folders[0]):
        return
    _install()
    used = {_top(name): named.folder for name, named in _own_modules(module_name, folders).items()}
    for top, folder in used.items():
        _place(top, Place(folder, refusal))


def serve(folders: Mapping[str, str]) -> None:
    """Find the user's modules in the folders that another process has found them in (:func:`folders_of`)."""
    _install()
    for top, folder in folders.items():
        if os.path.isdir(folder) and not _is_open_to_all(folder):
            _place(top, Place(Path(folder)))


def _install() -> None:
    from multiprocessing.process import current_process  # Late, because every command imports this module.

    if FINDER not in sys.meta_path:
        sys.meta_path.insert(0, FINDER)
        current_process()._config[INHERITED] = FINDER  # type: ignore[attr-defined] # undocumented


def _place(top: str, place: Place) -> None:
    """Find a module or package in a place, and drop what was imported from another folder. What is refused in a folder
    stays refused."""
    before = FINDER.places.get(top)
    if before is not None and before.folder == place.folder and before.refusal is not allowed:
        return
    FINDER.places[top] = place
    if before is None or before.folder == place.folder:
        return
    for name, module in list(sys.modules.items()):
        if _top(name) == top and _is_from(before.folder, module):
            del sys.modules[name]


def _is_from(folder: Path, module: ModuleType) -> bool:
    files = [file] if (file := getattr(module, "__file__", None)) else list(getattr(module, "__path__", ()))
    return any(Path(os.path.abspath(file)).is_relative_to(folder) for file in files)


def _check_place(folder: Path, module_name: str) -> None:
    """Raise :class:`NameTakenError` if Python has imported another module, or would, in place of one in a folder."""
    top = _top(module_name)
    own = module_file(folder, top)
    if top in sys.modules:
        other = getattr(sys.modules[top], "__file__", None) or (BUILT_IN if own is not None else None)
    else:
        other = elsewhere(top)
    if other is None or (own is not None and os.path.exists(other) and os.path.samefile(other, own)):
        return
    whose = "Python's own module" if top in sys.stdlib_module_names else "another module"
    raise NameTakenError(f"{whose} of that name ({other}) hides {module_file(folder, module_name)}: rename the file")


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
    modules = _own_modules(module_name, [Path(folder)]) if folder else {}
    return {name: named.file for name, named in modules.items() if named.file is not None}


def folders_of(names: Iterable[str]) -> dict[str, str]:
    """Return what another process needs to import the code of ``module:Class``, which has been imported: folders by the
    names of modules and packages at the top."""
    folders: dict[str, str] = {}
    served = list(dict.fromkeys(place.folder for place in FINDER.places.values()))
    for module_name in dict.fromkeys(name.partition(":")[0] for name in names):
        folder = folder_of(module_name)
        if folder and module_name != MAIN and not is_installed(Path(folder)):
            modules = _own_modules(module_name, [Path(folder), *served])
            folders |= {_top(name): str(named.folder) for name, named in modules.items()}
    return folders


def unnamed_file(module_name: str) -> Path | None:
    """Return the file of a module next to the user's code that none of its files names, or None without one."""
    folders = dict.fromkeys(place.folder for place in FINDER.places.values())
    files = (module_file(folder, module_name) for folder in folders if _top(module_name) not in FINDER.places)
    return next(filter(None, files), None)


def unused_file(module_name: str) -> Path | None:
    """Return the file of a module in the working directory if no module may be found there, or None."""
    return module_file(Path(_here), module_name) if _here and not _usable_here() else None


class _Named(NamedTuple):
    """A module that the user's code names: the folder that it is found in, and its file, or None for a package without
    one."""

    folder: Path
    file: Path | None


def _named_in(folder: Path, name: str) -> _Named | None:
    file = module_file(folder, name)
    return _Named(folder, file) if file is not None or folder.joinpath(*name.split(".")).is_dir() else None


def _own_modules(module_name: str, folders: Sequence[Path]) -> dict[str, _Named]:
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
    """Return :func:`_own_modules`, with those in the folders below the first that its files have ``searched``."""
    root = folders[0]
    own = dict[str, _Named]()
    seen = set[str]()

    def find(name: str) -> _Named | None:
        top = _top(name)
        if (named := _named_in(root, name)) is not None:
            return named if not is_installed(root) or top == _top(module_name) else None
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


def path_of_children() -> str:
    """Return the value of ``PYTHONPATH`` with which another process finds what this one does, apart from the user's
    modules, which it gets by :func:`serve`.

    Folders of the user's modules are left out, and what Python adds by itself, the working directory of a notebook or
    the folder of a script, unless the user's own ``PYTHONPATH`` has them.
    """
    chosen = {PROGRAM, *map(os.path.realpath, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))}
    left_out = {folder_of(MAIN), *(str(place.folder) for place in FINDER.places.values())}
    with suppress(FileNotFoundError):  # It was deleted.
        left_out.add(os.getcwd())
    return search_path(path for path in sys.path if path and os.path.realpath(path) not in left_out - chosen)


def search_path(paths: Iterable[str]) -> str:
    """Return directories as the value of ``PYTHONPATH``, without those whose names it cannot contain.

    For example, the directory ``/tmp/run_10:30`` would become two: ``/tmp/run_10``, in which other users may have put
    modules, and ``30``, relative to the directory of an actor.
    """
    directories = dict.fromkeys(map(os.path.abspath, paths))
    for directory in (left_out := [one for one in directories if os.pathsep in one]):
        log.warning(f"Ray's workers find no modules in {directory}, because of the {os.pathsep!r} in its name")
    return os.pathsep.join(one for one in directories if one not in left_out)
