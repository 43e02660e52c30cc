"""Every error the orchestrator raises on purpose, and the exit code each one means."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class SweepError(Exception):
    """A failure that is not the user's mistake: a full disk, a server that does not answer. Exit code 1."""

    exit_code = 1


class UserError(SweepError, ValueError):
    """A mistake of the user's: says what was given, what is allowed and where. Exit code 2."""

    exit_code = 2


SHOWN = 6
"""At most so many names are listed in a message."""


def first_of(names: Sequence[str]) -> str:
    """The first names, and the number of the others."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def did_you_mean(given: str, allowed: Iterable[str]) -> str:
    """A sentence, after a space, with the nearest allowed name; ``""`` if none is close."""
    found = nearest(given, allowed)
    return f" Did you mean {found!r}?" if found else ""


def nearest(given: str, allowed: Iterable[str]) -> str | None:
    """The allowed name that a misspelt or shortened one most likely meant, such as ``learning_rate`` for ``lr``."""
    names = list(allowed)
    short = [name for name in names if given == "".join(part[0] for part in name.split("_") if part)]
    stems = [stem for stem, least in ((given.rstrip("s"), 3), (given[:-1], 4)) if len(given) >= least]
    begun = [name for stem in stems for name in names if name.startswith(stem)]
    close = difflib.get_close_matches(given, names, n=1)
    return next(iter([*(short if len(given) > 1 else ()), *close, *begun]), None)


def unknown(kind: str, given: str, allowed: Iterable[str], *, where: str = "") -> UserError:
    """The error for a name that is not one of the allowed ones."""
    names = sorted(allowed)
    place = f" in {where}" if where else ""
    return UserError(f"unknown {kind} {given!r}{place}.{did_you_mean(given, names)} Allowed: {', '.join(names)}.")
