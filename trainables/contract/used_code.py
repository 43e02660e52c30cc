"""Code that a class in a notebook uses: the user's modules, and functions, classes and values of other cells.

Nothing is run. The names in the compiled functions of the class are looked up where these functions look them up.
"""

from __future__ import annotations

import enum
import inspect
import logging
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial, partialmethod
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import NamedTuple

import numpy as np

from trainables.contract.class_texts import (
    BUILT_IN,
    PLAIN,
    is_special,
    module_of,
    value_text,
)
from trainables.contract.entries import entries_of, is_long
from trainables.contract.file_hashes import hash_of_files
from trainables.contract.finder import FINDER, is_installed, is_outside, module_file, specs_elsewhere, top_name
from trainables.contract.held_objects import (
    USUAL,
    functions_of,
    name_of,
    name_of_callable,
    own_attributes,
    unwrapped,
    values_around,
)
from trainables.contract.imports import LONGEST_NAME, MODULE
from trainables.contract.labels import Labels
from trainables.contract.names_in_code import names_in
from trainables.contract.user_modules import (
    TooManyModulesError,
    file_of,
    files_of,
    is_in_cell,
    is_in_users_file,
    modules_in,
    own_modules,
)

MOST_REACHED = 10_000
"""Maximum number of entries of lists and dicts in each other that count. Those deeper in them are data."""
VALUES = (*PLAIN, np.generic, np.dtype, enum.Enum, range, Fraction, Decimal)
"""Types of values whose text is their value."""
_too_large: set[str] = set()
"""Modules that a warning has named because their packages have too many modules."""

log = logging.getLogger(__name__)


class UsedCode(NamedTuple):
    """What a class uses. Each function and class has a label: its name, with a number if another one has this name.

    Attributes:
        modules: Names of the user's imported modules.
        hashes: Hashes of the user's modules that are not imported by name, by name. Functions will import them when
            they are called, or cells have loaded their files.
        taken: Functions and classes of files that cells hold, by label.
        cells: Functions and classes of other cells, by label.
        constants: Texts of the numbers and texts of other cells by name, if no function assigns to the name.
        values: Texts of other plain values of cells by name, with the labels of what they hold. A list or dict has one
            text. Functions and classes of libraries count by their names, because a cell may give its name to another
            one.
    """

    modules: tuple[str, ...]
    hashes: Mapping[str, str]
    taken: Mapping[str, FunctionType | type]
    cells: Mapping[str, FunctionType | type]
    constants: Mapping[str, str]
    values: Mapping[str, str]


def used_code(kind: object) -> UsedCode:
    """Return what the functions of a class in a notebook use, and the functions and classes of cells that they use."""
    walk = _Walk()
    if isinstance(kind, type):
        walk.visit_class("", kind)
        walk.visit_modules_by_computed_names()
    modules = sorted(name for name in walk.modules if _can_be_hashed(name))
    whole = {name for name in (*modules, *walk.later) if _is_whole_package(name, walk.later)}
    modules = [name for name in modules if whole.isdisjoint(_around(name))]
    later = {name: folder for name, folder in walk.later.items() if whole.isdisjoint(_around(name))}
    hashes = {**walk.loaded, **{name: _hash_in(folder, name) for name, folder in later.items()}}
    values = {name: "; ".join(sorted(set(texts))) for name, texts in walk.values.items() if name not in walk.assigned}
    constants = {name: values.pop(name) for name in sorted(walk.constants & values.keys())}
    return UsedCode(tuple(modules), hashes, walk.taken, walk.cells, constants, values)


class _Walk:
    """A walk through the functions of a class, and through what they use.

    Attributes:
        modules: Names of the user's imported modules.
        later: Folders of the user's modules that functions import when they are called, by name.
        loaded: Hashes of files that cells have loaded under names that are not those of imported modules.
        taken: See :class:`UsedCode`.
        cells: See :class:`UsedCode`.
        constants: Names of variables of cells with a number or text.
        values: Texts of values by the name of the variable of a cell.
        assigned: Names that functions assign with ``global``.
    """

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.later: dict[str, Path] = {}
        self.loaded: dict[str, str] = {}
        self.taken: dict[str, FunctionType | type] = {}
        self.cells: dict[str, FunctionType | type] = {}
        self.constants: set[str] = set()
        self.values: dict[str, list[str]] = {}
        self.assigned: set[str] = set()
        self._attributes: set[str] = set()
        self._packages: list[str] = []
        self._whole_packages: set[str] = set()
        self._texts: set[str] = set()
        self._imports_by_name = False
        self._labels = Labels()
        # Kept by identity. Without references, another object could get the identity of one that was made here.
        self._seen: dict[int, object] = {}
        self._is_in_cell = cache(is_in_cell)
        self._is_in_users_file = cache(is_in_users_file)

    def visit_class(self, name: str, kind: type) -> None:
        """Visit a class that cells use by a name, or the first class, which has none."""
        if name:
            self._add_text(name, f"{name} has {self._labels.label_of(kind)}")
        for base in kind.__mro__:
            if id(base) in self._seen:
                continue
            is_first = not name and base is kind and not self._is_in_users_file(module_of(base))
            if is_first or self._is_in_cell(module_of(base)):
                self._seen[id(base)] = base
                self._visit_parts(base)
                if name:
                    self.cells[self._labels.label_of(base)] = base
            elif name:
                self._seen[id(base)] = base
                if self._is_in_users_file(module_of(base)):
                    self._take(base)

    def visit_modules_by_computed_names(self) -> None:
        """Visit modules that functions import by names that they compute or get, after all functions."""
        if self._imports_by_name:
            for text in sorted(self._texts):
                self._visit_import(text)
        for package in sorted(self._whole_packages):
            self._visit_import(package)
            if (folder := _users_folder(top_name(package))) is not None and module_file(folder, package) is None:
                for inner in _modules_in(folder, package):
                    self._visit_import(inner)
        while self._packages:
            package = self._packages.pop()
            # It has no file. Each attribute that a function reads could be the name of a module in it.
            for attribute in sorted(self._attributes):
                if len(package) < LONGEST_NAME:  # A link to a directory around it gives endless names.
                    self._visit_import(f"{package}.{attribute}")

    def _visit_parts(self, kind: type) -> None:
        label = self._labels.label_of(kind)
        for _, function in functions_of(kind):
            self._visit_function("", function)
        for attribute, value in list(vars(kind).items()):
            if not is_special(attribute):
                self._visit(f"{label}.{attribute}", value, has_values=False)
        if type(kind) is not type:
            self.visit_class(f"the class of {label}", type(kind))

    def _visit_function(self, name: str, function: FunctionType) -> None:
        label = self._labels.label_of(function)
        if name:
            self._add_text(name, f"{name} has {label}")
        if id(function) in self._seen:
            return
        self._seen[id(function)] = function
        if self._is_in_users_file(module_of(function)):
            self._take(function)
        elif self._is_in_cell(module_of(function)):
            if name:
                self.cells[label] = function
            self._visit_names(function)
        else:
            for held in values_around(function):  # A library's decorator around a function of a cell.
                if inspect.isfunction(held) and self._is_users(held):
                    self._visit_function(name, held)
            return
        defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        for number, held in enumerate((*defaults, *values_around(function))):
            self._visit(f"{label} {number}", held, has_values=False)
        # Their numbers do not count: libraries and training count calls in them.
        for attribute, held in own_attributes(function).items():
            if not is_special(attribute):
                self._visit(f"{label}.{attribute}", held, has_values=False)

    def _visit_names(self, function: FunctionType) -> None:
        names = names_in(function.__code__)
        self.assigned |= names.assigned
        self._attributes |= names.attributes
        self._whole_packages |= names.packages
        self._imports_by_name |= names.imports_by_name
        for one in sorted(names.read & function.__globals__.keys()):
            if isinstance(function.__globals__[one], PLAIN):
                self.constants.add(one)
            self._visit(one, function.__globals__[one])
        for one in sorted(names.imported):
            self._visit_import(one)

    def _take(self, one: FunctionType | type) -> None:
        self.taken[self._labels.label_of(one)] = one
        self.modules.add(module_of(one))

    def _is_users(self, one: FunctionType | type) -> bool:
        return self._is_in_cell(module_of(one)) or self._is_in_users_file(module_of(one))

    def _visit(self, name: str, value: object, *, has_values: bool = True) -> None:
        """Visit a value that a function reaches by a name, and the entries of lists and dicts in it.

        Without ``has_values``, only code counts: the text of what holds the value has its plain values.
        """
        add = partial(self._add_text, name) if has_values else _ignore
        waiting = deque([(name, value)])
        places: dict[int, tuple[str, object]] = {}
        reached = 0
        while waiting:
            place, entry = waiting.popleft()
            if isinstance(entry, VALUES) or _is_type_of_numbers(entry):
                add(f"{place} = {value_text(entry)}")
                if isinstance(entry, str) and MODULE.fullmatch(entry):
                    self._texts.add(entry)
                if type(entry) not in VALUES:  # Its class can have methods.
                    self._visit_object(f"{place}[class]", type(entry))
            elif is_long(entry) or reached > MOST_REACHED:
                add(f"{place} is data")
                if type(entry) not in USUAL:
                    self._visit_object(f"{place}[class]", type(entry))
            elif (inner := entries_of(entry)) is None:
                self._visit_object(place, entry)
            elif id(entry) in places:
                add(f"{place} is {places[id(entry)][0]}")
            else:
                places[id(entry)] = (place, entry)
                reached += len(inner)
                waiting += [(f"{place}[{key}]", one) for key, one in inner]

    def _add_text(self, place: str, text: str) -> None:
        self.values.setdefault(place.partition("[")[0], []).append(text)

    def _visit_object(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType):
            self._add_text(name, f"{name} is {own_attributes(value).get('__name__')}")
            self._visit_module(value)
        elif isinstance(value, BUILT_IN):
            self._add_text(name, f"{name} is {name_of(value)}")
        elif isinstance(value, type):
            self.visit_class(name, value)
        elif isinstance(value, partial | partialmethod):
            self._visit(name, [value.func, value.args, value.keywords])
        else:
            held = list(own_attributes(value).values()) if callable(value) and not inspect.isfunction(value) else []
            for part in (*unwrapped(value), *(part for one in held for part in unwrapped(one))):
                if inspect.isfunction(part):
                    self._visit_function(name, part)
            if not inspect.isfunction(value) and (shown := name_of_callable(value)):
                self._add_text(name, f"{name} is {shown}")
            owner = value.__self__ if isinstance(value, MethodType) else value
            kind = owner if isinstance(owner, type) else type(owner)
            if self._is_users(kind):
                self.visit_class(f"the class of {name}", kind)

    def _visit_module(self, module: ModuleType) -> None:
        name = str(own_attributes(module).get("__name__", ""))
        if sys.modules.get(name) is not module:
            file = own_attributes(module).get("__file__")
            if isinstance(file, str) and Path(file).is_file() and not is_installed(Path(file)):
                self.loaded[f"file of {name}"] = hash_of_files({name: Path(file)})
        elif self._is_in_users_file(name):
            self.modules.add(name)
        elif self._is_in_cell(name):
            self._packages.append(name)

    def _visit_import(self, name: str) -> None:
        if isinstance(module := sys.modules.get(name), ModuleType):
            self._visit_module(module)
        elif (folder := _users_folder(top_name(name))) is not None:
            if module_file(folder, name) is not None:
                self.later[name] = folder
            elif folder.joinpath(*name.split(".")).is_dir():
                self._packages.append(name)


def _ignore(text: str) -> None:
    """Ignore a text."""


def _modules_in(folder: Path, package: str) -> list[str]:
    """Return the modules of a package. If they are too many, warn once and return none."""
    try:
        return modules_in(folder, package)
    except TooManyModulesError as error:
        _warn_of_too_large(package, error)
        return []


def _warn_of_too_large(name: str, error: TooManyModulesError) -> None:
    if name not in _too_large:
        _too_large.add(name)
        log.warning(f"a class in this notebook uses {name}, whose changes are not noticed: {error}")


def _is_type_of_numbers(value: object) -> bool:
    """Return True for a type of numbers of torch."""
    return (type(value).__module__, type(value).__name__) == ("torch", "dtype")


def _users_folder(top: str) -> Path | None:
    """Return the folder in which Python will find the user's module or package, or None if it is not the user's."""
    if not is_outside(top) or top in sys.stdlib_module_names:
        return None
    spec = next(specs_elsewhere(top), None)
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
        _warn_of_too_large(name, error)
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
