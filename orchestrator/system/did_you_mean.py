""" "Did you mean ...?": the allowed name nearest to a misspelled name, for error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from orchestrator.system.errors import UserError
from orchestrator.system.text import first_of

MOST_ALLOWED = 30
"""Maximum number of allowed names listed in full."""
MOST_COMPARED = 500
"""Maximum number of allowed names that are compared with a misspelled one letter by letter."""
LONGEST_COMPARED = 100
"""Maximum length of a name that is compared in this way."""


def did_you_mean(given: str, allowed: Iterable[str]) -> str:
    """Return a sentence with the nearest allowed name, after a space. Return an empty string if no name is close."""
    name = nearest(given, allowed)
    return f" Did you mean {name!r}?" if name else ""


def nearest(given: str, allowed: Iterable[str]) -> str | None:
    """Return the allowed name that a misspelled or shortened name (``lr`` for ``learning_rate``) probably means. Return
    None if no name is close."""
    names = list(allowed)
    short = [name for name in names if given == "".join(part[0] for part in name.split("_") if part)]
    stems = [stem for stem, least in ((given.rstrip("s"), 3), (given[:-1], 4)) if len(given) >= least]
    begun = [name for stem in stems for name in names if name.startswith(stem)]
    alike = [name for name in names[:MOST_COMPARED] if len(name) <= LONGEST_COMPARED]
    close = difflib.get_close_matches(given, alike, n=1) if len(given) <= LONGEST_COMPARED else []
    return next(iter([*(short if len(given) > 1 else ()), *close, *begun]), None)


def unknown(kind: str, given: str, allowed: Iterable[str], *, where: str = "") -> UserError:
    """Return the error for a name that is not allowed."""
    names = sorted(allowed)
    in_where = f" in {where}" if where else ""
    listed = ", ".join(names) if len(names) <= MOST_ALLOWED else first_of(names)
    return UserError(f"unknown {kind} {given!r}{in_where}.{did_you_mean(given, names)} Allowed: {listed}.")
