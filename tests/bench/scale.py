"""Cost of a sweep of ten thousand runs, and its growth with the number of ended runs.

    python -m tests.bench.scale                                   # 10 000 runs, a quarter of an hour
    python -m tests.bench.scale --runs 1000                       # two minutes
    python -m tests.bench.scale --slots 64 --runs 10000           # through Ray, on 64 logical slots

Runs train nothing and leave what a run usually leaves (see overhead.py), each a stack of its own. Without ``--slots``
they end in the driver's process (``--local-debug``), which is the driver's work at its plainest. Every line of the
table is a stretch of the sweep: the driver's memory at its end, its computing time a run, and the time of a decision.
The record goes to ``MLFLOW_TRACKING_URI``. ``--team`` starts PostgreSQL and an S3 store behind an MLflow server with a
login and records there (tests/record/team.py says what that needs).
"""

from __future__ import annotations

import argparse
import io
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ray
from ray.cluster_utils import Cluster
from rich.console import Console

from orchestrator.engine.campaign import Campaign
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.options import RunOptions
from orchestrator.sweep.run import run_sweep
from tests.bench.machine import describe, write_json
from tests.bench.overhead import SIZES, resident_mb
from tests.record.team import ADMIN, ADMIN_PASSWORD, serving_team

MARKS = (200, 1000, 2000, 5000, 10000)
"""Ended runs at which a stretch ends."""
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Stretch:
    """The sweep up to its ``runs``-th end, since the end of the stretch before: milliseconds a run on the clock and of
    the driver's processor time, milliseconds a decision (mean, longest), the driver's memory at the end."""

    runs: int
    clock_ms: float
    processor_ms: float
    decision_ms: float
    longest_ms: float
    memory_mb: float


class Stopwatch:
    """Looks at a campaign from within: how long its decisions take, and what a run costs."""

    def __init__(self, marks: Sequence[int]) -> None:
        self.stretches: list[Stretch] = []
        self._marks = list(marks)
        self._runs = 0
        self._begin()

    def decided(self, seconds: float) -> None:
        """A question for the next stack was answered."""
        self._decisions.append(seconds)

    def ended(self) -> None:
        """A run ended."""
        self._runs += 1
        if self._marks and self._runs >= self._marks[0]:
            self._mark(self._marks.pop(0))

    def _begin(self) -> None:
        self._since, self._clock, self._processor = self._runs, time.perf_counter(), time.process_time()
        self._decisions: list[float] = []

    def _mark(self, runs: int) -> None:
        many = self._runs - self._since
        self.stretches.append(
            Stretch(
                runs,
                1e3 * (time.perf_counter() - self._clock) / many,
                1e3 * (time.process_time() - self._processor) / many,
                1e3 * sum(self._decisions) / max(len(self._decisions), 1),
                1e3 * max(self._decisions, default=0.0),
                resident_mb(),
            )
        )
        print(self.stretches[-1], flush=True)
        self._begin()


@contextmanager
def watched(watch: Stopwatch) -> Iterator[None]:
    """A block whose campaigns tell the stopwatch of every decision and of every run that ended."""
    next_stack, ended = Campaign.next_stack, Campaign.ended

    def timed(self: Campaign) -> Any:
        begun = time.perf_counter()
        stack = next_stack(self)
        watch.decided(time.perf_counter() - begun)
        return stack

    def counted(self: Campaign, *given: Any) -> None:
        ended(self, *given)
        watch.ended()

    with patch.object(Campaign, "next_stack", timed), patch.object(Campaign, "ended", counted):
        yield


@contextmanager
def slots_of(count: int) -> Iterator[str]:
    """A Ray cluster of so many logical cores on this machine; its address."""
    os.environ["PYTHONPATH"] = str(ROOT)
    made = Cluster()
    made.add_node(num_cpus=count)
    try:
        yield str(made.address)
    finally:
        ray.shutdown()
        made.shutdown()


@contextmanager
def recorded(login_kept_s: int | None) -> Iterator[None]:
    """A block that records in a team's MLflow; where nothing is given, wherever it would anyway."""
    if login_kept_s is None:
        yield
        return
    with serving_team(login_kept_s=login_kept_s) as team:
        login = {"MLFLOW_TRACKING_URI": team.uri, "MLFLOW_TRACKING_USERNAME": ADMIN}
        with patch.dict(os.environ, {**login, "MLFLOW_TRACKING_PASSWORD": ADMIN_PASSWORD}):
            yield


def space(runs: int) -> SweepSpec:
    """A grid of so many runs, or a few more."""
    return SweepSpec.model_validate(
        {
            "name": "scale",
            "question": "What do ten thousand runs cost that train nothing?",
            "family": "tests.bench.overhead:IdleFamily",
            "target": "add",
            "mixes": ["add", "add+prod"],
            "sizes": list(SIZES),
            "seeds": -(-runs // (2 * len(SIZES))),
            "settings": {"steps": 1},
            "search": {"method": "grid"},
            "resources": {"max_stack": 1},
        }
    )


def sweep(runs: int, home: Path, slots: int, options: Callable[[str | None], RunOptions]) -> list[Stretch]:
    """Run the sweep and say what it cost, stretch by stretch."""
    watch = Stopwatch([*(mark for mark in MARKS if mark < runs), runs])
    with slots_of(slots) if slots else nullcontext(None) as address, watched(watch):
        run_sweep(space(runs), options(address), Console(file=io.StringIO()))
    return watch.stretches


def table(stretches: Sequence[Stretch]) -> str:
    """The stretches as Markdown."""
    rows = [
        f"| {each.runs} | {each.clock_ms:.0f} | {each.processor_ms:.0f} | {each.decision_ms:.2f} "
        f"| {each.longest_ms:.0f} | {each.memory_mb:.0f} |"
        for each in stretches
    ]
    head = "| runs | ms a run | driver's processor, ms a run | ms a decision | longest | driver's memory, MB |"
    return "\n".join([head, "|---|---|---|---|---|---|", *rows])


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the sweep, print the table and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10000)
    parser.add_argument("--slots", type=int, default=0, help="logical slots of a Ray cluster; 0: this process alone")
    parser.add_argument("--home", type=Path, help="keep what the sweep leaves in this directory")
    parser.add_argument("--team", action="store_true", help="record in a team's MLflow, started here")
    parser.add_argument(
        "--login-kept", type=int, default=60, help="seconds for which its server takes a login for right"
    )
    parser.add_argument("--json", type=Path, default=Path("results/bench/scale.json"))
    given = parser.parse_args(arguments)
    machine = describe("cpu")
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    with tempfile.TemporaryDirectory() as temporary, recorded(given.login_kept if given.team else None):
        home = given.home or Path(temporary)
        local = given.slots == 0
        stretches = sweep(
            given.runs, home, given.slots, lambda at: RunOptions(home=home, address=at, local_debug=local)
        )
        print(table(stretches))
    found = {"machine": machine, "runs": given.runs, "slots": given.slots}
    found |= {"stretches": [asdict(each) for each in stretches]}
    write_json(given.json, found)
    return found


if __name__ == "__main__":
    main()
