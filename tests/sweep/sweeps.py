"""Sweeps of the outside test family, which take milliseconds but use the real engine and record."""

from __future__ import annotations

import io
import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from orchestrator.history.journal import Memory
from orchestrator.history.known_runs import recall_sweep
from orchestrator.history.sweeps import load_sweep
from orchestrator.home.directories import Home, SweepDirectory
from orchestrator.report.answer import Answer
from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.invocation import Invocation
from orchestrator.sweep.run_options import RunOptions
from orchestrator.sweep.several_sweeps import run_sweep

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
HASTE = {"settings": {"haste": {"from": 0.1, "to": 30.0, "scale": "log"}}, "trials": 3, "seeds": 2}
"""Values of ``haste`` for tuning, which uses both sizes of a sweep at 64 and 96 units. With the space's own value, 0.2,
ADD alone is not learned at 64 or 96 units; with 1.4 to 6.5 it is learned at both."""


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


def scripted(log: Path, settings: Mapping[str, object], **changes: object) -> SweepSpec:
    """Return a spec of ADD at two sizes with one seed, each run alone in its stack, on the scripted family."""
    fields: dict[str, object] = {
        "family": "tests.scripted:ScriptedFamily",
        "mixes": ["add"],
        "sizes": [8, 16],
        "seeds": 1,
        "search": {"method": "grid"},
        "settings": {"log": str(log), **settings},
        "resources": {"max_stack": 1, "cpu_per_stack": 0.5},
    }
    return spec(**fields | changes)


def quiet() -> Console:
    """Return a console whose output :func:`printed` returns."""
    return Console(file=io.StringIO(), width=200)


def run_here(
    wanted: SweepSpec,
    home: Path,
    *,
    console: Console | None = None,
    invocation: Invocation | None = None,
    **options: Any,
) -> Answer:
    """Run a sweep, by default in this process without Ray or MLflow. Return its answer."""
    return run_sweep(
        wanted,
        RunOptions(home=home, **{"engine": "local", "record": "jsonl"} | options),
        console or quiet(),
        invocation,
    )


def only_sweep(home: Path) -> SweepDirectory:
    """Return the only sweep of a home."""
    [sweep_id] = Home(home).sweep_ids()
    return Home(home).sweep(sweep_id)


def printed(console: Console) -> str:
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def interrupt_after(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send this process the first Ctrl-C after ``count`` worker reports."""
    from orchestrator.engine.messages import StackReport
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


def remembered(home: Path, sweep_id: str = "") -> Memory:
    """Return the state of a sweep on disk, by default that of the only one."""
    return recall_sweep(load_sweep(Home(home), sweep_id or only_sweep(home).id))


def ended(home: Path, sweep_id: str = "") -> list[Run]:
    """Return the runs in a sweep's journal, by default that of the only sweep."""
    return list(remembered(home, sweep_id).ended)


def table_of(out: str) -> list[str]:
    """Return the lines of an answer's table."""
    return [line for line in out.splitlines() if re.match(r"add(\+\w+)? ", line) and "seed" not in line]
