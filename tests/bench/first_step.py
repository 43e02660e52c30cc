"""What lies between `run` and the first step of training: calls, modules, checks and seconds.

    python -m tests.bench.first_step    # seconds

A reader who follows a run from the command to its training passes the frames of this table. It is printed, not tested:
read it before and after a change of the structure.
"""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from unittest.mock import patch

from orchestrator.space.parsing import Mistake
from orchestrator.space.spec import SweepSpec
from tests.cli.program import ROOT, command
from tests.families import LogisticFamily, LogisticLearner
from tests.sweep.sweeps import UNITS
from trainables.base import Report

OURS = ("orchestrator", "trainables")


@dataclass(frozen=True)
class FirstStep:
    """State of this process when the first step begins."""

    frames: tuple[str, ...]
    modules: tuple[str, ...]
    at_s: float

    @classmethod
    def now(cls) -> FirstStep:
        files = [Path(frame.filename) for frame in traceback.extract_stack()]
        frames = [file.relative_to(ROOT) for file in files if file.is_relative_to(ROOT)]
        ours = tuple(str(frame) for frame in frames if frame.parts[0] in OURS)
        return cls(ours, tuple(sys.modules), time.monotonic())


class WatchedLearner(LogisticLearner):
    """Notes its first step."""

    first: ClassVar[FirstStep | None] = None

    def advance(self) -> list[Report]:
        if WatchedLearner.first is None:
            WatchedLearner.first = FirstStep.now()
        return super().advance()


class WatchedFamily(LogisticFamily):
    """The logistic family with a note of its first step."""

    name = "watched"
    learner_type = WatchedLearner


def table(first: FirstStep, checks: int, seconds: float) -> str:
    own = [module for module in first.modules if module.split(".")[0] in OURS]
    rows = (
        ("frames from the command to the step", len(first.frames)),
        ("modules of these frames", len(set(first.frames))),
        ("modules of this project imported", len(own)),
        ("modules imported in all", len(first.modules)),
        ("full checks of the specification", checks),
        ("seconds from the command", f"{seconds:.1f}"),
    )
    return "\n".join(["| before the first step | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])


def main() -> None:
    check = SweepSpec._mistakes
    checks = 0

    def counting(spec: SweepSpec) -> list[Mistake]:
        nonlocal checks
        checks += WatchedLearner.first is None
        return check(spec)

    with patch.object(SweepSpec, "_mistakes", counting), tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "units.yaml")
        path.write_text(UNITS.replace("tests.families:LogisticFamily", "tests.bench.first_step:WatchedFamily"))
        begun = time.monotonic()
        command("run", path, "--engine", "local", "--home", directory).succeeded()
    first = WatchedLearner.first
    assert first is not None
    print(table(first, checks, first.at_s - begun))
    print("\n".join(dict.fromkeys(first.frames)))


if __name__ == "__main__":
    # As an import of the family finds it: run as a script, this file would be a second module.
    from tests.bench import first_step

    first_step.main()
