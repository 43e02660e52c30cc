"""Python files that this process has executed, and scripts in the commands that it has started.

Most files are imported and can be found in ``sys.modules``. Others are run by path, for example by :mod:`runpy`.
Python's audit events name them all.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from trainables.contract.finder import PRODUCT, PROGRAM, is_installed
from trainables.contract.programs import CODE_SUFFIXES, modules_in, run_words

STARTS_PROCESS = {"subprocess.Popen": 2, "os.posix_spawn": 2, "os.exec": 2, "os.system": 1}
"""Audit events of a process that is started, with the number of their first values that are its program and command."""
WORD = re.compile(r"[^\s;|&()<>'\"]+")
"""Pattern of a word in a command for a shell."""
OWN_FOLDERS = tuple(
    f"{os.path.realpath(folder)}/"
    for folder in (os.path.dirname(os.__file__), *(os.path.join(PROGRAM, name) for name in PRODUCT))
)
"""Folders of Python and of this project."""
_files: dict[str, None] = {}
"""Paths of these files so far."""


class Execution(NamedTuple):
    """The last execution of a file: its number, from 1, and the hash of the file's content at that time."""

    number: int
    content: str


_executions: dict[str, Execution] = {}
"""By the path of the file without links."""
_unwatched: frozenset[str] | None = None
"""Names of the modules that had been imported when this process began to watch. None if it does not watch."""


def watch_executed_files() -> None:
    """Note every file that this process executes from now on, and those of the modules that are being imported now.

    Python cannot stop that again before the process ends.
    """
    global _unwatched
    if _unwatched is not None:
        return
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "<module>" and not frame.f_code.co_filename.startswith("<"):
            _count(frame.f_code.co_filename)
        frame = frame.f_back
    _unwatched = frozenset(name for name, module in sys.modules.copy().items() if path_of(module) not in _executions)
    sys.addaudithook(_note)


def was_imported_once(module_name: str, file: Path) -> bool:
    """Return True if the only execution of a file was the import of its module. Others may have been for other modules,
    as those of ``%run``, and modules that imported this one may then have parts of an earlier import."""
    last = last_execution(file)
    return last is not None and last.number == 1 and module_name not in (_unwatched or ())


def path_of(module: object) -> str:
    """Return the file of a module without links, or an empty string if it has none."""
    # Not with `getattr`: some modules of libraries run code when they are asked.
    try:
        given = object.__getattribute__(module, "__dict__").get("__file__")
    except AttributeError:  # An object that has no attributes of its own.
        given = None
    return os.path.realpath(given) if isinstance(given, str) else ""


def executed_files() -> list[str]:
    """Return the paths of the files that were executed since the process began to watch, in order."""
    return list(_files)


def content_hash(file: str | Path) -> str:
    """Return a hash of a file's content. It is empty for a file of Python, of this project or of an installed package,
    and for one that cannot be read."""
    if str(file).startswith(OWN_FOLDERS) or is_installed(Path(file)):
        return ""
    try:
        with open(file, "rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError:
        return ""


def last_execution(file: Path) -> Execution | None:
    """Return the last execution of a file, or None if there was none since the process began to watch."""
    return _executions.get(os.path.realpath(file))


def _note(event: str, values: tuple[Any, ...]) -> None:
    # Called for hundreds of kinds of events, and an exception here would break what caused the event.
    if event == "exec":
        with suppress(Exception):
            name = values[0].co_filename
            if not name.startswith("<"):
                _files[os.path.abspath(name)] = None  # Now, because the working directory may change.
                _count(name)
    elif event in STARTS_PROCESS:
        with suppress(Exception):
            command = [word for value in values[: STARTS_PROCESS[event]] for word in _words(value)]
            directory = values[2] if event == "subprocess.Popen" and values[2] is not None else "."
            for path in _files_in(command, os.fsdecode(directory)):
                _files[path] = None


def _count(name: str) -> None:
    real = os.path.realpath(name)
    earlier = _executions.get(real)
    _executions[real] = Execution(1 if earlier is None else earlier.number + 1, content_hash(real))


def _words(arguments: object) -> Iterator[str]:
    """Yield the words of a command, also of one for a shell."""
    words: Any = arguments if isinstance(arguments, list | tuple) else [arguments]
    for word in map(os.fsdecode, words):
        parts = WORD.findall(word)
        yield from (word, *(parts if parts != [word] else ()))


def _files_in(words: Sequence[str], directory: str) -> Iterator[str]:
    """Yield the absolute paths of the scripts that a command names, for any interpreter."""
    entered = [after for before, after in pairwise(words) if before == "cd"]
    folders = [os.path.join(directory, folder) for folder in dict.fromkeys(("", *entered))]
    modules = [name.replace(".", "/") for name in modules_in(words)]
    names = [*words, *(f"{module}{end}" for module in modules for end in (".py", "/__main__.py"))]
    for path in _files_named(dict.fromkeys(names), folders):
        if path.lower().endswith(CODE_SUFFIXES) or _is_script(path):
            yield path
    for first, _ in run_words(words, lambda word: any(os.path.exists(os.path.join(at, word)) for at in folders)):
        yield from _files_named([first, f"{first}/__main__.py"], folders)


def _files_named(names: Iterable[str], folders: Sequence[str]) -> Iterator[str]:
    """Yield the absolute paths of the files that names stand for, seen from some folders."""
    paths = (os.path.abspath(os.path.join(folder, name)) for name in names for folder in folders)
    yield from filter(os.path.isfile, paths)


def _is_script(path: str) -> bool:
    """Return True for a file that begins with the name of its interpreter."""
    with suppress(OSError), open(path, "rb") as file:
        return file.read(2) == b"#!"
    return False
