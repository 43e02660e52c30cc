"""Sweeps of the outside test family, which take milliseconds but use the real engine and record."""

from __future__ import annotations

import io
import os
import re
import signal
from pathlib import Path

import pytest
from rich.console import Console

from orchestrator.home.files import Home
from orchestrator.home.journal import Ended, recall
from orchestrator.space.spec import SweepSpec

FAMILY = "tests.families:LogisticFamily"
UNITS = """
question: Does it work?
family: tests.families:LogisticFamily
target: add
mixes: [add]
sizes: [8, 16]
seeds: 1
"""
"""Source of a small search space."""
HASTE = {"settings": {"haste": {"from": 0.1, "to": 30.0, "scale": "log"}}, "trials": 3, "sizes": [64, 96], "seeds": 2}
"""Values of ``haste`` for tuning. With the space's own value, 0.2, ADD alone is not learned at 64 or 96 units; with
1.4 to 6.5 it is learned at both."""


def spec(**changes: object) -> SweepSpec:
    """Return a spec of ADD alone and with PROD on the logistic family, with transitions near 47 and 24 units."""
    fields: dict[str, object] = {
        "name": "logistic",
        "question": "Does PROD help ADD?",
        "family": FAMILY,
        "target": "add",
        "mixes": ["add", "add+prod"],
        "sizes": [8, 12, 16, 24, 32, 48, 64, 96],
        "seeds": 2,
        "search": {"method": "bisection"},
    }
    return SweepSpec.model_validate(fields | changes)


def quiet() -> Console:
    """Return a console whose output :func:`printed` returns."""
    return Console(file=io.StringIO(), width=200)


def printed(console: Console) -> str:
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def interrupt_after(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send this process the first Ctrl-C after ``count`` worker reports."""
    from orchestrator.engine.base import StackReport
    from orchestrator.engine.worker import StackWorker  # Imported here because it needs torch.

    advance = StackWorker.advance
    seen = 0

    def counting(worker: StackWorker) -> StackReport:
        nonlocal seen
        seen += 1
        if seen == count:
            os.kill(os.getpid(), signal.SIGINT)
        return advance(worker)

    monkeypatch.setattr(StackWorker, "advance", counting)


def ended(home: Path, sweep_id: str) -> list[Ended]:
    """Return the runs in a sweep's journal."""
    return list(recall(Home(home).sweep(sweep_id)).ended)


def table_of(out: str) -> list[str]:
    """Return the lines of an answer's table."""
    return [line for line in out.splitlines() if re.match(r"add(\+\w+)? ", line) and "seed" not in line]
