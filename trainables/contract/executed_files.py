"""Python files that this process has executed, and scripts in the commands that it has started.

Most files are imported and can be found in ``sys.modules``. Others are run by path, for example by :mod:`runpy`.
Python's audit events name them all.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from trainables.contract.programs import CODE_SUFFIXES, MODULE_OPTION, modules_in

STARTS_PROCESS = {"subprocess.Popen": 2, "os.posix_spawn": 2, "os.exec": 2, "os.system": 1}
"""Audit events of a process that is started, with the number of their first values that are its program and command."""
SHELL = re.compile(r"(ba|c|da|fi|k|tc|z)?sh")
"""Pattern of the names of shells."""
INTERPRETER = re.compile(rf"(python|pypy|perl|ruby|node|julia|lua|luajit|Rscript|{SHELL.pattern})[\d.]*")
"""Pattern of the names of programs that run the first file after them, with any suffix."""
TEXT_OPTION = re.compile(rf"-|-[a-zA-Z]*[cem]|--eval|{MODULE_OPTION.pattern}")
"""Pattern of an option with the text or the module that runs. The files after it are arguments."""
TEXT_OPTION_OF_SHELL = re.compile(r"-|-[a-z]*[cs][a-z]*")
"""The same for shells, whose ``-e`` is another option."""
WORD = re.compile(r"[^\s;|&()<>'\"]+")
"""Pattern of a word in a command for a shell."""
_files: dict[str, int] = {}
"""How often these files were executed so far, by path."""
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


def times_executed(file: Path) -> int:
    """Return how often a file was executed since the process began to watch."""
    return _files.get(str(file), 0)


def _note(event: str, values: tuple[Any, ...]) -> None:
    # Called for hundreds of kinds of events, and an exception here would break what caused the event.
    if event == "exec":
        with suppress(Exception):
            name = values[0].co_filename
            if not name.startswith("<"):
                path = os.path.abspath(name)  # Now, because the working directory may change.
                _files[path] = _files.get(path, 0) + 1
    elif event in STARTS_PROCESS:
        with suppress(Exception):
            command = [word for value in values[: STARTS_PROCESS[event]] for word in _words(value)]
            directory = values[2] if event == "subprocess.Popen" and values[2] is not None else "."
            for path in _files_in(command, os.fsdecode(directory)):
                _files.setdefault(path, 0)


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
    for position, word in enumerate(words):
        if INTERPRETER.fullmatch(os.path.basename(word)) and (first := _first_file(words[position:], folders)):
            yield from _files_named([first, f"{first}/__main__.py"], folders)


def _files_named(names: Iterable[str], folders: Sequence[str]) -> Iterator[str]:
    """Yield the absolute paths of the files that names stand for, seen from some folders."""
    paths = (os.path.abspath(os.path.join(folder, name)) for name in names for folder in folders)
    yield from filter(os.path.isfile, paths)


def _first_file(words: Sequence[str], folders: Sequence[str]) -> str:
    """Return the first word after an interpreter that is a file or directory. It is empty if the interpreter runs a
    text, a module or no file."""
    is_shell = SHELL.fullmatch(os.path.basename(words[0])) is not None
    ends = (TEXT_OPTION_OF_SHELL if is_shell else TEXT_OPTION).fullmatch
    for word in takewhile(lambda word: not ends(word), words[1:]):
        # The program of a process is also the first word of its command.
        is_interpreter = INTERPRETER.fullmatch(os.path.basename(word))
        if not is_interpreter and any(os.path.exists(os.path.join(folder, word)) for folder in folders):
            return word
    return ""


def _is_script(path: str) -> bool:
    """Return True for a file that begins with the name of its interpreter."""
    with suppress(OSError), open(path, "rb") as file:
        return file.read(2) == b"#!"
    return False
