"""The imported modules of the user, kept as their files are now.

A notebook imports a module once. If its file then changes, the notebook would train the old code under the hash of the
new file. So a sweep first calls :func:`make_present`.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import ModuleType
from typing import NamedTuple
from weakref import WeakKeyDictionary

from trainables.contract.class_texts import module_of
from trainables.contract.executed_files import Execution, content_hash, last_execution, was_imported_once
from trainables.contract.file_hashes import has_changed, hash_of_files, hash_of_texts, may_have_changed
from trainables.contract.finder import MAIN, SourceLoader, is_outside
from trainables.contract.import_anew import import_anew, modules_from
from trainables.contract.old_copies import is_old_copy
from trainables.contract.used_code import used_code
from trainables.contract.user_modules import file_of, files_of, folder_of, is_in_users_file, named_modules

MOST_IMPORTS = 5
"""Maximum number of times that a module is imported anew because a file changed during the last import."""
LOCK = threading.RLock()
"""Held while modules are imported anew, and from a look at the code of a sweep until :func:`code_held`."""

_known: WeakKeyDictionary[ModuleType, str] = WeakKeyDictionary()
"""Hash of the files of a module at the time when they were imported."""
_present: WeakKeyDictionary[ModuleType, dict[Path, Execution | None]] = WeakKeyDictionary()
"""Last executions of the files of a module when its code was last known to be theirs."""
_compiled: dict[Path, str] = {}
"""Hash of a compiled module when it was imported, or first seen."""
_bases: WeakKeyDictionary[type, Execution | None] = WeakKeyDictionary()
"""Last execution of the file of a class when a class in a notebook was first seen to have it as a base."""
_held: list[_Held] = []
_doubtful: set[Path] = set()
"""Files that a warning has named because they have changed since the main program started."""

log = logging.getLogger(__name__)


class _Held(NamedTuple):
    """The code of a sweep that runs: its modules, and the paths of their files without links."""

    names: tuple[str, ...]
    files: frozenset[str]


def imported_hash(module_name: str) -> str:
    """Return the hash of the files of an imported module, as they were when it was imported."""
    module = sys.modules[module_name]
    if module not in _known:
        _known[module] = hash_of_files(files_of(module_name))
    # A sweep compares its code with that of its start. Here, a cell has imported an edit while the sweep runs.
    noted = _present.get(module, {}).items() if any(module_name in held.names for held in list(_held)) else ()
    edits = [last.content for file, first in noted if (last := last_execution(file)) and not _ran_alike(first, last)]
    return hash_of_texts([_known[module], *edits]) if edits else _known[module]


def _ran_alike(first: Execution | None, last: Execution) -> bool:
    """Return True if two executions of a file ran the same content."""
    return first == last or (first is not None and first.content == last.content)


@contextmanager
def code_held(names: Iterable[str]) -> Iterator[None]:
    """Forbid new imports of the modules of some classes, ``module:Class``, within the context. The code of a sweep must
    not change while it runs, for example in another thread of a notebook."""
    modules = [name for given in names for name in _modules_of(*given.partition(":")[::2])]
    held = _Held(tuple(dict.fromkeys(modules)), frozenset[str]().union(*map(_real_files, modules)))
    _held.append(held)
    try:
        yield
    finally:
        _held.remove(held)


def _modules_of(module_name: str, class_name: str) -> list[str]:
    """Return the user's modules with the code of a class: its own or, for a class in a notebook, those of its bases and
    those that it uses."""
    if file_of(module_name) is not None:
        return [module_name] if is_outside(module_name) else []
    kind = getattr(sys.modules.get(module_name), class_name, None)
    return list(dict.fromkeys([*(base.__module__ for base in _bases_in_files(kind)), *used_code(kind).modules]))


def note_import(module_name: str, earlier: Collection[str]) -> None:
    """Note the files of a module that has just been imported for the first time, so that it is not imported again.

    Args:
        module_name: The module.
        earlier: Names of the modules that had been imported before. Their files may have changed since.
    """
    with LOCK:
        module = sys.modules[module_name]
        noted = _present.setdefault(module, {})
        # Before the files are compared with what was imported: they may change in between.
        now = hash_of_files(files_of(module_name))
        files = _loaded_files(module_name)
        imported = {name: file for name, file in files.items() if name not in earlier}
        if any(map(_has_other_content, imported.values())):
            return
        for file in imported.values():
            noted[file] = last_execution(file)
            if _is_compiled(file):
                _compiled[file] = content_hash(file)
        if len(imported) == len(files):
            _known[module] = now


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
    with LOCK:
        module = sys.modules.get(module_name)
        if module is None or not is_outside(module_name):
            return
        if module_name == MAIN:
            _check_program()
        if file_of(module_name) is None:
            _make_used_present(getattr(module, class_name, None))
        elif module_name != MAIN:
            _make_present(module_name)


def _make_present(module_name: str, *, in_doubt: bool = True) -> None:
    """Import a module anew if it is old. If that is unknown, do so only with ``in_doubt``, and otherwise warn."""
    # Hashes from before the imports: a file that changes in the meantime then has another one.
    hashes = _hashes_of([module_name])
    is_old = _is_old(module_name, hashes[module_name], in_doubt)
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
        _present[module] = {file: last_execution(file) for file in _loaded_files(name).values()}
        for file in filter(_is_compiled, _present[module]):
            _compiled.setdefault(file, content_hash(file))


def _hashes_of(names: Iterable[str]) -> dict[str, str]:
    return {name: hash_of_files(files_of(name)) for name in names}


def _import_anew(module_name: str, names: Sequence[str]) -> None:
    """Import modules anew, with all that they import from their folders. Only the first must succeed."""
    files = {name: file for related in names for name, file in files_of(related).items()}
    _refuse_held(files.values())
    _refuse_rebuilt(files)
    modules = modules_from(files, Path(folder_of(module_name)))
    for name, file in files.items():
        _drop_compiled(modules.get(name), file)
    for flaw in import_anew(module_name, modules):
        log.warning(flaw)
    for module in modules.values():
        with suppress(TypeError):  # An object without weak references can replace a module.
            _known.pop(module, None)


def _is_old(module_name: str, now: str, in_doubt: bool) -> bool:
    """Return True if the code of a module in memory may not be that of its files, whose hash is ``now``.

    If that is unknown, because a file was imported before this process watched, return ``in_doubt``.
    """
    module = sys.modules[module_name]
    if _known.get(module, now) != now:
        return True
    if any(_is_other_build(name, file) for name, file in files_of(module_name).items()):
        return True
    noted = _present.get(module, {})
    for name, file in _loaded_files(module_name).items():
        if file in noted:
            # An edit that a cell imported and that was undone leaves no other trace than the execution.
            is_old, is_sure = last_execution(file) != noted[file], True
        else:
            is_sure = _has_other_content(file)
            is_old = is_sure or (may_have_changed(file) and not was_imported_once(name, file))
        if is_old and not is_sure and not (in_doubt and not _is_compiled(file)):
            _warn_of_doubtful(file)
        elif is_old:
            return True
    return False


def _is_other_build(name: str, file: Path) -> bool:
    """Return True if a compiled module was imported from elsewhere before a new file was built in its place."""
    loaded = file_of(name)
    if loaded is None or not _is_compiled(file) or not may_have_changed(file):
        return False
    return os.path.realpath(loaded) != os.path.realpath(file)


def _loaded_files(module_name: str) -> dict[str, Path]:
    """Return the files of a module and of those that it imports, by name, as far as they have been imported."""
    return {name: file for name in files_of(module_name) if (file := file_of(name)) is not None}


def _has_other_content(file: Path) -> bool:
    """Return True if a file certainly has another content than when it was last executed."""
    last = last_execution(file)
    return last is not None and content_hash(file) != last.content


def _is_compiled(file: Path) -> bool:
    return file.name.endswith(tuple(EXTENSION_SUFFIXES))


def _related(module_name: str) -> list[str]:
    """Return a module and all modules of families and probes that share a file with it, directly or by others."""
    own = {module_name: _real_files(module_name)}
    others: dict[str, frozenset[str]] = {}
    for name in named_modules():
        if name not in (MAIN, module_name) and is_outside(name) and file_of(name) is not None:
            try:
                others[name] = _real_files(name)
            except (ImportError, OSError) as error:  # Its folder can no longer be read, or has too many modules.
                log.warning(f"could not check whether {name} shares files with {module_name} ({error})")
    while more := [name for name, files in others.items() if any(map(files.intersection, own.values()))]:
        own |= {name: others.pop(name) for name in more}
    return list(own)


def _real_files(module_name: str) -> frozenset[str]:
    return frozenset(map(os.path.realpath, files_of(module_name).values()))


def _refuse_held(files: Iterable[Path]) -> None:
    """Raise ``ImportError`` if a file to import anew is in use."""
    paths = frozenset(map(os.path.realpath, files))
    for names in (held.names for held in list(_held) if not paths.isdisjoint(held.files)):
        raise ImportError(
            f"its code has changed, but this process is running a sweep of {' and '.join(names)} now: wait until that "
            "sweep has ended, or use another process"
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


def _bases_in_files(kind: object) -> list[type]:
    """Return the bases of a class that are in files of the user."""
    bases = kind.__mro__ if isinstance(kind, type) else ()
    return [base for base in bases if is_in_users_file(module_of(base))]


def _make_used_present(kind: object) -> None:
    """Import the user's modules that a class in a notebook uses anew if they are old.

    Raise ``ImportError`` if the class has a base of an earlier import, or uses a function or class of one. Cells keep
    these if the module is imported again.
    """
    bases = _bases_in_files(kind)
    used = used_code(kind)
    for module_name in dict.fromkeys([*(base.__module__ for base in bases), *used.modules]):
        _make_present(module_name, in_doubt=False)
    for base in bases:
        file = file_of(base.__module__)
        execution = last_execution(file) if file is not None else None
        if _bases.setdefault(base, execution) != execution or _is_replaced(base):
            raise ImportError(
                f"{file}, or what it imports, was imported again after {getattr(kind, '__name__', kind)} was made from "
                f"it: import {base.__name__} again, and run the cell of the class again"
            )
    if old := next(filter(is_old_copy, used.taken.values()), None):
        raise ImportError(
            f"{file_of(old.__module__)} has changed since a cell imported {old.__name__} from it: run the cells again "
            f"that import or use {old.__name__}"
        )


def _is_replaced(base: type) -> bool:
    """Return True if the module of a class has another one under its name now, which does not inherit from it, as what
    a decorator makes does."""
    content = vars(sys.modules[base.__module__])
    outer = base.__qualname__.partition(".")[0]
    if "<locals>" in base.__qualname__ or outer not in content:
        return False  # A function has made it, and others may have it by now.
    kinds = {kind for value in content.values() if isinstance(value, type) for kind in value.__mro__}
    return base not in kinds and not any(base is value for kind in kinds for value in vars(kind).values())


def _refuse_rebuilt(files: Mapping[str, Path]) -> None:
    """Raise ``ImportError`` if a compiled module may have changed since it was imported. Python cannot import it
    again."""
    for name, file in files.items():
        if name in sys.modules and _is_compiled(file):
            known = _compiled.get(file)
            if may_have_changed(file) if known is None else content_hash(file) != known:
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
