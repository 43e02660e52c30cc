"""A new import of modules whose files have changed, as if this process had never imported them.

:func:`importlib.reload` keeps names that the new file does not define, and modules that import each other get what the
others were before. So all changed modules are forgotten together, and one import brings back what is still used. It
fills the old module objects, because the cells of a notebook hold them.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any

from trainables.contract.finder import MAIN


def import_anew(module_name: str, modules: Mapping[str, ModuleType]) -> None:
    """Import a module and those of ``modules`` that it still imports. If that fails, restore all as they were.

    Raises whatever exception the modules raise.
    """
    contents = [(module, dict(vars(module))) for module in _real(modules).values()]
    attributes = {(parent, name): module for parent, name, module in _attributes(modules)}
    importlib.invalidate_caches()
    _forget(modules)
    try:
        with _filled_again(_real(modules)):
            # One by one: Python imports no package around one that is still imported, such as one without a file.
            for name in accumulate(module_name.split("."), "{}.{}".format):
                importlib.import_module(name)
    except BaseException:
        for module, content in contents:
            vars(module).clear()
            vars(module).update(content)
        for (parent, name), module in attributes.items():
            setattr(parent, name, module)
        sys.modules.update(modules)
        raise


def modules_from(files: Mapping[str, Path], folder: Path) -> dict[str, ModuleType]:
    """Return the imported modules that have one of the names, or under any name one of the files.

    Also return those of the folder whose files have been deleted. Omit the main program and compiled modules: Python
    can import neither of them again.
    """
    paths = {os.path.realpath(file) for file in files.values()}
    compiled = tuple(EXTENSION_SUFFIXES)
    main = sys.modules.get(MAIN)
    found: dict[str, ModuleType] = {}
    for name, module in sys.modules.copy().items():
        # Not with `getattr`: some modules of libraries run code when they are asked.
        given = vars(module).get("__file__") if isinstance(module, ModuleType) else None
        file = os.path.realpath(given) if isinstance(given, str) else ""
        is_deleted = file != "" and Path(file).is_relative_to(folder) and not os.path.lexists(file)
        # A module of this name may have put another object into its place, without a file.
        is_meant = name in files or file in paths or is_deleted
        if is_meant and module not in (main, None) and not file.endswith(compiled):
            found[name] = module
    return found


def _real(modules: Mapping[str, ModuleType]) -> dict[str, ModuleType]:
    """Return the modules without those that have put an object of another class into their place."""
    return {name: module for name, module in modules.items() if isinstance(module, ModuleType)}


def _attributes(modules: Mapping[str, ModuleType]) -> Iterator[tuple[ModuleType, str, ModuleType]]:
    """Yield the packages that have one of the modules as an attribute, its name there, and the module."""
    for name, module in modules.items():
        package, _, last = name.rpartition(".")
        parent = sys.modules.get(package)
        if isinstance(parent, ModuleType) and vars(parent).get(last) is module:
            yield parent, last, module


def _forget(modules: Mapping[str, ModuleType]) -> None:
    for parent, name, _ in list(_attributes(modules)):
        delattr(parent, name)  # Otherwise `from package import name` would find the old module.
    for name in modules:
        del sys.modules[name]


@contextmanager
def _filled_again(modules: Mapping[str, ModuleType]) -> Iterator[None]:
    """Let imports within the context fill these module objects instead of new ones."""
    finder = _OldObjects(modules)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _OldObjects(MetaPathFinder):
    """Finds modules as Python does otherwise, and has them loaded into old module objects."""

    def __init__(self, modules: Mapping[str, ModuleType]) -> None:
        self.modules = dict(modules)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        module = self.modules.pop(fullname, None)  # While others are asked, because they may ask this finder.
        if module is None:
            return None
        try:
            finders = [finder for finder in sys.meta_path if finder is not self]
            spec = next(filter(None, (finder.find_spec(fullname, path, target) for finder in finders)), None)
        finally:
            self.modules[fullname] = module
        if spec is not None and spec.loader is not None:
            spec.loader = _IntoObject(spec.loader, module)
        return spec


class _IntoObject(Loader):
    """Loads a module as another loader does, into an emptied module object."""

    def __init__(self, loader: Loader, module: ModuleType) -> None:
        self.loader = loader
        self.module = module

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        content = vars(self.module)
        # A module in a package is not imported again if it was not forgotten, so it stays an attribute.
        stay = {name: it for name, it in content.items() if it is sys.modules.get(f"{spec.name}.{name}", content)}
        content.clear()
        content.update(stay)
        return self.module

    def exec_module(self, module: Any) -> None:
        module.__loader__ = module.__spec__.loader = self.loader
        self.loader.exec_module(module)
