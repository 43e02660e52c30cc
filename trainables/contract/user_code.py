"""Import of the code that a user names, and the folders in which it may be found.

A search space names a module. Python then finds that module, its package, and what their files import in turn
(:mod:`trainables.contract.user_modules`), but no other file in the folder, and no module that is also installed
(:mod:`trainables.contract.finder`).
"""

from __future__ import annotations

import importlib
import logging
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from trainables.contract.finder import (
    FINDER,
    MAIN,
    PROGRAM,
    ModuleFolder,
    allowed,
    elsewhere,
    install_finder,
    is_installed,
    is_open_to_all,
    is_outside,
    module_file,
    place_module,
    python_module_text,
    top_name,
)
from trainables.contract.present_code import note_import
from trainables.contract.unknown_files import begin_watch, executed_code
from trainables.contract.user_modules import folder_of, note_named, own_modules

log = logging.getLogger(__name__)

BUILT_IN = "built-in"
"""Text for the place of a module of Python itself that has no file."""
PYTHON_PATH = "PYTHONPATH"
"""Variable with folders of Python's search path."""
USER_PATH = "ORCHESTRATOR_USER_PYTHONPATH"
"""Variable in which workers on this machine find the user's own value of :data:`PYTHON_PATH`."""

_offered: list[str] = []
"""Folders of the search space that was opened last, the nearest first."""
_here = ""
"""The working directory, if the user's command names code or a search space."""
_is_here_open = False
"""Whether other users can write the working directory, or a folder above it."""


class NameTakenError(ImportError):
    """Another module is imported instead of the module in the folder of the search space."""


class PythonModuleError(ImportError):
    """The module belongs to Python itself."""


def offer(folders: Sequence[str]) -> None:
    """Specify the folders of a search space, the nearest first, in which :func:`import_code` looks for modules.

    They replace the folders of an earlier call. Modules in them hide modules of the same name in those folders.
    """
    _offered[:] = folders


def offer_working_directory(folder: str, *, is_open: bool) -> None:
    """Specify the working directory, in which :func:`import_code` looks last.

    It is only used for a search space below it, and only if it is not ``is_open``: other users can write an open
    directory, or a folder above it.
    """
    global _here, _is_here_open
    _here = folder
    _is_here_open = is_open


def import_code(module_name: str, is_usable: Callable[[ModuleType], bool] | None = None) -> ModuleType:
    """Import a module that the user has named, from an offered folder or from where Python finds it.

    Args:
        module_name: The module.
        is_usable: Returns False for a module without the class that is looked for. If it is installed, the files of
            its package, which may be a large library, are then not read.

    Raises:
        NameTakenError: Another module of this name is imported instead.
        PythonModuleError: The module belongs to Python itself.
        ImportError: The module is in a folder that everyone can write to, so other users could put modules there.
        Exception: The module itself may raise any exception.
    """
    find_offered(module_name)
    if text := python_module_text(module_name):
        raise PythonModuleError(text)
    earlier = executed_code()
    is_new = module_name not in sys.modules
    if is_new:
        importlib.invalidate_caches()  # It may just have been written.
        importlib.import_module(module_name)
    module = sys.modules[module_name]
    folder = folder_of(module_name)
    if is_usable is not None and is_installed(Path(folder)) and not is_usable(module):
        return module
    if is_new and is_outside(module_name):
        note_import(module_name, earlier)
    is_first = note_named(module_name)  # A notebook may have imported the module before.
    if (is_new or is_first) and is_outside(module_name) and (text := begin_watch(module_name, earlier)):
        log.warning(text)
    if folder and module_name != MAIN:
        _serve([Path(folder)], module_name)  # Without this, another process may not find the module.
    return module


def find_offered(module_name: str) -> None:
    """Let Python find a module from outside this project, and the modules that it imports, in the offered folders.

    Raises:
        NameTakenError: Another module of this name would be imported instead.
        ImportError: The module is in a folder that everyone can write to.
    """
    if not is_outside(module_name) or module_name == MAIN:
        return
    offered = [Path(folder).resolve() for folder in _offered if not is_open_to_all(folder)]
    # Code that a home names has been imported already, from a folder that this user trusts.
    here = _usable_here() if module_name not in sys.modules else []
    for folder in offered:
        if module_file(folder, module_name) is not None:
            _serve([folder, *offered, *here], module_name)
            _check_place(folder, module_name)
            return
    if here and module_file(here[0], module_name) is not None and elsewhere(top_name(module_name)) is None:
        _serve([*here, *offered], module_name)
        return
    for place in filter(is_open_to_all, filter(None, (*_offered, _here))):
        if module_file(Path(place), module_name) is not None:
            raise ImportError(
                f"everyone can write to {place}, so other users can put modules there: remove that permission "
                f"(chmod o-w {shlex.quote(place)}), or move the code"
            )


def import_from(folder: Path, module_name: str, refusal: Callable[[Path], str]) -> None:
    """Import a module and, from the same folder, everything it imports.

    ``refusal`` returns the reason if a file must not be imported, otherwise an empty string. Raises
    :class:`NameTakenError` if another module of this name is imported instead, and any exception of the module.
    """
    _serve([folder], module_name, refusal)
    _check_place(folder, module_name)
    importlib.import_module(module_name)


def _usable_here() -> list[Path]:
    """Return a list with the working directory if modules may be found in it, otherwise an empty list."""
    # A user who is in another user's folder and opens a search space elsewhere has not named the code in that folder.
    if not _here or is_open_to_all(_here):
        return []
    here = Path(_here).resolve()
    is_above = any(Path(folder).resolve().is_relative_to(here) for folder in _offered)
    return [here] if not _offered or (is_above and not _is_here_open) else []


def _serve(folders: Sequence[Path], module_name: str, refusal: Callable[[Path], str] = allowed) -> None:
    """From now on, let Python find this module in ``folders[0]``, and its imports in the first folder that contains
    them."""
    if is_installed(folders[0]):
        return
    install_finder()
    used = {top_name(name): named.folder for name, named in own_modules(module_name, folders).items()}
    for top, folder in used.items():
        place_module(top, ModuleFolder(folder, refusal))


def _check_place(folder: Path, module_name: str) -> None:
    """Raise :class:`NameTakenError` if Python has imported, or would import, another module than the one in a
    folder."""
    top = top_name(module_name)
    own = module_file(folder, top)
    if top in sys.modules:
        other = getattr(sys.modules[top], "__file__", None) or (BUILT_IN if own is not None else None)
    else:
        other = elsewhere(top)
    if other is None or (own is not None and os.path.exists(other) and os.path.samefile(other, own)):
        return
    whose = "Python's own module" if top in sys.stdlib_module_names else "another module"
    # The empty path is the working directory. A module that was imported from there stays if the directory changes.
    here = module_file(Path(), top) if "" in sys.path and top not in sys.modules else None
    is_here = here is not None and os.path.exists(other) and os.path.samefile(here, other)
    remedy = f"rename the file, or change the working directory to {folder}" if is_here else "rename the file"
    raise NameTakenError(f"{whose} of that name ({other}) hides {module_file(folder, module_name)}: {remedy}")


def unused_file(module_name: str) -> Path | None:
    """Return the file of a module in the working directory, or None if there is none or modules may be found there."""
    return module_file(Path(_here), module_name) if _here and not _usable_here() else None


def give_path_to_children() -> None:
    """Let processes that this one starts find the same modules, and keep the user's own ``PYTHONPATH`` for scripts."""
    os.environ.setdefault(USER_PATH, os.environ.get(PYTHON_PATH, ""))
    os.environ[PYTHON_PATH] = path_of_children()


def user_path(variables: Mapping[str, str]) -> str:
    """Return the ``PYTHONPATH`` that the user's shell has set, or an empty string."""
    return variables.get(USER_PATH, variables.get(PYTHON_PATH, ""))


def path_of_children() -> str:
    """Return the value of ``PYTHONPATH`` with which another process finds the same modules as this process.

    It omits the folders of the user's modules, which :func:`serve` passes on. It also omits folders that Python adds:
    the working directory of a notebook and the folder of a script. A folder in the user's own ``PYTHONPATH`` is never
    omitted.
    """
    chosen = {PROGRAM, *map(os.path.realpath, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))}
    omitted = {str(place.folder) for place in FINDER.places.values()}
    if not is_installed(Path(folder_of(MAIN))):
        omitted.add(folder_of(MAIN))
    with suppress(FileNotFoundError):  # The working directory was deleted.
        omitted.add(os.getcwd())
    return search_path(path for path in sys.path if path and os.path.realpath(path) not in omitted - chosen)


def search_path(paths: Iterable[str]) -> str:
    """Return directories as the value of ``PYTHONPATH``. Omit names that it cannot contain, and log them.

    For example, the directory ``/tmp/run_10:30`` would become two: ``/tmp/run_10``, in which other users may have put
    modules, and ``30``, relative to the directory of an actor.
    """
    directories = dict.fromkeys(map(os.path.abspath, paths))
    unusable = [directory for directory in directories if os.pathsep in directory]
    for directory in unusable:
        log.warning(f"Ray's workers find no modules in {directory}, because of the {os.pathsep!r} in its name")
    return os.pathsep.join(directory for directory in directories if directory not in unusable)
