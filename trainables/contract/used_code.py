"""Code that a class in a notebook uses: the user's modules, and functions, classes and values of other cells.

Nothing is run. The names in the compiled functions of the class are looked up where these functions look them up.
"""

from __future__ import annotations

import dis
import enum
import inspect
import logging
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache, partial, partialmethod
from importlib.machinery import PathFinder
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import NamedTuple

import numpy as np

from trainables.contract.class_texts import (
    BUILT_IN,
    PLAIN,
    fields_of,
    functions_of,
    module_of,
    name_of,
    own_attributes,
    unwrapped,
    value_text,
    values_around,
)
from trainables.contract.file_hashes import hash_of_files
from trainables.contract.finder import FINDER, is_installed, is_outside, module_file, top_name
from trainables.contract.imports import IMPORTING, MODULE
from trainables.contract.user_modules import (
    TooManyModulesError,
    file_of,
    files_of,
    is_in_cell,
    is_in_users_file,
    own_modules,
)

MOST_ENTRIES = 1000
"""Maximum number of entries of a list or dict of a cell that counts, with those of lists in it. A longer one is
data."""
VALUES = (*PLAIN, np.generic, np.dtype, enum.Enum, range, Fraction, Decimal)
"""Types of values whose text is their value."""
LIBRARY = (FunctionType, type, ModuleType, *BUILT_IN)
"""Types of functions, classes and modules, which have a name."""
_too_large: set[str] = set()
"""Modules that a warning has named because their packages have too many modules."""

log = logging.getLogger(__name__)


class UsedCode(NamedTuple):
    """What a class uses.

    Attributes:
        modules: Names of the user's imported modules.
        hashes: Hashes of the user's modules that are not imported by name, by name. Functions will import them when
            they are called, or cells have loaded their files.
        taken: Functions and classes of files that cells hold.
        cells: Functions and classes of other cells, with the names by which they are reached.
        values: Texts of plain values of other cells by name. A list or dict has one text. Functions and classes of
            libraries count by their names, because a cell may give its name to another one.
    """

    modules: tuple[str, ...]
    hashes: Mapping[str, str]
    taken: tuple[FunctionType | type, ...]
    cells: tuple[tuple[str, FunctionType | type], ...]
    values: Mapping[str, str]


def used_code(kind: object) -> UsedCode:
    """Return what the functions of a class in a notebook use, and the functions and classes of cells that they use."""
    walk = _Walk()
    if isinstance(kind, type):
        walk.visit_class("", kind)
    modules = sorted(name for name in walk.modules if _can_be_hashed(name))
    whole = {name for name in (*modules, *walk.later) if _is_whole_package(name, walk.later)}
    modules = [name for name in modules if whole.isdisjoint(_around(name))]
    later = {name: folder for name, folder in walk.later.items() if whole.isdisjoint(_around(name))}
    hashes = {**walk.loaded, **{name: _hash_in(folder, name) for name, folder in later.items()}}
    values = {name: "; ".join(sorted(texts)) for name, texts in walk.values.items() if name not in walk.assigned}
    return UsedCode(tuple(modules), hashes, tuple(walk.taken), tuple(walk.cells), values)


class _Names(NamedTuple):
    """Names in compiled code: of global variables that it reads and assigns, of attributes, and of imports."""

    read: frozenset[str]
    assigned: frozenset[str]
    attributes: frozenset[str]
    imported: frozenset[str]


@lru_cache(maxsize=1024)
def _names_in(code: CodeType) -> _Names:
    read = set[str]()
    assigned = set[str]()
    attributes = set[str]()
    imported = set[str]()
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
    if not IMPORTING.isdisjoint(read | attributes):  # A call such as `importlib.import_module("helper")`.
        imported.update(text for text in code.co_consts if isinstance(text, str) and MODULE.fullmatch(text))
    inner = [_names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    own = (read, assigned, attributes, imported)
    return _Names(*(frozenset(one).union(*(names[place] for names in inner)) for place, one in enumerate(own)))


class _Walk:
    """A walk through the functions of a class, and through what they use.

    Attributes:
        modules: Names of the user's imported modules.
        later: Folders of the user's modules that functions import when they are called, by name.
        loaded: Hashes of files that cells have loaded under names that are not those of imported modules.
        taken: See :class:`UsedCode`.
        cells: See :class:`UsedCode`.
        values: Texts of values by the name of the variable of a cell.
        assigned: Names that functions assign with ``global``.
    """

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.later: dict[str, Path] = {}
        self.loaded: dict[str, str] = {}
        self.taken: list[FunctionType | type] = []
        self.cells: list[tuple[str, FunctionType | type]] = []
        self.values: dict[str, list[str]] = {}
        self.assigned: set[str] = set()
        self._seen: set[int] = set()
        self._is_in_cell = cache(is_in_cell)
        self._is_in_users_file = cache(is_in_users_file)

    def visit_class(self, name: str, kind: type) -> None:
        """Visit a class that cells use by a name, or the first class, which has none."""
        for base in kind.__mro__:
            if id(base) in self._seen:
                continue
            if self._is_in_cell(module_of(base)):
                self._seen.add(id(base))
                if name:
                    self.cells.append((name, base))
                for _, function in functions_of(base):
                    self._visit_function("", function)
                for attribute, value in list(vars(base).items()):
                    if not ((attribute.startswith("__") and attribute.endswith("__")) or isinstance(value, PLAIN)):
                        self._visit(f"{base.__qualname__}.{attribute}", value, has_values=False)
            elif name:
                self._seen.add(id(base))
                if self._is_in_users_file(module_of(base)):
                    self._take(base)

    def _visit_function(self, name: str, function: FunctionType) -> None:
        if id(function) in self._seen:
            return
        self._seen.add(id(function))
        if self._is_in_users_file(module_of(function)):
            self._take(function)
        elif self._is_in_cell(module_of(function)):
            if name:
                self.cells.append((name, function))
            self._visit_names(function)
        else:
            return
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        for number, held in enumerate((*defaults, *values_around(function))):
            self._visit(f"{function.__qualname__} {number}", held, has_values=False)

    def _visit_names(self, function: FunctionType) -> None:
        names = _names_in(function.__code__)
        self.assigned |= names.assigned
        for one in sorted(names.read & function.__globals__.keys()):
            self._visit(one, function.__globals__[one], names.attributes)
        for one in sorted(names.imported):
            self._visit_import(one)

    def _take(self, one: FunctionType | type) -> None:
        self.taken.append(one)
        self.modules.add(module_of(one))

    def _visit(
        self, name: str, value: object, attributes: frozenset[str] = frozenset(), *, has_values: bool = True
    ) -> None:
        """Visit a value that a function reaches by a name, and the entries of lists and dicts in it.

        ``attributes`` may be names of modules in a package. Without ``has_values``, only code counts: the text of what
        holds the value has its plain values.
        """
        entries = [(name, value)]
        reached = 0
        around = set[int]()
        leaves: list[tuple[str, object]] = []
        while entries:
            place, entry = entries.pop()
            if isinstance(entry, VALUES) or _is_type_of_numbers(entry):
                self._add_value(place, f"{place} = {value_text(entry)}", has_values=has_values)
                if type(entry) not in VALUES:  # Its class can have methods.
                    leaves.append((f"{place}[class]", type(entry)))
            elif (inner := _entries_of(entry)) is None:
                leaves.append((place, entry))
            elif id(entry) not in around:
                around.add(id(entry))
                reached += len(inner)
                entries += [(f"{place}[{key}]", one) for key, one in inner]
            if reached > MOST_ENTRIES:  # Data.
                if has_values:
                    self.values[name] = [f"more than {MOST_ENTRIES:,} entries"]
                return
        for place, leaf in leaves:
            self._visit_object(place, leaf, attributes, has_values=has_values)

    def _add_value(self, place: str, text: str, *, has_values: bool) -> None:
        if has_values:
            self.values.setdefault(place.partition("[")[0], []).append(text)

    def _visit_object(self, name: str, value: object, attributes: frozenset[str], *, has_values: bool) -> None:
        if isinstance(value, LIBRARY):
            shown = own_attributes(value).get("__name__") if isinstance(value, ModuleType) else name_of(value)
            self._add_value(name, f"{name} is {shown}", has_values=has_values)
        if isinstance(value, ModuleType):
            self._visit_module(value, attributes)
        elif isinstance(value, type):
            self.visit_class(name, value)
        elif isinstance(value, partial | partialmethod):
            self._visit(name, [value.func, value.args, value.keywords], has_values=has_values)
        elif id(value) not in self._seen:
            held = list(own_attributes(value).values()) if callable(value) else []
            for part in (*unwrapped(value), *(part for one in held for part in unwrapped(one))):
                if inspect.isfunction(part):
                    self._visit_function(name, part)
            self._seen.add(id(value))
            owner = value.__self__ if isinstance(value, MethodType) else value
            self.visit_class(f"the class of {name}", owner if isinstance(owner, type) else type(owner))

    def _visit_module(self, module: ModuleType, attributes: frozenset[str]) -> None:
        name = str(own_attributes(module).get("__name__", ""))
        if sys.modules.get(name) is not module:
            file = own_attributes(module).get("__file__")
            if isinstance(file, str) and Path(file).is_file() and not is_installed(Path(file)):
                self.loaded[f"file of {name}"] = hash_of_files({name: Path(file)})
        elif self._is_in_users_file(name):
            self.modules.add(name)
        elif self._is_in_cell(name):  # A package without a file.
            for inner in (sys.modules.get(f"{name}.{attribute}") for attribute in sorted(attributes)):
                if isinstance(inner, ModuleType) and inner is not module:
                    self._visit_module(inner, attributes)

    def _visit_import(self, name: str) -> None:
        if isinstance(module := sys.modules.get(name), ModuleType):
            self._visit_module(module, frozenset())
        elif (folder := _users_folder(top_name(name))) is not None and module_file(folder, name) is not None:
            self.later[name] = folder


def _entries_of(value: object) -> list[tuple[str, object]] | None:
    """Return the entries of a list or dict, or the fields of an object that only has fields, each with its place, and
    the class unless it is that of Python. Return None for any other value."""
    inner = _inner_of(value)
    is_usual = type(value) in (dict, MappingProxyType, set, frozenset, list, tuple, deque)
    return inner if inner is None or is_usual else [*inner, ("class", type(value))]


def _inner_of(value: object) -> list[tuple[str, object]] | None:
    # Methods of a subclass could be others than those of the type.
    match value:
        case dict() | MappingProxyType():
            items = list(dict.items(value) if isinstance(value, dict) else value.items())
            places = [repr(key) if isinstance(key, PLAIN) else str(number) for number, (key, _) in enumerate(items)]
            keys = [(f"key {place}", key) for place, (key, _) in zip(places, items, strict=True)]
            return [*keys, *((place, entry) for place, (_, entry) in zip(places, items, strict=True))]
        case set():
            return [("", entry) for entry in set.__iter__(value)]
        case frozenset():
            return [("", entry) for entry in frozenset.__iter__(value)]
        case list():
            return [(str(number), entry) for number, entry in enumerate(list.__iter__(value))]
        case tuple():
            return [(str(number), entry) for number, entry in enumerate(tuple.__iter__(value))]
        case deque():
            return [(str(number), entry) for number, entry in enumerate(deque.__iter__(value))]
    return fields_of(value)


def _is_type_of_numbers(value: object) -> bool:
    """Return True for a type of numbers of torch."""
    return (type(value).__module__, type(value).__name__) == ("torch", "dtype")


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
