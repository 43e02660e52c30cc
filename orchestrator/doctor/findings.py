"""What a check finds, and how checks are run: one after another, each to its end, whatever the others found."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """How a check ended. ``SLOW`` works, with a drawback that is named; ``WRONG`` fails, or gives wrong results;
    ``SKIPPED`` could not be looked at, as what it needs is not installed: that speaks neither way."""

    OK = "ok"
    SLOW = "slow"
    WRONG = "wrong"
    SKIPPED = "skip"


@dataclass(frozen=True)
class Finding:
    """What one check found: ``said`` in a line, ``todo`` what to do about it (``""`` where nothing), and what was
    measured, with units in the names."""

    verdict: Verdict
    said: str
    todo: str = ""
    figures: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class Check:
    """A check by its name. ``costs_s`` is about how long it takes: one that would end too late is left out."""

    name: str
    look: Callable[[], Finding]
    costs_s: float = 5.0


def ok(said: str, **figures: Any) -> Finding:
    """Nothing to do."""
    return Finding(Verdict.OK, said, figures=figures)


def slow(said: str, todo: str, **figures: Any) -> Finding:
    """It works, with a drawback."""
    return Finding(Verdict.SLOW, said, todo, figures)


def wrong(said: str, todo: str, **figures: Any) -> Finding:
    """It fails, or what it computes is wrong."""
    return Finding(Verdict.WRONG, said, todo, figures)


def skipped(said: str, todo: str) -> Finding:
    """What the check needs is not installed."""
    return Finding(Verdict.SKIPPED, said, todo)


def examine(
    checks: Sequence[Check], within_s: float, clock: Callable[[], float] = time.monotonic
) -> Iterator[tuple[Finding | None, str]]:
    """The findings of all checks, as they come, each with its check's name; None for one that there is no time left
    for. A check that raises has found something wrong."""
    deadline = clock() + within_s
    for check in checks:
        begun = clock()
        if begun + check.costs_s > deadline:
            yield None, check.name
            continue
        found = _look(check)
        yield replace(found, name=check.name, seconds=round(clock() - begun, 2)), check.name


def _look(check: Check) -> Finding:
    try:
        return check.look()
    except Exception as error:  # noqa: BLE001 - whatever a broken machine raises is what was looked for
        said = next(iter(str(error).strip().splitlines()), "")
        return wrong(
            f"{type(error).__name__}: {said}", "this check could not end: see the error", error=type(error).__name__
        )
