"""Errors that the orchestrator raises on purpose, with their exit codes, and the line of a traceback with the error."""

from __future__ import annotations

import re
from itertools import pairwise

INTERRUPTED = 130
"""Exit code after an interruption: 128 + SIGINT, as in shells."""


class SweepError(Exception):
    """An error whose message tells a user enough, without a traceback. Exit code 1: a failure, such as a full disk."""

    exit_code = 1


class UserError(SweepError, ValueError):
    """A mistake of the user. The message contains what was given, what is allowed and where. Exit code 2."""

    exit_code = 2


LONGEST_ERROR = 20_000
"""Characters of the error of a failed run or probe that are kept."""
EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:: .*|)")
"""Pattern of the line of a traceback that names the exception."""


def exception_line(text: str) -> str:
    """Return the line of a traceback that names the exception, or the last line if no line does.

    It need not be the last line, because a message may have several lines. For example, pydantic's ends with a link.
    """
    lines = text.strip().splitlines()
    after_frames = [
        line
        for before, line in pairwise(lines)
        if before.startswith(" ") and not line.startswith(" ") and EXCEPTION.fullmatch(line)
    ]
    with_message = [line for line in after_frames if ": " in line]
    return next(iter([*reversed(with_message or after_frames), *lines[-1:]]), "")


def shortened_error(error: str) -> str:
    """Return an error without its middle if it is long. A message may contain a whole batch, and every listing would
    read it again."""
    if len(error) <= LONGEST_ERROR:
        return error
    half = LONGEST_ERROR // 2
    return f"{error[:half]}\n... ({len(error) - 2 * half:,} characters) ...\n{error[-half:]}"
