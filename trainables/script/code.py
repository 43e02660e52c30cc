"""The code of a script, whose hash is part of the keys of its runs."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from trainables.contract.file_hashes import DIGITS, without_comments
from trainables.contract.finder import MAIN, module_file
from trainables.contract.settings import SettingsError
from trainables.contract.user_modules import own_modules
from trainables.script import placeholders
from trainables.script.options import ScriptOptions

LONGEST_NAME = 256
"""Words of a command with more characters are not looked up as files."""
MOST_BYTES_ELSEWHERE = 1 << 20
"""Maximum size of a file that counts as code if it is outside the script's directory, or that is read as Python without
a suffix of Python. Larger ones are probably data."""
MODULE_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
"""Pattern of the name of a module."""
MODULE_FLAG = re.compile(r"-[a-zA-Z]*m|--module")
"""Pattern of the option before the name of a module."""
MODULE_OPTION = re.compile(rf"(?:-m|--module=)({MODULE_NAME.pattern})")
"""Pattern of an option with the name of a module."""
PYTHON_PATH = "PYTHONPATH="
"""Beginning of a word that adds folders to Python's search path."""
INTERPRETER = re.compile(r"(python|pypy)[\d.]*")
"""Pattern of the file names of Python interpreters. They run code, but are not the code."""
SHELL_SUFFIXES = (".sh", ".bash")
"""Suffixes of shell scripts. The words in them also count."""
PYTHON_SUFFIXES = (".py", ".pyw")
"""Suffixes of Python files. Files with other suffixes may also be Python, if they are short."""
PROGRAM_SUFFIXES = (*PYTHON_SUFFIXES, *SHELL_SUFFIXES, ".jl", ".r", ".lua", ".pl", ".rb", ".js", ".ts", ".m", ".jar")
"""Suffixes, in lower case, of files that another program runs."""


def code_files(options: ScriptOptions) -> list[str]:
    """Return the files of a script's code, relative to its directory or absolute.

    They are the files under ``code:``. By default, they are the files that its command names, also in the text of a
    shell or after ``=``, the modules after ``-m``, and the modules that Python files among them import from their own
    folders or those in ``PYTHONPATH``. A file outside the directory counts only if it is a short text.

    Raises :class:`SettingsError` if a file cannot be read, or if a package has too many modules.
    """
    if options.code:
        return sorted(set(options.code))
    root = Path(options.directory)
    words = list(_words(options.command))
    named = dict.fromkeys(filter(None, (_file_named(root, word) for word in words)))
    for name in [name for name in named if name.endswith(SHELL_SUFFIXES)]:
        inner = list(_words([_text_of(root / name)]))
        named |= dict.fromkeys(filter(None, (_file_named(root, word) for word in inner)))
        words += inner
    added = [root / folder for folder in _python_path(options, words)]
    files = set(named)
    for name in named:
        imported = _files_of_script(Path(os.path.abspath(root / name)), added)
        files |= {str(file) if Path(name).is_absolute() else os.path.relpath(file, root) for file in imported}
    for module in _modules(words):
        files |= {os.path.relpath(file, root) for file in _files_of_module([root, *added], module)}
    return sorted(files)


def knows_code(options: ScriptOptions) -> bool:
    """Return True if a change of the script's code would change its hash: one of its files is a program."""
    return bool(options.code) or any(is_program(Path(options.directory) / name) for name in code_files(options))


def is_program(file: Path) -> bool:
    """Return True for a file that runs, which configuration files and interpreters are not."""
    if INTERPRETER.fullmatch(file.name):
        return False
    return file.suffix.lower() in PROGRAM_SUFFIXES or os.access(file, os.X_OK)


def _words(command: Iterable[str]) -> Iterator[str]:
    """Yield the words of a command, the words in its words, as a shell would split them, and their parts after ``=``.

    Omit placeholders.
    """
    for word in command:
        try:
            lexer = shlex.shlex(word, posix=True, punctuation_chars=True)
            lexer.whitespace_split = True
            parts = list(lexer)
        except ValueError:  # A quotation mark is not closed.
            parts = word.split()
        values = [part.partition("=")[2] for part in parts]
        for part in dict.fromkeys((word, *parts, *values)):
            if part and not _has_placeholder(part):
                yield part


def _has_placeholder(word: str) -> bool:
    try:
        return bool(placeholders.fields_in(word, "script.command"))
    except SettingsError:  # A brace in a shell script.
        return True


def _modules(words: Sequence[str]) -> Iterator[str]:
    """Yield the modules after ``-m``."""
    for flag, name in pairwise(words):
        if MODULE_FLAG.fullmatch(flag) and MODULE_NAME.fullmatch(name):
            yield name
    yield from (found[1] for word in words if (found := MODULE_OPTION.fullmatch(word)))


def _python_path(options: ScriptOptions, words: Iterable[str]) -> Iterator[str]:
    """Yield the folders that a script's environment or command puts into ``PYTHONPATH``."""
    given = [word.removeprefix(PYTHON_PATH) for word in words if word.startswith(PYTHON_PATH)]
    for value in (options.environment.get(PYTHON_PATH.removesuffix("="), ""), *given):
        yield from filter(None, value.split(os.pathsep))


def _file_named(root: Path, word: str) -> str:
    """Return the file of code that a word names, or an empty string. A directory stands for its ``__main__.py``."""
    if len(word) >= LONGEST_NAME:
        return ""
    path = root / word
    if path.is_dir():
        word = os.path.join(word, f"{MAIN}.py")
        path = root / word
    if not path.is_file():
        return ""
    if not Path(word).is_absolute() and ".." not in Path(word).parts:
        return word
    if path.stat().st_size > MOST_BYTES_ELSEWHERE or INTERPRETER.fullmatch(path.name):
        return ""
    try:
        return "" if b"\0" in path.read_bytes() else word
    except OSError:
        return word  # `code_hash` reports that it cannot be read.


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise _unreadable(file, error) from error


def _files_of_script(file: Path, added: Sequence[Path]) -> list[Path]:
    """Return the files that a file imports if Python runs it, from its folder or from ``added`` ones.

    If it is a link, Python searches the folder to which it leads.
    """
    if file.suffix not in PYTHON_SUFFIXES and file.stat().st_size > MOST_BYTES_ELSEWHERE:
        return []  # Data.
    return _imported_files(MAIN, file.resolve().parent, file, added)


def _files_of_module(folders: Sequence[Path], name: str) -> list[Path]:
    """Return the files of a module in the first of these folders that has it, and of the modules that it imports.

    A package counts whole. Return an empty list if no folder has the module.
    """
    for folder in folders:
        for one in (f"{name}.{MAIN}", name):
            if (file := module_file(folder, one)) is not None:
                return _imported_files(one, folder, file, folders)
    return []


def _imported_files(name: str, folder: Path, file: Path, path: Sequence[Path]) -> list[Path]:
    """Return the file of a module that another process runs, and the files that it imports from its folder or from
    Python's search path."""
    try:
        modules = own_modules(name, [folder], file, path)
    except ImportError as error:
        raise SettingsError(f"{folder}: {error}", key="script.code", given=str(file)) from error
    except OSError as error:
        raise _unreadable(Path(error.filename or file), error) from error
    return [module.file for module in modules.values() if module.file is not None]


def _unreadable(path: Path, error: OSError) -> SettingsError:
    return SettingsError(f"{path} cannot be read: {error.strerror}", key="script.code", given=str(path))


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
            raise _unreadable(path, error) from error
        digest.update(f"{name}\0".encode() + (without_comments(content) if path.suffix == ".py" else content) + b"\0")
    return digest.hexdigest()[:DIGITS]


def with_code(options: ScriptOptions) -> ScriptOptions:
    """Return options with the hash of the present code. The hash is empty if the code cannot be read."""
    try:
        return replace(options, code_hash=code_hash(options))
    except SettingsError:
        return replace(options, code_hash="")
