"""Every error the orchestrator raises on purpose, and the exit code each one means."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SweepError(Exception):
    """A failure that is not the user's mistake: a full disk, a server that does not answer. Exit code 1."""

    exit_code = 1


class UserError(SweepError, ValueError):
    """A mistake of the user's: says what was given, what is allowed and where. Exit code 2."""

    exit_code = 2


class SettingError(UserError):
    """A setting that cannot be used; ``key`` is its name, inside what holds it."""

    def __init__(self, message: str, key: str) -> None:
        super().__init__(message)
        self.key = key


def nearest(given: str, allowed: Iterable[str]) -> str | None:
    """The allowed name a misspelt one most likely meant, or None when nothing is close."""
    matches = difflib.get_close_matches(given, list(allowed), n=1, cutoff=0.5)
    return matches[0] if matches else None


def unknown(kind: str, given: str, allowed: Iterable[str], *, where: str = "") -> UserError:
    """The error for a name that is not one of the allowed ones."""
    names = sorted(allowed)
    guess = nearest(given, names)
    hint = f" Did you mean {guess!r}?" if guess else ""
    place = f" in {where}" if where else ""
    return UserError(f"unknown {kind} {given!r}{place}.{hint} Allowed: {', '.join(names)}.")
