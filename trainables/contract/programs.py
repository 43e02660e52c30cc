"""Names of programs: the suffixes of their files, and the modules that commands run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

PYTHON_SUFFIXES = (".py", ".pyw")
"""Suffixes of Python files. Files with other suffixes may also be Python, if they are short."""
SHELL_SUFFIXES = (".sh", ".bash", ".zsh")
"""Suffixes of shell scripts."""
PROGRAM_SUFFIXES = (*PYTHON_SUFFIXES, *SHELL_SUFFIXES, ".jl", ".r", ".lua", ".pl", ".rb", ".js", ".ts", ".m", ".jar")
"""Suffixes, in lower case, of files that another program runs."""
CODE_SUFFIXES = (
    *PROGRAM_SUFFIXES,
    *(".awk", ".c", ".cc", ".cjs", ".cpp", ".csh", ".cu", ".cuh", ".cxx", ".f", ".f90", ".f95", ".fish", ".go", ".h"),
    *(".hh", ".hpp", ".hs", ".ipynb", ".java", ".ksh", ".kt", ".mjs", ".ml", ".mts", ".php", ".pm", ".pxd", ".pyx"),
    *(".pyz", ".rs", ".sbatch", ".scala", ".sed", ".slurm", ".swift", ".tcl"),
)
"""Suffixes, in lower case, of programs and their sources."""
MODULE_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
"""Pattern of the name of a module."""
MODULE_FLAG = re.compile(r"-[a-zA-Z]*m|--module")
"""Pattern of the option before the name of a module."""
MODULE_OPTION = re.compile(rf"(?:-[bBdEiIOPqsSuvx]*m|--module=)({MODULE_NAME.pattern})")
"""Pattern of an option with the name of a module, also after other options of Python."""
SHELL = re.compile(r"(ba|c|da|fi|k|tc|z)?sh")
"""Pattern of the names of shells."""
INTERPRETER = re.compile(rf"(python|pypy|perl|ruby|node|julia|lua|luajit|Rscript|{SHELL.pattern})[\d.]*")
"""Pattern of the names of programs that run the first file after them, with any suffix."""
TEXT_OPTION = re.compile(rf"-|-(?![WX])[a-zA-Z]*[cem]|--eval|{MODULE_OPTION.pattern}")
"""Pattern of an option with the text or the module that runs. The files after it are arguments."""
TEXT_OPTION_OF_SHELL = re.compile(r"-|-[a-z]*[cs][a-z]*")
"""The same for shells, whose ``-e`` is another option."""
SOURCED = (".", "source")
"""Words of a shell before a file that it reads as its own text."""


def modules_in(words: Sequence[str]) -> Iterator[str]:
    """Yield the modules after ``-m``."""
    for flag, name in pairwise(words):
        if MODULE_FLAG.fullmatch(flag) and MODULE_NAME.fullmatch(name):
            yield name
    yield from (match[1] for word in words if (match := MODULE_OPTION.fullmatch(word)))


class RunWord(NamedTuple):
    """A word of a command that an interpreter runs, with any suffix, or that a shell reads as its own text."""

    word: str
    is_shell: bool
    """True if a shell reads it."""


def run_words(words: Sequence[str], exists: Callable[[str], bool]) -> Iterator[RunWord]:
    """Yield the words of a command that interpreters run.

    Args:
        words: The words.
        exists: Returns whether a word is a file or directory.
    """
    for position, word in enumerate(words):
        if word in SOURCED:
            following = [one for one in islice(words, position + 1, position + 3) if one != "--"][:1]
            yield from (RunWord(one, True) for one in following if exists(one))
        elif INTERPRETER.fullmatch(os.path.basename(word)):
            is_shell = SHELL.fullmatch(os.path.basename(word)) is not None
            ends = (TEXT_OPTION_OF_SHELL if is_shell else TEXT_OPTION).fullmatch
            for one in islice(words, position + 1, None):
                if ends(one):
                    break
                # The program of a process is also the first word of its command.
                if not INTERPRETER.fullmatch(os.path.basename(one)) and exists(one):
                    yield RunWord(one, is_shell)
                    break
