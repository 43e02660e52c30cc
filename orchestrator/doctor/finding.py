"""The result of a check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The verdict of a check. ``SLOW`` works with a drawback; ``WRONG`` fails or gives wrong results."""

    OK = "ok"
    SLOW = "slow"
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """The result of a check: ``text`` is one line, and ``todo`` the user's next step, if any."""

    verdict: Verdict
    text: str
    todo: str = ""
    name: str = ""
    seconds: float = 0.0


Check = tuple[str, Callable[[], Finding]]


def ok(text: str) -> Finding:
    """Return a finding without a next step."""
    return Finding(Verdict.OK, text)


def slow(text: str, todo: str) -> Finding:
    """Return a finding about something that works with a drawback."""
    return Finding(Verdict.SLOW, text, todo)


def wrong(text: str, todo: str) -> Finding:
    """Return a finding about something that fails or gives wrong results."""
    return Finding(Verdict.WRONG, text, todo)
