"""The code of a script, whose hash is part of the keys of its runs."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

from trainables.contract.file_hashes import DIGITS, without_comments
from trainables.contract.finder import MAIN, module_file, top_name
from trainables.contract.imports import required_names
from trainables.contract.programs import PYTHON_SUFFIXES, modules_in, run_words
from trainables.contract.settings import SettingsError
from trainables.contract.user_code import PYTHON_PATH, user_path
from trainables.contract.user_modules import MODULE_SUFFIXES, own_modules
from trainables.script.environments import (
    editable_folders,
    environments_among,
    installed_names,
    is_environment,
    usual_environments,
)
from trainables.script.options import ScriptOptions
from trainables.script.program_text import (
    INTERPRETER,
    MOST_NAMES,
    SETTINGS_SUFFIXES,
    command_words,
    has_program_suffix,
    is_launcher,
    is_program,
    is_shell,
    may_be_code,
    names_in,
    paths_in,
    search_path_in,
    shell_words,
    words_of_variables,
    written_names,
)
from trainables.script.project import folders_above, project_of
from trainables.script.read_settings import named_settings
from trainables.script.started_modules import Started, started_in

LONGEST_NAME = 256
"""Words of a command with more characters are not looked up as files."""
MOST_BYTES_ELSEWHERE = 1 << 20
"""Maximum size of a file that counts as code if it is outside the script's directory, or that is read as a program
without a suffix of one. Larger ones are probably data."""
MOST_SHELL_BYTES = 1 << 16
"""Number of bytes of a shell script that are read. A longer one usually has data at its end."""
PIECE_BYTES = 1 << 20
"""Number of bytes of a file that are hashed at a time."""
READ_COMMENT = re.compile(rb"\A#!|^# ///|^\s*#\s*(cython|distutils):", re.MULTILINE)
"""Pattern of comments that programs read: the interpreter, the dependencies (PEP 723), and directives of Cython."""
MOST_SHELL_FOLDERS = 20
"""Number of directories in which words of shells are looked up."""
NOT_A_FILE = re.compile(r"[\s=*:]")
"""Pattern in words that name no single file: texts, options, patterns of files, addresses."""
SOURCE_FOLDER = "src"
"""Folder of a project's packages, which the project's environment often has on Python's search path."""


class ScriptCode(NamedTuple):
    """The code of a script.

    Attributes:
        files: Its files, relative to the script's directory or absolute, sorted.
        unknown: Why other files may be part of it, empty if none is known to be missing.
    """

    files: list[str]
    unknown: str


def code_of(options: ScriptOptions) -> ScriptCode:
    """Return the code of a script.

    Its files are those under ``code:``. By default, they are the files that its command names, also in the text of a
    shell or after ``=``, the modules after ``-m``, and what these files run in turn: the words of shell scripts, the
    texts in other programs that name a program, and the modules that Python files import from their own folders or
    from those in ``PYTHONPATH``. A file outside the directory counts only if it is a short text.

    Raises :class:`SettingsError` if a file cannot be read, or if a package has too many modules.
    """
    if options.code:
        return ScriptCode(sorted(set(options.code)), "")
    code = _CodeSearch(options)
    unknown = f"The script names {code.missing[0]}, which was not found" if code.missing else ""
    programs = [name for name in code.files if is_program(code.root / name)]
    if programs and all(map(is_launcher, map(code.root.joinpath, programs))):
        unknown = unknown or f"The shell script {programs[0]} runs no program that was found"
    if not programs:
        unknown = "No file of the script is known"
    return ScriptCode(sorted(code.files), unknown)


def unfound_modules(options: ScriptOptions) -> list[str]:
    """Return the modules that Python files of a script import or start, and that are neither among its files nor
    installed. Return nothing if the options list its code."""
    return [] if options.code else _CodeSearch(options).unfound()


class _CodeSearch:
    """What a script runs. The command is read first, then each file that it names, then the files that those name.

    Attributes:
        root: The directory of the script.
        files: Files of the code, relative to the directory or absolute.
        missing: Words of shells that name programs which were not found.
    """

    def __init__(self, options: ScriptOptions) -> None:
        self.root = Path(options.directory)
        self.files: dict[str, None] = {}
        self.missing: list[str] = []
        self._shell_files: set[str] = set()
        """Those of the files that a shell reads, whatever their names and first lines."""
        self._modules: dict[str, Path] = {}
        """Modules that were found."""
        self._started: set[str] = set()
        """Modules that Python files start in other processes."""
        self._folders = {self.root: None}
        """Directories in which shells may look for files."""
        self._environments = dict.fromkeys(usual_environments(self.root, os.environ | dict(options.environment)))
        self._search_path = dict.fromkeys([self.root / SOURCE_FOLDER, *folders_above(self.root)])
        given = options.environment.get(PYTHON_PATH, user_path(os.environ))
        inherited = [self.root / folder for folder in given.split(os.pathsep) if folder]
        self._search_path |= dict.fromkeys(filter(os.path.isdir, inherited))
        self._settings: dict[tuple[Path, str], None] = {}
        """Settings that a Python file or a variable names, each with the folder from which it is seen."""
        self._written = set(written_names(shlex.join(options.command)))
        """Names, without folders, of files that a program writes."""
        words = list(command_words(options.command))
        for word in words_of_variables(options.environment):
            if has_program_suffix(word):
                self._add_named(self.root, word)
            self._settings[self.root, word] = None
        # A file can name a directory that holds files which earlier texts named. So start over until nothing is new.
        while True:
            before = self._size
            self._search_path |= dict.fromkeys(editable_folders(self._environments))
            self.missing.clear()
            self._read_shell(words, self.root)
            read: set[str] = set()
            while unread := [name for name in self.files if name not in read]:
                for name in unread:
                    self._read_file(name)
                read.update(unread)
            if self._size == before:
                break
        self._add_settings()

    def unfound(self) -> list[str]:
        """Return the modules that Python files import or start, and that are neither among the files nor installed."""
        files = [self.root / name for name in self.files if Path(name).suffix in PYTHON_SUFFIXES]
        needed = {name for file in files for name in required_names(file)} | set(map(top_name, self._started))
        needed -= self._own_names()
        return sorted(needed - installed_names(self._environments)) if needed else []

    def _own_names(self) -> set[str]:
        """Return the outermost packages and modules that were found, and the names of Python files."""
        # The code may put the folder of a named file on the search path in a way that we do not understand.
        files = {Path(name).name.partition(".")[0] for name in self.files if name.endswith(MODULE_SUFFIXES)}
        return files | {top_name(module) for module in self._modules}

    @property
    def _size(self) -> tuple[int, ...]:
        return (
            len(self.files),
            len(self._shell_files),
            len(self._folders),
            len(self._search_path),
            len(self._environments),
        )

    def _add_settings(self) -> None:
        """Add the settings that are named, unless a program may write them. Large ones are data."""
        for folder, name in self._settings:
            if name.lower().endswith(SETTINGS_SUFFIXES) and os.path.basename(name) not in self._written:
                for path in paths_in(name):
                    if len(path) < LONGEST_NAME and _is_small_file(folder / path):
                        self._add_named(folder, path)

    def _read_file(self, name: str) -> None:
        """Add what a file runs or imports."""
        file = Path(os.path.abspath(self.root / name))
        if not has_program_suffix(name) and file.stat().st_size > MOST_BYTES_ELSEWHERE:
            return  # Data.
        content = _content_of(file)
        if name in self._shell_files or is_shell(name, content):
            text = content[:MOST_SHELL_BYTES].decode(errors="replace")
            self._written.update(written_names(text))
            self._read_shell(shell_words(text), file.parent)
            return
        own = file.resolve().parent
        modules = _imported_files(MAIN, own, file, [*self._search_path, *folders_above(own)])
        self._modules |= modules
        for imported in modules.values():
            self._add(imported if Path(name).is_absolute() else os.path.relpath(imported, self.root))
        if b"\0" not in content:
            for word in names_in(name, content):
                for folder in (self.root, file.parent):
                    self._add_named(folder, word)
        if file.suffix in (*PYTHON_SUFFIXES, ""):
            settings = named_settings(content)
            self._written |= settings.written
            folders = [self.root, file.parent, *folders_above(file.parent), *self._search_path]
            self._settings |= dict.fromkeys(product(folders, sorted(settings.read)))
            self._add_started(started_in(content), file.parent)

    def _add_started(self, started: Started, folder: Path) -> None:
        """Add the files of the modules that a Python file in a folder starts."""
        self._started |= started.modules
        own = dict.fromkeys((self.root, folder))
        entered = [place for name in sorted(started.folders) for one in own if (place := one / name).is_dir()]
        for module in sorted(started.modules):
            self._add_module(module, [*entered, *own, *self._search_path])

    def _add_module(self, module: str, folders: Sequence[Path]) -> None:
        """Add the files of a module that a process runs, if one of these folders has it."""
        modules = _files_of_module(folders, module)
        self._modules |= modules
        for file in modules.values():
            self._add(os.path.relpath(file, self.root))

    def _read_shell(self, words: Sequence[str], folder: Path) -> None:
        """Add the files that words of a shell in a folder name, and the modules that it runs."""
        words = [word for word in words if len(word) < LONGEST_NAME][:MOST_NAMES]
        for part in search_path_in(words):
            # Of `$PWD` or `$DIR`, nothing is left that is known. It is usually the directory or the script's folder.
            named = self._directories(part, folder) if paths_in(part) else [self.root, folder]
            self._search_path |= dict.fromkeys(named)
        paths = (one / path for word in words for path in paths_in(word) for one in dict.fromkeys((self.root, folder)))
        self._environments |= dict.fromkeys(environments_among(paths))
        for word in words:
            if len(self._folders) < MOST_SHELL_FOLDERS:
                self._folders |= dict.fromkeys(self._directories(word, folder))
        for word in words:
            folders = [folder, *self._folders]
            places = [(one, path) for path in paths_in(word) for one in folders]
            added = [self._add_named(*place) for place in places]
            if has_program_suffix(word) and not any(added) and not NOT_A_FILE.search(word):
                self.missing.append(word)
        for word in words:
            # Many programs read arguments from such a file.
            name = word.removeprefix("@")
            is_read = name != word and os.path.basename(name) not in self._written
            if is_read and (file := self._run_file(name, folder)):
                self._add_shell_file(file)
        for word, by_shell in run_words(words, lambda one: self._run_file(one, folder) is not None):
            if file := self._run_file(word, folder):
                if by_shell:
                    self._add_shell_file(file)
                else:
                    self._add(os.path.relpath(file, self.root))
        for module in modules_in(words):
            self._add_module(module, [*self._folders, *self._search_path])

    def _add_shell_file(self, file: Path) -> None:
        name = os.path.relpath(file, self.root)
        self._add(name)
        self._shell_files.add(name)

    def _run_file(self, word: str, folder: Path) -> Path | None:
        """Return the file of the project that a word of a shell stands for if an interpreter runs it, or None. Files
        of environments, such as ``bin/activate``, are not the project's."""
        project = project_of(self.root)
        for path in (one / path for path in paths_in(word) for one in (folder, *self._folders)):
            file = Path(os.path.normpath(path))
            inner = [above for above in file.parents if above.is_relative_to(project)]
            if inner and _is_small_file(file) and not any(map(is_environment, inner)):
                return file
        return None

    def _directories(self, word: str, folder: Path) -> list[Path]:
        """Return the directories that a word of a shell may stand for."""
        paths = [one / path for path in paths_in(word) for one in (self.root, folder)]
        return [Path(os.path.normpath(path)) for path in paths if path.is_dir()]

    def _add_named(self, folder: Path, word: str) -> bool:
        """Add the file that a word names, seen from a folder. Return whether there is such a file of code."""
        if len(word) >= LONGEST_NAME:  # A text in a program.
            return False
        name = word
        if folder != self.root and not Path(word).is_absolute():
            name = os.path.relpath(folder / word, self.root)
        if not (file := _file_named(self.root, name)):
            return False
        self._add(file)
        return True

    def _add(self, name: str | Path) -> None:
        self.files[os.path.normpath(name)] = None


def _file_named(root: Path, word: str) -> str:
    """Return the file of code that a word names, or an empty string. A directory stands for its ``__main__.py``."""
    path = root / word
    if path.is_dir():
        word = os.path.join(word, f"{MAIN}.py")
        path = root / word
    if not path.is_file():
        return ""
    try:
        if not may_be_code(path):
            return ""
    except OSError:
        return word  # `code_hash` reports that it cannot be read.
    if not Path(word).is_absolute() and ".." not in Path(word).parts:
        return word
    if path.stat().st_size > MOST_BYTES_ELSEWHERE or INTERPRETER.fullmatch(path.name):
        return ""
    try:
        return "" if b"\0" in path.read_bytes() else word
    except OSError:
        return word  # `code_hash` reports that it cannot be read.


def _is_small_file(file: Path) -> bool:
    try:
        return file.is_file() and file.stat().st_size <= MOST_BYTES_ELSEWHERE
    except (OSError, ValueError):  # Such as a word with a null character.
        return False


def _content_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise _unreadable(file, error) from error


def _files_of_module(folders: Sequence[Path], name: str) -> dict[str, Path]:
    """Return the files, by name, of a module in the first of these folders that has it, and of the modules that it
    imports.

    A package counts whole. Return an empty mapping if no folder has the module.
    """
    for folder in folders:
        for one in (f"{name}.{MAIN}", name):
            if (file := module_file(folder, one)) is not None:
                return _imported_files(one, folder, file, folders)
    return {}


def _imported_files(name: str, folder: Path, file: Path, path: Sequence[Path]) -> dict[str, Path]:
    """Return the file of a module that another process runs, and the files that it imports from its folder or from
    Python's search path, by the names of modules."""
    try:
        modules = own_modules(name, [folder], file, path)
    except ImportError as error:
        raise SettingsError(f"{folder}: {error}", key="script.code", given=str(file)) from error
    except OSError as error:
        raise _unreadable(Path(error.filename or file), error) from error
    return {name: module.file for name, module in modules.items() if module.file is not None}


def _unreadable(path: Path, error: OSError) -> SettingsError:
    return SettingsError(f"{path} cannot be read: {error.strerror}", key="script.code", given=str(path))


def code_hash(options: ScriptOptions) -> str:
    """Return the hash of a script's code. Comments and empty lines of Python files do not change it, unless a program
    reads them.

    If the code is not known, the directory is hashed, so that scripts in two directories are never taken for one.

    Raises :class:`SettingsError` if a file cannot be read.
    """
    digest = hashlib.sha256()
    code = code_of(options)
    if code.unknown:
        digest.update(f"{options.directory}\0".encode())
    for name in code.files:
        path = Path(options.directory) / name
        try:
            if not path.is_file():
                raise FileNotFoundError(2, "No such file", str(path))
            digest.update(f"{name}\0".encode())
            for piece in _pieces(path):
                digest.update(piece)
            digest.update(b"\0")
        except OSError as error:
            raise _unreadable(path, error) from error
    return digest.hexdigest()[:DIGITS]


def file_hashes(options: ScriptOptions) -> dict[str, str]:
    """Return the hash of each file of a script's code. It changes with the content that :func:`code_hash` covers.

    Raises :class:`SettingsError` if a file cannot be read.
    """
    return {name: _file_hash(Path(options.directory) / name) for name in code_of(options).files}


def _file_hash(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        for piece in _pieces(path):
            digest.update(piece)
    except OSError as error:
        raise _unreadable(path, error) from error
    return digest.hexdigest()[:DIGITS]


def _pieces(path: Path) -> Iterator[bytes]:
    """Yield the content of a file in pieces, because a command may name gigabytes. Python comes without comments."""
    if path.suffix == ".py":
        content = path.read_bytes()
        yield without_comments(content) if _has_only_plain_comments(content) else content
        return
    with path.open("rb") as file:
        while piece := file.read(PIECE_BYTES):
            yield piece


def _has_only_plain_comments(content: bytes) -> bool:
    """Return False if a comment may change what a Python file does, or if this Python cannot tell what a comment is.
    The script's Python may be a later one."""
    if READ_COMMENT.search(content):
        return False
    try:
        ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def with_code(options: ScriptOptions) -> ScriptOptions:
    """Return options with the hash of the present code. The hash is empty if the code cannot be read."""
    try:
        return replace(options, code_hash=code_hash(options))
    except SettingsError:
        return replace(options, code_hash="")
