"""The finder of the user's modules. It finds a module only if the user's code names it.

Libraries try to import optional modules such as ``ujson``. If the user's folders were on Python's search path, a file
of such a name there would run. So these folders are never on the search path. :data:`FINDER` finds only modules that
were placed (:func:`place_module`), and only if Python does not find another module of that name.
"""

from __future__ import annotations

import os
import stat
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ExtensionFileLoader, ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

PROGRAM = str(Path(__file__).resolve().parents[2])
"""Folder of this project's packages."""
PRODUCT = ("trainables", "orchestrator", "search_spaces")
"""Packages of this project. Keys of runs contain the versions of its families, so their source is not hashed."""
MAIN = "__main__"
"""Name of the module of a script or notebook."""
INSTALLED = ("site-packages", "dist-packages")
"""Names of folders of installed packages, which other authors wrote."""
PYTHON_FOLDERS = tuple(
    {Path(path(sysconfig.get_path(name))) for name in ("stdlib", "platstdlib") for path in (str, os.path.realpath)}
)
"""Folders of Python's own modules. They may contain a folder of installed packages."""
INHERITED = "user code"
"""Key of :data:`FINDER` in the configuration that processes of :mod:`multiprocessing` inherit."""


def allowed(file: Path) -> str:
    """Return an empty string, because no file is refused."""
    return ""


class ModuleFolder(NamedTuple):
    """The folder of a module or package.

    ``refusal`` returns the reason if a file in it must not be imported, otherwise an empty string.
    """

    folder: Path
    refusal: Callable[[Path], str] = allowed


class SourceLoader(SourceFileLoader):
    """Loads a module from its source alone. A compiled file next to it may be another user's."""

    def get_code(self, fullname: str) -> CodeType:
        """Compile the source, without reading or writing a compiled file."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class Finder(MetaPathFinder):
    """Finds the modules that the user's code names, unless Python finds other modules of these names.

    Attributes:
        places: Folder of each module, by the name of its outermost package or of the module itself.
    """

    def __init__(self) -> None:
        self.places: dict[str, ModuleFolder] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        place = self.places.get(top_name(fullname))
        if place is None or (path is None and elsewhere(fullname) is not None):
            return None
        # Inside a package, only folders below the placed one count: a package can extend its own path.
        own = [place.folder] if path is None else [one for one in map(Path, path) if one.is_relative_to(place.folder)]
        name = fullname.rpartition(".")[2]
        for folder in own:
            if (file := module_file(folder, name)) is not None:
                if why := place.refusal(file):
                    raise ImportError(why)
                return _spec(fullname, file)
        packages = [str(folder / name) for folder in own if (folder / name).is_dir()]
        if not packages:
            # Python would run a compiled file in a package, which the hash of the code does not cover.
            if compiled := [folder / f"{name}.pyc" for folder in own if (folder / f"{name}.pyc").exists()]:
                raise ImportError(f"{compiled[0]} is compiled code without a source file: add {name}.py")
            return None
        spec = ModuleSpec(fullname, None, is_package=True)  # A package without a file.
        spec.submodule_search_locations = packages
        return spec

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, ({top: str(place.folder) for top, place in self.places.items()},)


FINDER = Finder()
"""The finder of this process. Processes of :mod:`multiprocessing`, such as data loaders, inherit it."""


def _received(folders: Mapping[str, str]) -> Finder:
    """Return the finder of this process after serving the folders that another process sent."""
    serve(folders)
    return FINDER


def _spec(name: str, file: Path) -> ModuleSpec | None:
    kind = SourceLoader if file.suffix in SOURCE_SUFFIXES else ExtensionFileLoader
    return spec_from_file_location(name, file, loader=kind(name, str(file)))


def is_outside(module_name: str) -> bool:
    """Return True for a module that is not part of this project."""
    return top_name(module_name) not in PRODUCT


def top_name(module_name: str) -> str:
    """Return the name of the module's outermost package, or of the module itself."""
    return module_name.partition(".")[0]


def module_file(folder: Path, name: str) -> Path | None:
    """Return the file of a module in a folder, or None if there is no such file."""
    path = folder.joinpath(*name.split("."))
    suffixes = (*EXTENSION_SUFFIXES, *SOURCE_SUFFIXES)
    names = [*(path / f"__init__{suffix}" for suffix in suffixes), *(Path(f"{path}{suffix}") for suffix in suffixes)]
    return next(filter(Path.is_file, names), None)


def elsewhere(top: str) -> str | None:
    """Return the file of the module or package that Python finds without :data:`FINDER`, or None if it finds none.

    A directory without a file counts only if it belongs to an installed package.
    """
    for spec in specs_elsewhere(top):
        directories = [one for one in spec.submodule_search_locations or () if is_installed(Path(one))]
        if places := [*filter(None, [spec.origin]), *directories]:
            return places[0]
    return None


def specs_elsewhere(top: str) -> Iterator[ModuleSpec]:
    """Yield the modules of a name that the finders of this process find without :data:`FINDER`, in their order.

    Packages that were installed for editing often have finders of their own.
    """
    for finder in sys.meta_path:
        spec = None if finder is FINDER else finder.find_spec(top, None)
        if spec is not None:
            yield spec


def is_installed(folder: Path) -> bool:
    """Return True for a folder of installed packages, or one below it."""
    return any(part in INSTALLED for part in folder.parts)


def is_of_python(file: Path) -> bool:
    """Return True for the file of a module of Python itself."""
    return any(map(file.is_relative_to, PYTHON_FOLDERS)) and not is_installed(file.parent)


def python_module_text(module_name: str) -> str:
    """Return a sentence that says that a module belongs to Python itself. Return an empty string for other modules, and
    for a module of the user that hides one of Python. The module is not imported."""
    top = top_name(module_name)
    file = getattr(sys.modules[top], "__file__", None) if top in sys.modules else elsewhere(top)
    is_own = is_of_python(Path(file)) if file and os.path.isabs(file) else top in sys.stdlib_module_names
    return f"{module_name} is a module of Python itself, so no model can be in it" if is_own else ""


def is_open_to_all(folder: str) -> bool:
    """Return True if every user can write to a folder."""
    try:
        return bool(os.stat(folder).st_mode & stat.S_IWOTH)
    except OSError:  # Missing, so nothing is found in it.
        return False


def serve(folders: Mapping[str, str]) -> None:
    """From now on, let Python find the user's modules in these folders, in which another process found them.

    The other process gets the folders from :func:`trainables.contract.user_modules.folders_of`.
    """
    install_finder()
    for top, folder in folders.items():
        if os.path.isdir(folder) and not is_open_to_all(folder):
            place_module(top, ModuleFolder(Path(folder)))


def install_finder() -> None:
    """Let Python ask :data:`FINDER` first, in this process and in those that it starts."""
    from multiprocessing.process import current_process  # Late, because every command imports this module.

    if FINDER not in sys.meta_path:
        sys.meta_path.insert(0, FINDER)
        current_process()._config[INHERITED] = FINDER  # type: ignore[attr-defined] # undocumented


def place_module(top: str, place: ModuleFolder) -> None:
    """From now on, let Python find a module or package in this place. Drop modules that were imported from another
    folder under this name.

    If files of a folder are refused, a later call does not allow them.
    """
    before = FINDER.places.get(top)
    if before is not None and before.folder == place.folder and before.refusal is not allowed:
        return
    FINDER.places[top] = place
    if before is None or before.folder == place.folder:
        return
    for name, module in list(sys.modules.items()):
        if top_name(name) == top and _is_from(before.folder, module):
            del sys.modules[name]


def _is_from(folder: Path, module: ModuleType) -> bool:
    """Return True if a module was imported from a folder or from one below it."""
    files = [file] if (file := getattr(module, "__file__", None)) else list(getattr(module, "__path__", ()))
    return any(Path(os.path.abspath(file)).is_relative_to(folder) for file in files)
