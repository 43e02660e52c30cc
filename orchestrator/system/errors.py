"""Errors that the orchestrator raises on purpose, with their exit codes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

INTERRUPTED = 130
"""Exit code after an interruption: 128 + SIGINT, as in shells."""


class SweepError(Exception):
    """An error whose message tells a user enough, without a traceback. Exit code 1: a failure, such as a full disk."""

    exit_code = 1


class UserError(SweepError, ValueError):
    """A mistake of the user. The message contains what was given, what is allowed and where. Exit code 2."""

    exit_code = 2


SHOWN = 6
"""Maximum number of names in a message."""
MOST_ALLOWED = 30
"""Maximum number of allowed names listed in full."""


def first_of(names: Sequence[str]) -> str:
    """Return the first names, and the number of remaining names."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def did_you_mean(given: str, allowed: Iterable[str]) -> str:
    """Return a sentence with the nearest allowed name, after a space, or "" if none is close."""
    name = nearest(given, allowed)
    return f" Did you mean {name!r}?" if name else ""


def nearest(given: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed name that a misspelled or shortened name (``lr`` for ``learning_rate``) probably means."""
    names = list(allowed)
    short = [name for name in names if given == "".join(part[0] for part in name.split("_") if part)]
    stems = [stem for stem, least in ((given.rstrip("s"), 3), (given[:-1], 4)) if len(given) >= least]
    begun = [name for stem in stems for name in names if name.startswith(stem)]
    close = difflib.get_close_matches(given, names, n=1)
    return next(iter([*(short if len(given) > 1 else ()), *close, *begun]), None)


def unknown(kind: str, given: str, allowed: Iterable[str], *, where: str = "") -> UserError:
    """Return the error for a name that is not allowed."""
    names = sorted(allowed)
    place = f" in {where}" if where else ""
    listed = ", ".join(names) if len(names) <= MOST_ALLOWED else first_of(names)
    return UserError(f"unknown {kind} {given!r}{place}.{did_you_mean(given, names)} Allowed: {listed}.")


EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:: .*|)")
"""The line of a traceback that names the exception."""


def exception_line(text: str) -> str:
    """Return the line of a traceback that names the exception, or its last line if none does. An exception's message
    may go on for more lines: pydantic's ends with a link."""
    lines = text.strip().splitlines()
    after_frames = [
        line
        for before, line in pairwise(lines)
        if before.startswith(" ") and not line.startswith(" ") and EXCEPTION.fullmatch(line)
    ]
    with_message = [line for line in after_frames if ": " in line]
    return next(iter([*reversed(with_message or after_frames), *lines[-1:]]), "")
