"""Commands of this program as lines to paste into a shell."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path


def command_line(*words: object) -> str:
    """Return the shell command that runs this program with these words, quoted as needed. It calls ``python`` if the
    shell finds this interpreter under that name, otherwise the interpreter's path."""
    python, found = Path(sys.executable), shutil.which("python")
    # Interpreters of environments are links to one file, so only their directories differ.
    if found is not None and Path(found).parent.resolve() == python.parent.resolve():
        python = Path("python")
    elif python.is_relative_to(Path.cwd()):
        python = python.relative_to(Path.cwd())
    return shlex.join([str(python), "-m", "orchestrator", *map(str, words)])
