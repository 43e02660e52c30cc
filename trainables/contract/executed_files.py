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
from typing import Any, NamedTuple

from trainables.contract.finder import is_installed
from trainables.contract.programs import CODE_SUFFIXES, modules_in, run_words

STARTS_PROCESS = {"subprocess.Popen": 2, "os.posix_spawn": 2, "os.exec": 2, "os.system": 1}
"""Audit events of a process that is started, with the number of their first values that are its program and command."""
WORD = re.compile(r"[^\s;|&()<>'\"]+")
"""Pattern of a word in a command for a shell."""
_files: dict[str, None] = {}
"""Paths of these files so far."""


class Execution(NamedTuple):
    """The last execution of a file: its number, from 1, and the hash of the file's content at that time."""

    number: int
    content: str


_executions: dict[str, Execution] = {}
"""By the path of the file without links."""
_is_watching = False


def watch_executed_files() -> None:
    """Note every file that this process executes from now on. Python cannot stop that again before the process ends."""
    global _is_watching
    if not _is_watching:
        _is_watching = True
        sys.addaudithook(_note)


def executed_files() -> list[str]:
    """Return the paths of the files that were executed since the process began to watch, in order."""
    return list(_files)


def content_hash(file: str | Path) -> str:
    """Return a hash of a file's content. It is empty for an installed file, and for one that cannot be read."""
    if is_installed(Path(file)):
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
                real = os.path.realpath(name)
                earlier = _executions.get(real)
                _executions[real] = Execution(1 if earlier is None else earlier.number + 1, content_hash(real))
    elif event in STARTS_PROCESS:
        with suppress(Exception):
            command = [word for value in values[: STARTS_PROCESS[event]] for word in _words(value)]
            directory = values[2] if event == "subprocess.Popen" and values[2] is not None else "."
            for path in _files_in(command, os.fsdecode(directory)):
                _files[path] = None


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
