"""The code of a script, whose hash is part of the keys of its runs."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from trainables.contract.finder import MAIN, module_file
from trainables.contract.settings import SettingsError
from trainables.contract.sources import DIGITS, without_comments
from trainables.contract.user_modules import own_modules
from trainables.script import placeholders
from trainables.script.options import ScriptOptions

LONGEST_NAME = 256
"""Words of a command with more characters are not looked up as files."""
MOST_BYTES_ELSEWHERE = 1 << 20
"""Maximum size of a file outside the script's directory that counts as code. Larger ones are probably data."""
MODULE_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
"""Pattern of the name of a module."""
INTERPRETER = re.compile(r"(python|pypy)[\d.]*")
"""Pattern of the file names of Python interpreters. They run code, but are not the code."""


def code_files(options: ScriptOptions) -> list[str]:
    """Return the files of a script's code, relative to its directory or absolute.

    They are the files under ``code:``. By default, they are the files that its command names, also inside the text of a
    shell, the modules after ``-m``, and the modules that Python files among them import from their own folders. A file
    outside the directory counts only if it is a short text.

    Raises :class:`SettingsError` if a package has too many modules.
    """
    if options.code:
        return sorted(set(options.code))
    root = Path(options.directory)
    words = list(_words(options))
    files = {word for word in words if len(word) < LONGEST_NAME and _is_code(root, word)}
    for name in list(files):
        path = Path(os.path.abspath(root / name))
        if path.suffix == ".py" and path.stem != MAIN:
            imported = _module_files(path.parent, path.stem)
            files |= {file if Path(name).is_absolute() else os.path.relpath(file, root) for file in imported}
    for flag, name in pairwise(words):
        if flag == "-m" and MODULE_NAME.fullmatch(name):
            files |= {os.path.relpath(file, root) for file in _module_files(root, name)}
    return sorted(files)


def knows_code(options: ScriptOptions) -> bool:
    """Return True if a change of the script's code would change its hash.

    The text after ``python -c`` is part of the command, so it is known.
    """
    files = [name for name in code_files(options) if not INTERPRETER.fullmatch(Path(name).name)]
    is_inline = "-c" in options.command and INTERPRETER.fullmatch(Path(options.command[0]).name) is not None
    return bool(files) or is_inline


def _words(options: ScriptOptions) -> Iterator[str]:
    """Yield the words of a command, and the words in its words, as a shell would split them. Omit placeholders."""
    for word in options.command:
        try:
            parts = shlex.split(word)
        except ValueError:  # A quotation mark is not closed.
            parts = word.split()
        for part in dict.fromkeys((word, *parts)):
            if part and not placeholders.fields_in(part, "script.command"):
                yield part


def _is_code(root: Path, word: str) -> bool:
    """Return True if a word names a file of code."""
    path = root / word
    if not path.is_file():
        return False
    if not Path(word).is_absolute() and ".." not in Path(word).parts:
        return True
    if path.stat().st_size > MOST_BYTES_ELSEWHERE or INTERPRETER.fullmatch(path.name):
        return False
    try:
        return b"\0" not in path.read_bytes()
    except OSError:
        return True  # `code_hash` reports that it cannot be read.


def _module_files(folder: Path, name: str) -> list[str]:
    """Return the files of a module in a folder, and of the modules that it imports from there.

    A package counts whole. Return an empty list if the folder does not have the module.
    """
    main = f"{name}.{MAIN}"
    try:
        modules = own_modules(main if module_file(folder, main) is not None else name, [folder])
    except ImportError as error:
        raise SettingsError(f"{folder}: {error}", key="script.code", given=name) from error
    return [str(module.file) for module in modules.values() if module.file is not None]


def code_hash(options: ScriptOptions) -> str:
    """Return the hash of a script's code. Comments and empty lines of Python files do not change it.

    If the code is not known, the directory is hashed, so that scripts in two directories are never taken for one.

    Raises :class:`SettingsError` if a file cannot be read.
    """
    digest = hashlib.sha256()
    if not knows_code(options):
        digest.update(f"{options.directory}\0".encode())
    for name in code_files(options):
        path = Path(options.directory) / name
        try:
            if not path.is_file():
                raise FileNotFoundError(2, "No such file", str(path))
            content = path.read_bytes()
        except OSError as error:
            raise SettingsError(f"{path} cannot be read: {error.strerror}", key="script.code", given=name) from error
        digest.update(f"{name}\0".encode() + (without_comments(content) if path.suffix == ".py" else content) + b"\0")
    return digest.hexdigest()[:DIGITS]


def with_code(options: ScriptOptions) -> ScriptOptions:
    """Return options with the hash of the present code. The hash is empty if the code cannot be read."""
    try:
        return replace(options, code_hash=code_hash(options))
    except SettingsError:
        return replace(options, code_hash="")
