"""The result of a check."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The end of a check. ``SLOW`` works, with a drawback that is named; ``WRONG`` fails, or gives wrong results."""

    OK = "ok"
    SLOW = "slow"
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """The result of one check: ``said`` in a line, ``todo`` the user's next step (``""``: none)."""

    verdict: Verdict
    said: str
    todo: str = ""
    name: str = ""
    seconds: float = 0.0


Check = tuple[str, Callable[[], Finding]]
"""A check with its name."""


def ok(said: str) -> Finding:
    """Nothing to do."""
    return Finding(Verdict.OK, said)


def slow(said: str, todo: str) -> Finding:
    """It works, with a drawback."""
    return Finding(Verdict.SLOW, said, todo)


def wrong(said: str, todo: str) -> Finding:
    """It fails, or computes something wrong."""
    return Finding(Verdict.WRONG, said, todo)
