"""Source of a family from outside this project: a hash of it, and whether it has changed.

A run's key covers its settings, not the code of ``train``. So each run keeps a hash of the files that
:func:`trainables.contract.user_modules.files_of` returns. Comments and empty lines do not change the hash.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import io
import os
import sys
import time
import tokenize
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache, partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from weakref import WeakKeyDictionary, WeakSet

from trainables.contract.finder import MAIN, SourceLoader, is_installed, is_outside, top_name
from trainables.contract.user_code import find_offered
from trainables.contract.user_modules import file_of, files_of, folder_of

DIGITS = 16
"""Hex digits of a hash."""

_known: WeakKeyDictionary[ModuleType, str] = WeakKeyDictionary()
"""Hash of the files of a module at the time when they were imported."""
_verified: WeakSet[ModuleType] = WeakSet()
"""Modules whose code is known to be that of their files, or was imported again."""
_begun: dict[str, tuple[float, Collection[str]]] = {}
"""Time before a module's first import here, and the names of the modules that had been imported before it."""
CLOCK_S = 0.1
"""Maximum time by which times of files lag behind the clock of this machine, in seconds."""
START_FIELD = 19
"""Position of a process's start time in ``/proc/PID/stat``, after its name."""
PLAIN = (bool, int, float, complex, str, bytes, type(None))
"""Types of constants of a class whose text is their value."""


def source_hash(name: str) -> str:
    """Return the hash of the code of ``module:Class``, which has been imported.

    Return an empty string if the class belongs to this project or its code is unknown.
    """
    module_name, colon, class_name = name.partition(":")
    module = sys.modules.get(module_name)
    if not colon or module is None or not is_outside(module_name):
        return ""
    if file_of(module_name) is None:
        return _hash_of_cells(getattr(module, class_name, None))
    if module not in _known:
        _known[module] = _hash_of_files(files_of(module_name))
    return _known[module]


def reload_changed(module_name: str) -> None:
    """Import a module, and the modules that it imports from its folder, again if one of their files has changed.

    Otherwise a notebook would train the code that it imported first. May raise any exception of these modules.
    """
    find_offered(module_name)  # The changed files may import further modules.
    if module_name == MAIN or not is_outside(module_name):
        return
    module = sys.modules.get(module_name)
    if module is None:
        _begun[module_name] = time.time(), frozenset(sys.modules)
        return
    if file_of(module_name) is None:
        return
    files = files_of(module_name)
    now = _hash_of_files(files)
    is_old = _known.get(module, now) != now or (module not in _verified and _may_be_old(module_name, files))
    while is_old:
        importlib.invalidate_caches()
        for name, file in files.items():
            _drop_compiled(sys.modules.get(name), file)
            if name in sys.modules:
                importlib.reload(sys.modules[name])
        # A file may have changed again while the modules were imported.
        files = files_of(module_name)
        is_old = now != (now := _hash_of_files(files))
    _known[module] = now
    _verified.add(module)


def _may_be_old(module_name: str, files: Mapping[str, Path]) -> bool:
    """Return True if a file may have changed since the module that it belongs to was imported."""
    begun, earlier = _begun.pop(module_name, (0.0, sys.modules))
    # When an earlier module was imported is unknown, but this process has imported it.
    return any(
        may_have_changed(file) if name in earlier else changed_at(file) > begun - CLOCK_S
        for name, file in files.items()
    )


def changed_at(file: Path) -> float:
    """Return the time of the last change of a file, in seconds.

    A program can choose the time of modification, so a file that replaces another may have an older one.
    """
    status = file.stat()
    return max(status.st_mtime, status.st_ctime)


def may_have_changed(file: Path) -> bool:
    """Return True if a file may have changed since this process started."""
    return changed_at(file) > _started_at() - CLOCK_S


@cache
def _started_at() -> float:
    """Return the time at which this process started, in seconds."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    after_boot_s = int(fields[START_FIELD]) / os.sysconf("SC_CLK_TCK")
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + after_boot_s


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


def _hash_of_files(files: Mapping[str, Path]) -> str:
    digest = hashlib.sha256()
    for name, file in sorted(files.items()):
        digest.update(f"{'' if name == MAIN else name}\0".encode() + _hashed_part(file) + b"\0")
    return digest.hexdigest()[:DIGITS] if files else ""


def _hashed_part(file: Path) -> bytes:
    """Return the content of a file without comments."""
    status = file.stat()
    return _read_hashed_part(file, (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))


@lru_cache(maxsize=1024)
def _read_hashed_part(file: Path, state: tuple[int, ...]) -> bytes:
    """Return the content of a file without comments. ``state`` changes with the file, so it is then read again."""
    return without_comments(file.read_bytes())


def _hash_of_cells(kind: object) -> str:
    """Return the hash of a class that was written in a notebook, and of its bases in the user's code.

    Return an empty string if it is not a class.
    """
    if not isinstance(kind, type):
        return ""
    digest = hashlib.sha256()
    for base in kind.__mro__:
        module = base.__module__
        if not is_outside(module) or top_name(module) in sys.stdlib_module_names:
            continue
        if file_of(module) is None:
            digest.update("\0".join(_parts_of_class(base)).encode() + b"\0")
        elif not is_installed(Path(folder_of(module))):
            digest.update(_hash_of_files(files_of(module)).encode() + b"\0")
    return digest.hexdigest()[:DIGITS]


def _parts_of_class(kind: type) -> Iterator[str]:
    """Yield the texts that define a class: the source of each function, the source around it, and its constants.

    Constants and functions are those that the class has now, which may not be those of its source.
    """
    functions = dict(_functions_of(kind))
    texts = [_text_of(function) for function in functions.values()]
    texts += filter(None, map(partial(_source_around, kind), functions.values()))
    yield from dict.fromkeys(texts)
    for name, value in sorted(vars(kind).items()):
        if not (name.startswith("__") and name.endswith("__")) and (text := _constant_text(value)):
            yield f"{name} = {text}"


def _functions_of(kind: type) -> Iterator[tuple[str, FunctionType]]:
    """Yield the functions of a class by name, also those of properties and of class and static methods."""
    for name, value in vars(kind).items():
        wrapped = (getattr(value, part, None) for part in ("fget", "fset", "fdel", "func", "__func__", "__wrapped__"))
        for number, function in enumerate((value, *wrapped)):
            if inspect.isfunction(function):
                yield f"{name} {number}", function


def _text_of(function: FunctionType) -> str:
    """Return the source of a function or, if it is unknown, its compiled code as text."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        return "\n".join(_code_text(function.__code__))


def _code_text(code: CodeType) -> Iterator[str]:
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames}"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _code_text(constant)
        else:
            yield _constant_text(constant)


def _constant_text(value: object) -> str:
    """Return a constant as text, or an empty string for any other object, whose text may differ between processes."""
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, tuple | list):
        parts = list(map(_constant_text, value))
        return f"({', '.join(parts)})" if all(parts) else ""
    if isinstance(value, dict):
        pairs = [(_constant_text(key), _constant_text(entry)) for key, entry in value.items()]
        return f"{{{', '.join(map(': '.join, pairs))}}}" if all(map(all, pairs)) else ""
    return ""


def _source_around(kind: type, method: FunctionType) -> str:
    """Return the source of a class around one of its methods. Return an empty string if the source is unknown or the
    method is from elsewhere.

    The standard library finds the source of a class only in the file of a
    module, so search around a method.
    """
    try:
        lines, row = inspect.findsource(method)
        tree = ast.parse("".join(lines))
    except (OSError, TypeError, SyntaxError):
        return ""
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
    for node in classes:
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        if first <= row < (node.end_lineno or 0):
            return "".join(lines[first - 1 : node.end_lineno])
    return ""


def without_comments(source: bytes) -> bytes:
    """Return Python source without comments and empty lines. Text inside strings stays.

    Return any other content unchanged. Also return source in another encoding than UTF-8 unchanged: in such source,
    code may look like a comment.
    """
    text = source.replace(b"\r\n", b"\n").replace(b"\r", b"\n")  # Python ends lines, and comments, at a lone CR, too.
    try:
        if tokenize.detect_encoding(io.BytesIO(text).readline)[0] not in ("utf-8", "utf-8-sig"):
            return source
        lines = text.decode("utf-8").split("\n")
        dropped = set[int]()
        for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
            row, column = token.start
            if token.type == tokenize.COMMENT:
                lines[row - 1] = lines[row - 1][:column].rstrip()
            if token.type == tokenize.NL and not lines[row - 1].strip():
                dropped.add(row - 1)
    except (UnicodeDecodeError, tokenize.TokenError, SyntaxError):
        return source
    return "\n".join(line for row, line in enumerate(lines) if row not in dropped).encode()
