"""Source of a family from outside this project: a hash of it, and whether it has changed.

A run's key covers its settings, not the code of ``train``. So each run keeps a hash of the files that
:func:`trainables.contract.user_modules.files_of` returns. Comments and empty lines do not change the hash.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from weakref import WeakKeyDictionary

from trainables.contract.executed_files import times_executed
from trainables.contract.file_hashes import CLOCK_S, changed_at, has_changed, hash_of_files, may_have_changed
from trainables.contract.finder import MAIN, SourceLoader, is_outside
from trainables.contract.import_anew import import_anew, modules_from
from trainables.contract.notebook_classes import hash_of_class
from trainables.contract.user_code import find_offered
from trainables.contract.user_modules import file_of, files_of, folder_of

MOST_IMPORTS = 5
"""Maximum number of times that a module is imported anew because a file changed during the last import."""

TRAINING_PACKAGES = ("trainables", "search_spaces")
"""Packages of this project whose code decides what is trained. A checkout may have families of the user in them."""
OTHER_PACKAGES = ("trainables/contract", "trainables/probes", "trainables/script")
"""Packages in them whose code does not decide that."""
SOURCES = (".py", ".cpp")
"""Suffixes of their source files."""

_known: WeakKeyDictionary[ModuleType, str] = WeakKeyDictionary()
"""Hash of the files of a module at the time when they were imported."""
_executions: WeakKeyDictionary[ModuleType, Mapping[Path, int]] = WeakKeyDictionary()
"""How often the files of a module had been executed when its code was last known to be theirs. A cell of a notebook may
have executed one of them again since, and an edit that is undone leaves no other trace."""
_begun: dict[str, tuple[float, Collection[str]]] = {}
"""Time before a module's first import here, and the names of the modules that had been imported before it."""
_doubtful: set[Path] = set()
"""Files that a warning has named because they have changed since the main program started."""

log = logging.getLogger(__name__)


def source_hash(name: str) -> str:
    """Return the hash of the code of ``module:Class``, which has been imported.

    Return an empty string if the class belongs to this project or its code is unknown.
    """
    module_name, colon, class_name = name.partition(":")
    module = sys.modules.get(module_name)
    if not colon or module is None or not is_outside(module_name):
        return ""
    if file_of(module_name) is None:
        return hash_of_class(getattr(module, class_name, None))
    if module not in _known:
        _known[module] = hash_of_files(files_of(module_name))
    return _known[module]


ROOT = Path(__file__).parent.parent.parent


@cache
def hash_of_training_code(root: Path = ROOT) -> str:
    """Return the hash of this project's code for training, as it was when this process first asked for it.

    Versions of built-in families guard their keys. But a user with a checkout may edit a task and forget the version.
    """
    others = {root / name for name in OTHER_PACKAGES}
    paths = (path for name in TRAINING_PACKAGES for path in (root / name).rglob("*") if others.isdisjoint(path.parents))
    # Editors keep hidden files and links to nothing next to a file that is open.
    files = [path for path in paths if path.suffix in SOURCES and path.is_file() and not path.name.startswith(".")]
    return hash_of_files({file.relative_to(root).as_posix(): file for file in files})


def reload_changed(module_name: str) -> None:
    """Import a module, and the modules that it imports from its folder, anew if one of their files has changed or was
    executed again.

    Otherwise a notebook would train the code that it imported first. May raise any exception of these modules.
    """
    find_offered(module_name)  # The changed files may import further modules.
    if not is_outside(module_name):
        return
    if module_name == MAIN:
        _check_program()
        return
    module = sys.modules.get(module_name)
    if module is None:
        _begun[module_name] = time.time(), frozenset(sys.modules)
        return
    if file_of(module_name) is None:
        return
    files = files_of(module_name)
    now = hash_of_files(files)
    is_old = (
        _known.get(module, now) != now
        or (module not in _executions and _may_be_old(module_name, files))
        or any(times_executed(file) > count for file, count in _executions.get(module, {}).items())
    )
    imports = 0
    while is_old:
        _refuse_rebuilt(files)
        if (imports := imports + 1) > MOST_IMPORTS:
            raise ImportError(f"a file of {module_name} changes whenever it is imported")
        modules = modules_from(files, Path(folder_of(module_name)))
        for name, file in files.items():
            _drop_compiled(modules.get(name), file)
        import_anew(module_name, modules)
        # A file may have changed again while the modules were imported.
        files = files_of(module_name)
        is_old = now != (now := hash_of_files(files))
    module = sys.modules[module_name]
    _known[module] = now
    loaded = filter(None, map(file_of, files))
    _executions[module] = {file: times_executed(file) for file in loaded}


def _check_program() -> None:
    """Raise ``ImportError`` if the file of the main program has changed since it started, because it is not imported
    again. Warn of the files that it imports: it may have imported a file after the change."""
    files = files_of(MAIN)
    for file in files.values():
        if not has_changed(file):
            continue
        if file == file_of(MAIN):
            raise ImportError(
                f"{file} has changed since this program started: start it again to train its present code"
            )
        if file not in _doubtful:
            _doubtful.add(file)
            log.warning(f"{file} has changed since this program started. If it was imported before, start it again")


def _refuse_rebuilt(files: Mapping[str, Path]) -> None:
    """Raise ``ImportError`` if a compiled module may have changed since it was imported. Python cannot import it
    again."""
    for name, file in files.items():
        if name in sys.modules and file.name.endswith(tuple(EXTENSION_SUFFIXES)) and may_have_changed(file):
            raise ImportError(f"{file} was built after this program started: start it again to use the new file")


def _may_be_old(module_name: str, files: Mapping[str, Path]) -> bool:
    """Return True if a file may have changed since the module that it belongs to was imported."""
    begun, earlier = _begun.pop(module_name, (0.0, sys.modules))
    # When an earlier module was imported is unknown, but this process has imported it.
    return any(
        may_have_changed(file) if name in earlier else changed_at(file) > begun - CLOCK_S
        for name, file in files.items()
    )


def _drop_compiled(module: ModuleType | None, file: Path) -> None:
    """Delete the compiled file of a changed module.

    Python would use the compiled file again if the source has the same size and changed in the same second. Keep the
    file if Python does not read it, or if it is behind a link, in a directory of another user.
    """
    if isinstance(getattr(module, "__loader__", None), SourceLoader):
        return
    with suppress(OSError, NotImplementedError):
        compiled = Path(importlib.util.cache_from_source(str(file)))
        if not compiled.parent.is_symlink():
            compiled.unlink()
