"""Commands of this program as lines to paste into a shell."""

from __future__ import annotations

import shlex

PROGRAM = ("python", "-m", "orchestrator")


def command_line(*words: object) -> str:
    """Return the shell command that runs this program with these words, quoted as needed."""
    return shlex.join([*PROGRAM, *map(str, words)])
