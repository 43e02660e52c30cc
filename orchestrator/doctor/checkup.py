"""A check-up: checks run one after another, each to its end, and their findings in ``HOME/doctor.json``."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import Any

from orchestrator.home.files import write_whole
from orchestrator.space.hardware import Hardware

NAME = "doctor.json"
"""In a home directory: the last check-up."""


class Verdict(StrEnum):
    """The end of a check. ``SLOW`` works, with a drawback that is named; ``WRONG`` fails, or gives wrong results;
    ``SKIPPED`` could not run for lack of something that sweeps do not need."""

    OK = "ok"
    SLOW = "slow"
    WRONG = "wrong"
    SKIPPED = "skip"


@dataclass(frozen=True)
class Finding:
    """The result of one check: ``said`` in a line, ``todo`` the user's next step (``""``: none), and the figures
    measured, with units in the names."""

    verdict: Verdict
    said: str
    todo: str = ""
    figures: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    seconds: float = 0.0


Check = tuple[str, Callable[[], Finding]]
"""A check with its name."""


def ok(said: str, **figures: Any) -> Finding:
    """Nothing to do."""
    return Finding(Verdict.OK, said, figures=figures)


def slow(said: str, todo: str, **figures: Any) -> Finding:
    """It works, with a drawback."""
    return Finding(Verdict.SLOW, said, todo, figures)


def wrong(said: str, todo: str, **figures: Any) -> Finding:
    """It fails, or computes something wrong."""
    return Finding(Verdict.WRONG, said, todo, figures)


@dataclass(frozen=True)
class CheckUp:
    """The findings on a machine."""

    hardware: Hardware
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """True if nothing is wrong."""
        return self.count(Verdict.WRONG) == 0

    def count(self, verdict: Verdict) -> int:
        """The number of checks with this verdict."""
        return sum(each.verdict is verdict for each in self.findings)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "passed": self.passed,
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "platform": platform.platform(),
            "gpu": self.hardware.gpu_name,
            "torch": metadata.version("torch"),
            "findings": [asdict(each) for each in self.findings],
        }


def check_up(home: Path, hardware: Hardware, checks: Sequence[Check], tell: Callable[[Finding], object]) -> CheckUp:
    """Run all checks and keep their findings in ``home``; ``tell`` hears each finding as it comes."""
    findings = []
    for found in examined(checks):
        findings.append(found)
        tell(found)
    done = CheckUp(hardware, tuple(findings))
    write_whole(home / NAME, json.dumps(done.to_json(), indent=1) + "\n")
    return done


def examined(checks: Sequence[Check]) -> Iterator[Finding]:
    """The findings of all checks, as they come. A check that raises has found something wrong."""
    for name, look in checks:
        begun = time.monotonic()
        try:
            found = look()
        except Exception as error:  # noqa: BLE001 - a broken machine may raise anything
            said = next(iter(str(error).strip().splitlines()), "")
            found = wrong(f"{type(error).__name__}: {said}", "this check could not end: see the error")
        yield replace(found, name=name, seconds=round(time.monotonic() - begun, 2))


def passed_here(home: Path, hardware: Hardware) -> bool:
    """True if the last check-up of a home passed on this kind of GPU with this version of torch."""
    path = home / NAME
    if not path.is_file():
        return False
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return bool(kept["passed"]) and (kept["gpu"], kept["torch"]) == (hardware.gpu_name, metadata.version("torch"))
    except (ValueError, KeyError, TypeError):  # Not a file of this program.
        return False
