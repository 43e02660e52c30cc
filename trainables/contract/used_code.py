"""Code that a class in a notebook uses: the user's modules, and functions, classes and values of other cells.

Nothing is run. The names in the compiled functions of the class are looked up where these functions look them up.
"""

from __future__ import annotations

import dis
import inspect
import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cached_property, lru_cache, partial, partialmethod
from importlib.machinery import PathFinder
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import NamedTuple

from trainables.contract.class_texts import PLAIN, code_parts, functions_of, unwrapped, value_text
from trainables.contract.file_hashes import hash_of_files
from trainables.contract.finder import FINDER, MAIN, is_installed, is_outside, module_file, top_name
from trainables.contract.user_modules import TooManyModulesError, file_of, files_of, folder_of, own_modules

MOST_VALUES = 1000
"""Maximum number of values in a list or dict of a cell that counts. A longer one is data."""
MOST_NESTED = 5
"""Maximum depth of such lists."""
WRAPPERS = (property, staticmethod, classmethod, cached_property, partial, partialmethod)
"""Types of values with functions in them that cannot be called."""
_too_large: set[str] = set()
"""Modules that a warning has named because their packages have too many modules."""

log = logging.getLogger(__name__)


class UsedCode(NamedTuple):
    """What a class uses.

    Attributes:
        modules: Names of the user's imported modules.
        later: Hashes of the user's modules that functions import when they are called, by name. They are not imported
            yet.
        taken: Functions and classes of files that cells hold under names of their own.
        cells: Functions and classes of other cells, with the names by which they are reached.
        values: Plain values of other cells by name.
    """

    modules: tuple[str, ...]
    later: Mapping[str, str]
    taken: tuple[FunctionType | type, ...]
    cells: tuple[tuple[str, FunctionType | type], ...]
    values: Mapping[str, object]


def used_code(kind: object) -> UsedCode:
    """Return what the functions of a class in a notebook use, and the functions and classes of cells that they use."""
    walk = _Walk()
    if isinstance(kind, type):
        walk.visit_class("", kind)
    modules = sorted(name for name in walk.modules if _can_be_hashed(name))
    whole = {name for name in (*modules, *walk.later) if _is_whole_package(name, walk.later)}
    modules = [name for name in modules if whole.isdisjoint(_around(name))]
    later = {name: folder for name, folder in walk.later.items() if whole.isdisjoint(_around(name))}
    values = {name: value for name, value in walk.values.items() if name not in walk.assigned}
    hashes = {name: _hash_in(folder, name) for name, folder in later.items()}
    return UsedCode(tuple(modules), hashes, tuple(walk.taken), tuple(walk.cells), values)


def is_old_copy(one: FunctionType | type) -> bool:
    """Return True if the module of a function or class has another one under its name now, with other code.

    Tools that reload modules give the old one the new code, so it may stay.
    """
    module = sys.modules.get(one.__module__)
    now: object = module
    for name in one.__qualname__.split("."):
        now = getattr(now, "__dict__", {}).get(name)
    if now is None or any(one is part for part in unwrapped(now)):
        return False  # A function made it, or the file does not have it now.
    if isinstance(one, type):
        functions = [function for _, function in functions_of(one)]
        is_same = isinstance(now, type) and list(code_parts(one)) == list(code_parts(now))
    else:
        functions = [one]
        is_same = any(value_text(part) == value_text(one) for part in unwrapped(now) if inspect.isfunction(part))
    content = vars(module)
    return not is_same or any(
        function.__globals__ is not content for function in functions if function.__module__ == one.__module__
    )


def is_in_users_file(module_name: str) -> bool:
    """Return True for an imported module in a file of the user, which is not the main program."""
    return (
        is_outside(module_name)
        and top_name(module_name) not in (MAIN, *sys.stdlib_module_names)
        and file_of(module_name) is not None
        and not is_installed(Path(folder_of(module_name)))
    )


def is_in_cell(module_name: str) -> bool:
    """Return True for a module without a file, as that of the cells of a notebook."""
    is_library = not is_outside(module_name) or top_name(module_name) in sys.stdlib_module_names
    return not is_library and file_of(module_name) is None


class _Names(NamedTuple):
    """Names in compiled code: of global variables that it reads and assigns, of attributes, and of imports."""

    read: frozenset[str]
    assigned: frozenset[str]
    attributes: frozenset[str]
    imported: frozenset[str]


@lru_cache(maxsize=1024)
def _names_in(code: CodeType) -> _Names:
    read, assigned, attributes, imported = set[str](), set[str](), set[str](), set[str]()
    package = ""
    for instruction in dis.get_instructions(code):
        name = str(instruction.argval)
        match instruction.opname:
            case "LOAD_GLOBAL" | "LOAD_NAME" | "LOAD_FROM_DICT_OR_GLOBALS":
                read.add(name)
            case "STORE_GLOBAL" | "DELETE_GLOBAL":
                assigned.add(name)
            case "LOAD_ATTR" | "LOAD_METHOD":
                attributes.add(name)
            case "IMPORT_NAME":
                package = name
                imported.add(name)
            case "IMPORT_FROM":
                imported.add(f"{package}.{name}")
    inner = [_names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    own = (read, assigned, attributes, imported)
    return _Names(*(frozenset(one).union(*(names[place] for names in inner)) for place, one in enumerate(own)))


class _Walk:
    """A walk through the functions of a class, and through what they use. The attributes are those of
    :class:`UsedCode`, and the names that functions assign with ``global``."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.later: dict[str, Path] = {}
        self.taken: list[FunctionType | type] = []
        self.cells: list[tuple[str, FunctionType | type]] = []
        self.values: dict[str, object] = {}
        self.assigned: set[str] = set()
        self._seen: set[int] = set()

    def visit_class(self, name: str, kind: type) -> None:
        """Visit a class that cells use by a name, or the first class, which has none."""
        for base in kind.__mro__:
            if id(base) in self._seen:
                continue
            if is_in_cell(base.__module__):
                self._seen.add(id(base))
                if name:
                    self.cells.append((name, base))
                for _, function in functions_of(base):
                    self._visit_function("", function)
                for attribute, value in vars(base).items():
                    if not (attribute.startswith("__") and attribute.endswith("__")):
                        self._visit(f"{base.__qualname__}.{attribute}", value)
            elif is_in_users_file(base.__module__) and name:
                self._seen.add(id(base))
                self._take(base)

    def _visit_function(self, name: str, function: FunctionType) -> None:
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        if is_in_users_file(function.__module__):
            self._take(function)
            return
        if not is_in_cell(function.__module__):
            return
        if name:
            self.cells.append((name, function))
        names = _names_in(function.__code__)
        self.assigned |= names.assigned
        for one in sorted(names.read & function.__globals__.keys()):
            value = function.__globals__[one]
            if _is_plain(value):
                self.values[one] = value
            else:
                self._visit(one, value, names.attributes)
        for one in sorted(names.imported):
            self._visit_import(one)
        for number, held in enumerate(_held_by(function)):
            self._visit(f"{function.__qualname__} {number}", held)

    def _take(self, one: FunctionType | type) -> None:
        self.taken.append(one)
        self.modules.add(one.__module__)

    def _visit(self, name: str, value: object, attributes: frozenset[str] = frozenset(), depth: int = 0) -> None:
        """Visit a value that a function reaches by a name. ``attributes`` may be names of modules in a package."""
        if isinstance(value, ModuleType):
            self._visit_module(value.__name__, attributes)
        elif isinstance(value, type):
            self.visit_class(name, value)
        elif isinstance(value, Mapping | list | tuple | set | frozenset):
            if len(value) <= MOST_VALUES and depth < MOST_NESTED:
                items = value.items() if isinstance(value, Mapping) else enumerate(value)
                for place, entry in items:
                    self._visit(f"{name}[{place!r:.80}]", entry, depth=depth + 1)
        elif not isinstance(value, PLAIN):
            parts = unwrapped(value) if callable(value) or isinstance(value, WRAPPERS) else ()
            for part in parts:
                if inspect.isfunction(part):
                    self._visit_function(name, part)
            self.visit_class(f"the class of {name}", type(value))

    def _visit_module(self, name: str, attributes: frozenset[str]) -> None:
        if is_in_users_file(name):
            self.modules.add(name)
        elif is_in_cell(name):  # A package without a file.
            for inner in (f"{name}.{attribute}" for attribute in attributes):
                if inner in sys.modules:
                    self._visit_module(inner, attributes)

    def _visit_import(self, name: str) -> None:
        if name in sys.modules:
            self._visit_module(name, frozenset())
        elif (folder := _users_folder(top_name(name))) is not None and module_file(folder, name) is not None:
            self.later[name] = folder


def _held_by(function: FunctionType) -> Iterator[object]:
    """Yield the values that a function holds: its defaults, and variables of the functions around it."""
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # A variable without a value.
            yield cell.cell_contents


def _is_plain(value: object, depth: int = 0) -> bool:
    """Return True for a value whose text is its value, and for short lists and dicts of these."""
    if isinstance(value, PLAIN):
        return True
    if type(value) not in (list, tuple, set, frozenset, dict) or depth == MOST_NESTED:
        return False
    entries = [*value.keys(), *value.values()] if isinstance(value, dict) else list(value)  # type: ignore[call-overload]
    return len(entries) <= MOST_VALUES and all(_is_plain(entry, depth + 1) for entry in entries)


def _users_folder(top: str) -> Path | None:
    """Return the folder in which Python will find the user's module or package, or None if it is not the user's."""
    if not is_outside(top) or top in sys.stdlib_module_names:
        return None
    spec = PathFinder.find_spec(top)
    if spec is None:
        place = FINDER.places.get(top)
        return None if place is None else place.folder
    place_of_it = next(iter(spec.submodule_search_locations or filter(None, [spec.origin])), None)
    folder = None if place_of_it is None else Path(place_of_it).absolute().parent
    return None if folder is None or is_installed(folder) else folder


def _hash_in(folder: Path, name: str) -> str:
    """Return the hash that a module will have when it is imported."""
    named = own_modules(name, [folder])
    return hash_of_files({inner: one.file for inner, one in named.items() if one.file is not None})


def _can_be_hashed(name: str) -> bool:
    """Return False for a module in a package with too many modules, and warn of it once."""
    try:
        files_of(name)
    except TooManyModulesError as error:
        if name not in _too_large:
            _too_large.add(name)
            log.warning(f"a class in this notebook uses {name}, whose changes are not noticed: {error}")
        return False
    return True


def _is_whole_package(name: str, later: Mapping[str, Path]) -> bool:
    """Return True for a package with a file: its hash covers all modules in it."""
    file = module_file(later[name], name) if name in later else file_of(name)
    return file is not None and file.name.startswith("__init__.")


def _around(name: str) -> Iterator[str]:
    """Yield the packages around a module."""
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts)))
