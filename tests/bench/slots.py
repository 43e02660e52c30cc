"""How busy a sweep keeps the slots of a large cluster: 8 mixes on 64 slots under the statistical searcher.

    python -m tests.bench.slots                          # some minutes: 8 mixes x 64 slots, runs of 20 to 60 s
    python -m tests.bench.slots --slots 8 --mixes 2

The driver is the real one: searcher, campaign, journal, live view's snapshots and record. Its slots are no processes: a
stack that is started ends by itself after the time its size takes, and leaves then what an idle run leaves. So this
says what share of the slots' time the *decisions* leave idle (the searcher's, and the time that the driver takes over
them); what Ray costs on top is in overhead.py and test_packing.py. Needs no more memory than a driver.
"""

from __future__ import annotations

import argparse
import heapq
import io
import tempfile
import time
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unittest.mock import patch

from rich.console import Console

from orchestrator.drive.sweep import RunOptions, run_sweep
from orchestrator.engine.base import Engine, check_trouble, job_of, take_in
from orchestrator.engine.campaign import Campaign
from orchestrator.engine.worker import StackWorker
from orchestrator.space.spec import SweepSpec
from orchestrator.stacks.stacking import Stack
from tests.bench.machine import describe, write_json

SIZES = (8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96)
LOOK_EVERY_S = 0.01


class TimedSlots(Engine):
    """So many slots, on each of which a stack takes ``seconds`` of its size's place among the sizes."""

    def __init__(self, home: str, slots: int, shortest_s: float, longest_s: float) -> None:
        self._home, self._slots = home, slots
        self._shortest_s, self._longest_s = shortest_s, longest_s
        self.busy_s = self.decided_s = 0.0
        self.decisions = 0
        self.begun, self.ended = 0.0, 0.0

    @property
    def slots(self) -> int:
        return self._slots

    def describe(self) -> str:
        return f"{self._slots} slots that only take their time"

    def execute(self, campaign: Campaign) -> None:
        training: list[tuple[float, str, Stack]] = []
        self.begun = time.monotonic()
        while not campaign.done:
            while len(training) < self._slots and (stack := self._decide(campaign)) is not None:
                took_s = self._takes_s(stack)
                self.busy_s += took_s
                heapq.heappush(training, (time.monotonic() + took_s, stack.id, stack))
            while training and training[0][0] <= time.monotonic():
                _, _, stack = heapq.heappop(training)
                worker = StackWorker(job_of(campaign, self._home, stack))
                while not worker.done:
                    take_in(campaign, stack.id, worker.advance())
                campaign.stack_ended(stack.id)
                self.ended = time.monotonic()
            time.sleep(LOOK_EVERY_S)
        check_trouble(campaign)

    def interrupted(self) -> None:
        return None

    def _decide(self, campaign: Campaign) -> Stack | None:
        begun = time.monotonic()
        stack = campaign.next_stack()
        if stack is not None:
            self.decided_s += time.monotonic() - begun
            self.decisions += 1
        return stack

    def _takes_s(self, stack: Stack) -> float:
        """Larger models take longer, from the shortest to the longest time."""
        place = SIZES.index(stack.tickets[0].config.size) / (len(SIZES) - 1)
        return self._shortest_s + place * (self._longest_s - self._shortest_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


@dataclass(frozen=True)
class Kept:
    """``busy``: the share of the slots' time in which runs were training, from the first start to the last end."""

    busy: float
    runs: int
    minutes: float
    decision_ms: float


def space(mixes: int, seeds: int) -> SweepSpec:
    """So many mixes (of weights that differ), whose transitions lie apart, under the statistical searcher."""
    tasks = ["add", *(f"add:{weight}+prod" for weight in range(1, mixes))]
    return SweepSpec.model_validate(
        {
            "name": "slots",
            "question": "How busy are the slots?",
            "family": "tests.bench.overhead:IdleFamily",
            "target": "add",
            "mixes": tasks,
            "sizes": list(SIZES),
            "seeds": seeds,
            "settings": {"steps": 1, "noise": 0.0, "curve": {"midpoint": 30.0}},
            "search": {"method": "bayes"},
            "resources": {"max_stack": 1},
        }
    )


def measure(slots: int, mixes: int, seeds: int, shortest_s: float, longest_s: float, home: Path) -> Kept:
    """Run the sweep on slots that only take their time."""
    engine = TimedSlots(str(home), slots, shortest_s, longest_s)

    @contextmanager
    def in_place(*_: Any, **__: Any) -> Any:
        yield engine

    with patch("orchestrator.drive.sweep.engine_for", in_place):
        run_sweep(space(mixes, seeds), RunOptions(home=home), Console(file=io.StringIO()))
    span_s = engine.ended - engine.begun
    decision_ms = 1e3 * engine.decided_s / max(engine.decisions, 1)
    return Kept(engine.busy_s / (slots * span_s), engine.decisions, span_s / 60, decision_ms)


def main(arguments: Sequence[str] | None = None) -> Kept:
    """Measure, print a line, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--mixes", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--shortest", type=float, default=20.0, help="seconds of a run at the smallest size")
    parser.add_argument("--longest", type=float, default=60.0, help="at the largest one")
    parser.add_argument("--json", type=Path, default=Path("results/bench/slots.json"))
    given = parser.parse_args(arguments)
    machine = describe("cpu")
    with tempfile.TemporaryDirectory() as home:
        found = measure(given.slots, given.mixes, given.seeds, given.shortest, given.longest, Path(home))
    write_json(given.json, {"machine": machine, "slots": given.slots, "mixes": given.mixes, **vars(found)})
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    print(
        f"{given.mixes} mixes on {given.slots} slots, runs of {given.shortest:g} to {given.longest:g} s: busy "
        f"{found.busy:.1%} of {found.minutes:.1f} min, {found.runs} runs, {found.decision_ms:.0f} ms a decision"
    )
    return found


if __name__ == "__main__":
    main()
