"""The result of a check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The verdict of a check. ``SLOW`` works, with a drawback; ``WRONG`` fails, or gives wrong results."""

    OK = "ok"
    SLOW = "slow"
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """The result of one check: ``text`` is one line, ``todo`` the user's next step (``""``: none)."""

    verdict: Verdict
    text: str
    todo: str = ""
    name: str = ""
    seconds: float = 0.0


Check = tuple[str, Callable[[], Finding]]
"""A check with its name."""


def ok(text: str) -> Finding:
    """Return a finding without a next step."""
    return Finding(Verdict.OK, text)


def slow(text: str, todo: str) -> Finding:
    """Return a finding that something works, with a drawback."""
    return Finding(Verdict.SLOW, text, todo)


def wrong(text: str, todo: str) -> Finding:
    """Return a finding that something fails, or gives wrong results."""
    return Finding(Verdict.WRONG, text, todo)
