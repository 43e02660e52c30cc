"""A new import of modules whose files have changed, as if this process had never imported them.

:func:`importlib.reload` keeps names that the new file does not define, and modules that import each other get what the
others were before. So all changed modules are forgotten together, and imported again. That fills the old module
objects, because the cells of a notebook hold them.
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
from typing import Any, NamedTuple

from trainables.contract.executed_files import path_of
from trainables.contract.finder import MAIN


def import_anew(module_name: str, modules: Mapping[str, ModuleType]) -> list[str]:
    """Import a module and then the others of ``modules`` again. If the first import fails, restore all as they were.

    Args:
        module_name: The module.
        modules: The modules to forget, by name (:func:`modules_from`).

    Returns:
        A text for each other module that cannot be imported again.

    Raises:
        ImportError: Python now finds one of the modules in another place.
        BaseException: Any exception of the module.
    """
    old = {name: _Old.of(module) for name, module in modules.items()}
    attributes = list(_attributes(modules))
    importlib.invalidate_caches()
    for parent, name, _ in attributes:
        delattr(parent, name)  # Otherwise `from package import name` would find the old module.
    for name in modules:
        del sys.modules[name]
    try:
        with _filled_again(modules) as finder:
            _import(module_name)
            _check_places(old)
            flaws = list(filter(None, (_import_other(name, old, finder.asked) for name in modules)))
    except BaseException:
        for one in old.values():
            one.restore()
        for parent, name, module in attributes:
            setattr(parent, name, module)
        sys.modules.update(modules)
        raise
    for parent, name, module in attributes:
        if module in sys.modules.values():  # Imported again under another name, or put there by hand.
            vars(parent).setdefault(name, module)
    return flaws


def modules_from(files: Mapping[str, Path], folder: Path) -> dict[str, ModuleType]:
    """Return the imported modules that have one of the names, or under any name one of the files.

    Also return those of the folder whose files have been deleted. Omit the main program and compiled modules: Python
    can import neither of them again.
    """
    paths = {os.path.realpath(file) for file in files.values()}
    compiled = tuple(EXTENSION_SUFFIXES)
    main = sys.modules.get(MAIN)
    modules: dict[str, ModuleType] = {}
    for name, module in sys.modules.copy().items():
        file = path_of(module)
        # A module of this name may have put another object into its place, without a file.
        is_meant = name in files or file in paths or (file != "" and _is_deleted(Path(file), folder))
        if is_meant and module not in (main, None) and not file.endswith(compiled):
            modules[name] = module
    return modules


def _is_deleted(file: Path, folder: Path) -> bool:
    is_here = file.is_relative_to(folder) and not os.path.lexists(file)
    return is_here and not any(map(os.path.isfile, file.parents))  # A module in an archive has such a path.


class _Old(NamedTuple):
    """A module before it was forgotten: its object, class, content and file. An object of another class that a module
    has put into its place has no content."""

    module: ModuleType
    kind: type
    content: dict[str, Any]
    file: str

    @classmethod
    def of(cls, module: ModuleType) -> _Old:
        content = dict(vars(module)) if isinstance(module, ModuleType) else {}
        return cls(module, type(module), content, path_of(module))

    def restore(self) -> None:
        if isinstance(self.module, ModuleType):
            self.module.__class__ = self.kind
            vars(self.module).clear()
            vars(self.module).update(self.content)


def _attributes(modules: Mapping[str, ModuleType]) -> Iterator[tuple[ModuleType, str, ModuleType]]:
    """Yield the packages that have one of the modules as an attribute, its name there, and the module."""
    for name, module in modules.items():
        package, _, last = name.rpartition(".")
        parent = sys.modules.get(package)
        if isinstance(parent, ModuleType) and vars(parent).get(last) is module:
            yield parent, last, module


def _import(module_name: str) -> None:
    # One by one: Python imports no package around one that is still imported, such as a directory without a file.
    for name in accumulate(module_name.split("."), "{}.{}".format):
        importlib.import_module(name)


def _check_places(old: Mapping[str, _Old]) -> None:
    """Raise ``ImportError`` if a module comes from another place than before, although its file is still there. For
    example, the notebook has changed its working directory."""
    for name, one in old.items():
        file = path_of(sys.modules.get(name))
        if (
            file != one.file
            and file
            and os.path.dirname(file) != os.path.dirname(one.file)
            and os.path.isfile(one.file)
        ):
            raise ImportError(
                f"Python now imports {name} from {file} instead of {one.file}: change back to the working directory "
                "or the search path that the first import had, or restart this program"
            )


def _import_other(name: str, old: Mapping[str, _Old], asked: set[str]) -> str:
    """Import another module that was forgotten. Return why it cannot be imported, or an empty string.

    Cells may use modules that the changed ones do not import.

    Args:
        name: The module.
        old: What was forgotten.
        asked: Names that were looked up already. Modules that imported them have handled any error.
    """
    one = old[name]
    if name in sys.modules or name in asked or not (one.file and os.path.isfile(one.file)):
        return ""
    # Code that supports old pickles has put a module into `sys.modules` under a second name.
    if (own := one.content.get("__name__")) != name:
        if isinstance(own, str) and sys.modules.get(own) is one.module:
            sys.modules[name] = one.module
        return ""
    try:
        _import(name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's module may raise anything on import
        one.restore()
        return f"{name} has changed and cannot be imported again ({type(error).__name__}: {error})"
    return ""


@contextmanager
def _filled_again(modules: Mapping[str, ModuleType]) -> Iterator[_OldObjects]:
    """Let imports within the context fill these module objects instead of new ones."""
    # A second name for a module does not fill it, because the object would be filled twice.
    named = {
        name: module
        for name, module in modules.items()
        if isinstance(module, ModuleType) and vars(module).get("__name__") == name
    }
    finder = _OldObjects(named)
    sys.meta_path.insert(0, finder)
    try:
        yield finder
    finally:
        sys.meta_path.remove(finder)


class _OldObjects(MetaPathFinder):
    """Finds modules as Python does otherwise, and has them loaded into old module objects.

    Attributes:
        asked: Names of all modules that Python has looked for.
    """

    def __init__(self, modules: Mapping[str, ModuleType]) -> None:
        self.modules = dict(modules)
        self.asked: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        self.asked.add(fullname)
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
        self.module.__class__ = ModuleType  # A module can give itself another class.
        content.clear()
        content.update(stay)
        return self.module

    def exec_module(self, module: Any) -> None:
        module.__loader__ = module.__spec__.loader = self.loader
        self.loader.exec_module(module)
