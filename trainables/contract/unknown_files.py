"""Files that a user's module runs and that do not count as its code: their changes would not be noticed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from trainables.contract.executed_files import executed_files
from trainables.contract.finder import FINDER, PRODUCT, PROGRAM, PYTHON_FOLDERS, is_installed, is_outside, top_name
from trainables.contract.imports import Imports
from trainables.contract.user_modules import file_of, files_of, folder_of, imports_here, named_modules, own_modules

OWN_FOLDERS = (
    *PYTHON_FOLDERS,
    *(Path(PROGRAM) / name for name in sorted(PRODUCT)),
)
"""Folders of Python's own modules and of this project's packages."""
COMPILED = re.compile(r"/(\.pyxbld|\.triton|torchinductor_[^/]*|\.?cache/torch_extensions)/")
"""Pattern in the path of a module that a compiler made. Other folders of caches have code, as torch.hub has."""
COMPILED_BY = ("TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR")
"""Variables with other directories of such modules."""
MOST_ABOVE = 3
"""Number of folders above that of a module from which it may run files by their paths."""
MOST_NAMED = 3
"""Maximum number of files that a warning names."""
_watched: dict[str, frozenset[str]] = {}
"""For each module of the user that is watched: the code that had run when its watch began."""
_said: set[tuple[str, str]] = set()
"""Modules with unknown files that a warning has said."""


def executed_code() -> frozenset[str]:
    """Return the names of all modules that are imported now, and the paths of other files that were executed."""
    return frozenset(sys.modules) | frozenset(executed_files())


def begin_watch(module_name: str, earlier: Collection[str]) -> str:
    """Watch what a module runs from now on. Return a warning of unknown files that its import ran, or that its
    functions import. It may be empty.

    Args:
        module_name: The module, which has just been imported.
        earlier: What :func:`executed_code` returned before that.
    """

    def look() -> str:
        # A module that it imports may have been imported before by another, such as a cell of a notebook.
        named = {name for module, file in files_of(module_name).items() for name in imports_here(file, module).names}
        return unknown_files_text([module_name], frozenset(earlier) - named, files_run_later(module_name))

    text = _text_of([module_name], look)
    now = executed_code()
    for other in list(_watched):  # They did not run what this import ran.
        _watched[other] |= now.difference(earlier)
    if folder_of(module_name):
        _watched[module_name] = now
    return text


def end_watch(names: Iterable[str]) -> str:
    """Return a warning of unknown files that the modules of some classes have run since their watches began, and begin
    new watches. It is empty if there are none, or if no module is watched, as for built-in families.

    No error of this look is raised, because the run itself has ended well.

    Args:
        names: Names of families and probes, ``module:Class``.
    """
    watched = [name for name in dict.fromkeys(name.partition(":")[0] for name in names) if name in _watched]
    if not watched:
        return ""
    now = executed_code()
    earlier = frozenset.intersection(*(_watched[name] for name in watched))
    _watched.update(dict.fromkeys(watched, now))
    return _text_of(watched, lambda: unknown_files_text(watched, earlier)) if now != earlier else ""


def _text_of(module_names: Collection[str], look: Callable[[], str]) -> str:
    """Return the warning that ``look`` returns. If it raises an exception, return a warning that says so."""
    try:
        return look()
    except Exception as error:  # noqa: BLE001 - modules of libraries may raise anything if they are asked for their files
        return f"could not check which other files {' or '.join(module_names)} runs ({type(error).__name__}: {error})"


def unknown_files_text(module_names: Collection[str], earlier: Collection[str], later: Iterable[str] = ()) -> str:
    """Return a warning of files that modules ran, but that do not count as their code. Return an empty string if there
    are none that an earlier warning did not say.

    For example, a module put a folder outside its own on Python's search path.

    Args:
        module_names: The modules, which must have been imported.
        earlier: What :func:`executed_code` returned before.
        later: Other files that they will run.
    """
    # Other modules that a user has named belong to the families of other sweeps.
    known = {file.resolve() for name in {*module_names, *named_modules()} for file in files_of(name).values()}
    # Copied at once: other threads may import modules in the meantime.
    modules = set(sys.modules)
    tops = {top_name(name) for name in modules}
    # Installed packages make modules whose files lie elsewhere, as torch does for compiled steps.
    libraries = {top for top in tops if (file := file_of(top)) is not None and _is_of_library(file)}
    libraries |= {*sys.stdlib_module_names, *PRODUCT}
    imported = [name for name in modules.difference(earlier) if top_name(name) not in libraries]
    executed = [Path(path) for path in set(executed_files()) - set(earlier) if os.path.isfile(path)]
    files = [*filter(None, map(file_of, imported)), *executed, *map(Path, later)]
    own = {file.resolve() for file in files if not _is_of_library(file)}
    unknown = [
        path for path in sorted(map(str, own - known)) if _said.isdisjoint((name, path) for name in module_names)
    ]
    _said.update((name, path) for name in module_names for path in unknown)
    if not unknown:
        return ""
    more = f" and {len(unknown) - MOST_NAMED} more" if len(unknown) > MOST_NAMED else ""
    names = " or ".join(module_names)
    return (
        f"{names} also runs {', '.join(unknown[:MOST_NAMED])}{more}. Runs are reused even if these files change. "
        f"Import them from the folder of {names}, or raise its `version` when they change."
    )


def _is_of_library(file: Path) -> bool:
    """Return True for a file of Python, of an installed package, of this project, or that a compiler made."""
    compiled = [Path(os.path.realpath(given)) for name in COMPILED_BY if (given := os.environ.get(name))]
    return (
        is_installed(file.parent)
        or any(file.is_relative_to(folder) for folder in (*OWN_FOLDERS, *compiled))
        or COMPILED.search(file.as_posix()) is not None
    )


def files_run_later(module_name: str) -> list[str]:
    """Return the files of modules that functions of a module import when they are called, if Python finds them
    elsewhere than in the module's folder. Files that it runs by a path count, too."""
    files = files_of(module_name)
    imports = {file: imports_here(file, name) for name, file in files.items()}
    tops = {top_name(other) for one in imports.values() for other in one.names}
    unknown = sorted(top for top in tops - sys.stdlib_module_names if top not in sys.modules and is_outside(top))
    specs = filter(None, map(PathFinder.find_spec, unknown))
    # A package without a file is any directory of its name.
    modules = [
        place for spec in specs for place in ([spec.origin] if spec.origin else spec.submodule_search_locations or ())
    ]
    folder = Path(folder_of(module_name))
    by_path = [path for file, one in imports.items() for path in _run_by_path(file, one, folder)]
    return [*modules, *map(str, (*_served_elsewhere(module_name, folder), *by_path))]


def _served_elsewhere(module_name: str, folder: Path) -> list[Path]:
    """Return the files of modules that a module in a folder imports and that :data:`FINDER` finds in another folder:
    the working directory, or the folder of the search space."""
    places = {top: place.folder for top, place in FINDER.places.items()}
    others = [other for other in dict.fromkeys(places.values()) if other != folder]
    if not others or not folder_of(module_name):
        return []
    modules = own_modules(module_name, [folder, *others])
    return [
        one.file
        for name, one in modules.items()
        if one.file is not None and one.folder != folder and places.get(top_name(name)) == one.folder
    ]


def _run_by_path(file: Path, imports: Imports, folder: Path) -> Iterator[Path]:
    """Yield the files outside a folder that a file in it may run by their paths, seen from the folders above it."""
    for place in folder.parents[:MOST_ABOVE]:
        for part in imports.folders:
            names = (place / part / f"{name}.py" for name in imports.names if part)
            yield from (path for path in names if path != file and path.is_file())
