"""Names of programs: the suffixes of their files, and the modules that commands run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

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


def modules_in(words: Sequence[str]) -> Iterator[str]:
    """Yield the modules after ``-m``."""
    for flag, name in pairwise(words):
        if MODULE_FLAG.fullmatch(flag) and MODULE_NAME.fullmatch(name):
            yield name
    yield from (match[1] for word in words if (match := MODULE_OPTION.fullmatch(word)))
