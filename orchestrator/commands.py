"""Commands of this program as lines to paste into a shell."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from orchestrator.environment import working_directory


def command_line(*words: object) -> str:
    """Return the shell command that runs this program with these words, quoted as needed."""
    return shlex.join([_python(), "-m", "orchestrator", *map(str, words)])


def _python() -> str:
    """Return ``python`` if the shell finds this interpreter under that name, otherwise the interpreter's path."""
    here, found = Path(sys.executable), shutil.which("python")
    # Interpreters of environments are links to one file, so only their directories differ.
    if found is not None and Path(found).parent.resolve() == here.parent.resolve():
        return "python"
    directory = working_directory()
    return str(here.relative_to(directory) if directory and here.is_relative_to(directory) else here)
