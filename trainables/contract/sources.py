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
import sys
import tokenize
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from types import FunctionType, ModuleType
from weakref import WeakKeyDictionary

from trainables import IMPORTED_AT
from trainables.contract.finder import MAIN, SourceLoader, is_outside
from trainables.contract.user_code import find_offered
from trainables.contract.user_modules import file_of, files_of

DIGITS = 16
"""Hex digits of a hash."""

_known: WeakKeyDictionary[ModuleType, str] = WeakKeyDictionary()
"""Hash of the files of a module at the time when they were imported."""


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
    module = sys.modules.get(module_name)
    if module is None or module_name == MAIN or not is_outside(module_name) or file_of(module_name) is None:
        return
    files = files_of(module_name)
    now = _hash_of_files(files)
    changed = max((file.stat().st_mtime for file in files.values()), default=0.0)
    # If this program did not import the module, the time of its import is unknown. Only files that changed after this
    # program was imported can differ from the imported code.
    is_old = _known[module] != now if module in _known else changed > IMPORTED_AT
    if is_old:
        importlib.invalidate_caches()
        for name, file in files.items():
            _drop_compiled(sys.modules.get(name), file)
            if name in sys.modules:
                importlib.reload(sys.modules[name])
    _known[module] = now


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
    """Return the hash of a class that was written in a notebook, or an empty string if its source is unknown."""
    if not isinstance(kind, type):
        return ""
    methods = [value for value in vars(kind).values() if inspect.isfunction(value)]
    try:
        texts = [inspect.getsource(method) for method in methods]
        texts += filter(None, map(partial(_source_around, kind), methods))
    except (OSError, TypeError):
        return ""
    texts = list(dict.fromkeys(texts))
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:DIGITS] if texts else ""


def _source_around(kind: type, method: FunctionType) -> str:
    """Return the source of a class around one of its methods, or an empty string if the method is from elsewhere.

    Raises ``OSError`` if the source is unknown. The standard library finds the source of a class only in the file of a
    module, so search around a method.
    """
    lines, row = inspect.findsource(method)
    try:
        tree = ast.parse("".join(lines))
    except SyntaxError:
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
