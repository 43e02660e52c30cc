"""Commands of this program as lines to paste into a shell."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from orchestrator.environment import working_directory


def command_line(*words: object) -> str:
    """Return the shell command that runs this program with these words, quoted as needed. It calls ``python`` if the
    shell finds this interpreter under that name, otherwise the interpreter's path."""
    python, found = Path(sys.executable), shutil.which("python")
    # Interpreters of environments are links to one file, so only their directories differ.
    if found is not None and Path(found).parent.resolve() == python.parent.resolve():
        python = Path("python")
    elif (here := working_directory()) and python.is_relative_to(here):
        python = python.relative_to(here)
    return shlex.join([str(python), "-m", "orchestrator", *map(str, words)])
