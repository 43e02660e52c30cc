"""The imported modules of the user, kept as their files are now.

A notebook imports a module once. If its file then changes, the notebook would train the old code under the hash of the
new file. So a sweep first calls :func:`make_present`.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from weakref import WeakKeyDictionary

from trainables.contract.executed_files import Execution, last_execution, state_of
from trainables.contract.file_hashes import has_changed, hash_of_files, may_have_changed
from trainables.contract.finder import MAIN, SourceLoader, is_installed, is_outside
from trainables.contract.import_anew import import_anew, modules_from
from trainables.contract.user_code import find_offered
from trainables.contract.user_modules import file_of, files_of, folder_of, named_modules

MOST_IMPORTS = 5
"""Maximum number of times that a module is imported anew because a file changed during the last import."""

_known: WeakKeyDictionary[ModuleType, str] = WeakKeyDictionary()
"""Hash of the files of a module at the time when they were imported."""
_present: WeakKeyDictionary[ModuleType, Mapping[Path, Execution | None]] = WeakKeyDictionary()
"""Last executions of the files of a module when its code was last known to be theirs."""
_holders: WeakKeyDictionary[object, frozenset[str]] = WeakKeyDictionary()
"""Names of the modules whose code is in use."""
_doubtful: set[Path] = set()
"""Files that a warning has named because they have changed since the main program started."""


class _BaseFile(NamedTuple):
    """A file with a base of a class in a notebook, when the class was first used: its hash and its last execution."""

    hash: str
    execution: Execution | None


_base_files: dict[Path, _BaseFile] = {}

log = logging.getLogger(__name__)


def imported_hash(module_name: str) -> str:
    """Return the hash of the files of an imported module, as they were when it was imported."""
    module = sys.modules[module_name]
    if module not in _known:
        _known[module] = hash_of_files(files_of(module_name))
    return _known[module]


def hold_code(holder: object, names: Iterable[str]) -> None:
    """Forbid new imports of the modules of some classes, ``module:Class``, until :func:`release_code`. The code of a
    run must not change while it trains, for example in another thread of a notebook."""
    _holders[holder] = frozenset(name.partition(":")[0] for name in names if ":" in name)


def release_code(holder: object) -> None:
    """Allow new imports again, as far as this holder is concerned."""
    _holders.pop(holder, None)


def make_present(module_name: str, class_name: str = "") -> None:
    """Import a module, and the modules that it imports from its folder, anew if one of their files has changed or was
    executed again. Modules of other families and probes that share these files are imported anew, too.

    Args:
        module_name: The module.
        class_name: The class in it that will be used.

    Raises:
        ImportError: The code in memory is old, and cannot be replaced.
        Exception: The modules may raise any exception.
    """
    find_offered(module_name)  # The changed files may import further modules.
    module = sys.modules.get(module_name)
    if module is None or not is_outside(module_name):
        return
    if module_name == MAIN:
        _check_program()
    if file_of(module_name) is None:
        _check_bases(getattr(module, class_name, None))
    elif module_name != MAIN:
        _make_present(module_name)


def _make_present(module_name: str) -> None:
    # Hashes from before the imports: a file that changes in the meantime then has another one.
    hashes = _hashes_of([module_name])
    is_old = _is_old(module_name, hashes[module_name])
    imports = 0
    while is_old:
        if (imports := imports + 1) > MOST_IMPORTS:
            raise ImportError(f"a file of {module_name} changes whenever it is imported")
        names = _related(module_name)
        hashes = _hashes_of(names)
        _import_anew(module_name, names)
        imported = [name for name in names if name in sys.modules]
        hashes = {name: hashes[name] for name in imported}
        is_old = hashes != _hashes_of(imported)
    for name, known in hashes.items():
        module = sys.modules[name]
        _known[module] = known
        _present[module] = {file: last_execution(file) for file in _loaded_files(name)}


def _hashes_of(names: Iterable[str]) -> dict[str, str]:
    return {name: hash_of_files(files_of(name)) for name in names}


def _import_anew(module_name: str, names: Sequence[str]) -> None:
    """Import modules anew, with all that they import from their folders. Only the first must succeed."""
    files = {name: file for related in names for name, file in files_of(related).items()}
    _refuse_held(names)
    _refuse_rebuilt(files)
    modules = modules_from(files, Path(folder_of(module_name)))
    for name, file in files.items():
        _drop_compiled(modules.get(name), file)
    for flaw in import_anew(module_name, modules):
        log.warning(flaw)
    for module in modules.values():
        with suppress(TypeError):  # An object without weak references can replace a module.
            _known.pop(module, None)


def _is_old(module_name: str, now: str) -> bool:
    """Return True if the code of a module in memory may not be that of its files, whose hash is ``now``."""
    module = sys.modules[module_name]
    if _known.get(module, now) != now:
        return True
    noted = _present.get(module, {})
    # An edit that a cell imported and that was undone leaves no other trace than the execution.
    return any(
        last_execution(file) != noted[file] if file in noted else _may_be_old(file)
        for file in _loaded_files(module_name)
    )


def _loaded_files(module_name: str) -> list[Path]:
    """Return the files of a module and of those that it imports, as far as they have been imported."""
    return [file for name in files_of(module_name) if (file := file_of(name)) is not None]


def _may_be_old(file: Path) -> bool:
    """Return True if a file may have changed since the module that it belongs to was imported."""
    last = last_execution(file)
    # When an earlier module was imported is unknown, but this process has imported it.
    return may_have_changed(file) if last is None else state_of(file) != last.state


def _related(module_name: str) -> list[str]:
    """Return a module and all modules of families and probes that share a file with it, directly or by others."""
    own = {module_name: _real_files(module_name)}
    others = {
        name: _real_files(name)
        for name in named_modules()
        if name not in (MAIN, module_name) and is_outside(name) and file_of(name) is not None
    }
    while more := [name for name, files in others.items() if any(map(files.intersection, own.values()))]:
        own |= {name: others.pop(name) for name in more}
    return list(own)


def _real_files(module_name: str) -> frozenset[str]:
    return frozenset(map(os.path.realpath, files_of(module_name).values()))


def _refuse_held(names: Collection[str]) -> None:
    """Raise ``ImportError`` if a module to import anew is in use."""
    held = sorted(frozenset[str]().union(*list(_holders.values())).intersection(names))
    if held:
        raise ImportError(
            f"its code has changed, but this process is training {' and '.join(held)} now: wait until that sweep has "
            "ended, or use another process"
        )


def _check_program() -> None:
    """Raise ``ImportError`` if the file of the main program has changed since it started, because it is not imported
    again. Warn of the files that it imports: it may have imported a file after the change."""
    for file in files_of(MAIN).values():
        if not has_changed(file):
            continue
        if file == file_of(MAIN):
            raise ImportError(
                f"{file} has changed since this program started: start it again to train its present code"
            )
        _warn_of_doubtful(file)


def _warn_of_doubtful(file: Path) -> None:
    if file not in _doubtful:
        _doubtful.add(file)
        log.warning(f"{file} has changed since this program started. If it was imported before, start it again")


def _check_bases(kind: object) -> None:
    """Raise ``ImportError`` if a file with a base of a class in a notebook has changed since the notebook imported it.

    The class keeps its old base even if the file is imported again.
    """
    modules = {base.__module__ for base in kind.__mro__} if isinstance(kind, type) else set()
    for module_name in sorted(modules):
        if module_name == MAIN or not folder_of(module_name) or is_installed(Path(folder_of(module_name))):
            continue
        for file in _loaded_files(module_name):
            now = _BaseFile(hash_of_files({"": file}), last_execution(file))
            first = _base_files.get(file)
            if first is None or first.execution != now.execution:  # Now, or since a cell has imported it again.
                is_changed = now.execution is not None and now.execution.state != state_of(file)
                if now.execution is None and has_changed(file):
                    _warn_of_doubtful(file)
            else:
                is_changed = first.hash != now.hash
            if is_changed:
                raise ImportError(
                    f"{file} has changed since this notebook imported it: restart the notebook, or reload the module "
                    "and run the cell of the class again"
                )
            _base_files[file] = now


def _refuse_rebuilt(files: Mapping[str, Path]) -> None:
    """Raise ``ImportError`` if a compiled module may have changed since it was imported. Python cannot import it
    again."""
    for name, file in files.items():
        if name in sys.modules and file.name.endswith(tuple(EXTENSION_SUFFIXES)) and may_have_changed(file):
            raise ImportError(f"{file} was built after this program started: start it again to use the new file")


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
