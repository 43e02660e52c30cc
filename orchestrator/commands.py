"""Commands of this program as lines for a person to paste into a shell."""

from __future__ import annotations

import shlex

PROGRAM = ("python", "-m", "orchestrator")


def command_line(*words: object) -> str:
    """Return the line that runs a command of this program, with words quoted as a shell needs them."""
    return shlex.join([*PROGRAM, *map(str, words)])
