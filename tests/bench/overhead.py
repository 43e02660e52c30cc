"""The engine's overhead per run, measured on a family that trains nothing but leaves the usual files of a run.

    python -m tests.bench.overhead               # 2,000 runs, some minutes
    python -m tests.bench.overhead --runs 200    # a minute

Each run is a separate trial (a stack of 1, the most expensive way) with a learning curve, an .npz of embeddings and,
for the first seed of each size (one run in ten of 200), a picture. It goes through Ray Tune, the journal and MLflow on
SQLite. The clock runs from the end of the first run until MLflow has everything. The backlog is the number of runs that
have ended and are not yet in MLflow. Memory is the driver's resident memory.
"""

from __future__ import annotations

import argparse
import io
import math
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import psutil
from rich.console import Console

from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.run_options import RunOptions
from orchestrator.sweep.several_sweeps import run_sweep
from tests.bench.machine import describe
from tests.families import FLOOR, LogisticFamily, LogisticLearner
from trainables.base import Evaluation, Report, RunConfig

NUMBERS, POINTS, STEPS, TESTED = 20, 10, 1000, 200
"""Tokens with embeddings, points of a learning curve, the number of steps in it, and the size of the test set."""
SIZES = (8, 16, 24, 32, 40, 48, 56, 64, 72, 80)
EARLY = 200
"""Number of runs after which memory is compared with the memory at the end."""


class IdleLearner(LogisticLearner):
    """Ends at its first evaluation, with a whole curve and with embeddings made up from the seed.

    Like small transformers it learns almost everything or almost nothing, with the logistic's probability; its test set
    has 200 expressions.
    """

    def accuracy(self, run: RunConfig, head_start: float = 0.0) -> float:
        share = (super().accuracy(run, head_start) - FLOOR) / (0.99 - FLOOR)
        rng = np.random.default_rng([run.seed, run.size, len(run.arm)])
        level = 0.985 if rng.random() < share else FLOOR
        return float(rng.binomial(TESTED, level)) / TESTED

    def advance(self) -> list[Report]:
        return [self._dressed(report) for report in super().advance()]

    def _dressed(self, report: Report) -> Report:
        assert report.evaluation is not None
        assert report.outcome is not None
        run = self.runs[report.index]
        curve = tuple(Evaluation(STEPS * k // POINTS, 1 / k, report.evaluation.accuracy) for k in range(1, POINTS + 1))
        embedding = np.random.default_rng(run.seed).normal(size=(NUMBERS, run.size)).astype(np.float32)
        unit = embedding / np.linalg.norm(embedding, axis=1, keepdims=True)
        outcome = replace(report.outcome, steps=STEPS, curve=curve, measures={"seconds": 0.0})
        arrays = {"embedding": embedding, "similarity": unit @ unit.T}
        return replace(report, evaluation=curve[-1], outcome=outcome, arrays=arrays)


class IdleFamily(LogisticFamily):
    """The logistic family without waiting."""

    name: ClassVar[str] = "idle"
    learner_type = IdleLearner

    def steps(self, run: RunConfig) -> int:
        return STEPS


@dataclass(frozen=True)
class Sample:
    """State of the sweep ``at_s`` seconds after the watch began.

    ``computing_s`` is the processor time of this process and its children, ``recording_s`` the processor time of the
    thread that writes to MLflow.
    """

    at_s: float
    ended: int
    recorded: int
    memory_mb: float
    computing_s: float
    recording_s: float


class Watch:
    """Samples a home's journal and MLflow store, and this process's memory, a few times per second."""

    def __init__(self, home: Path) -> None:
        self.samples: list[Sample] = []
        self._home = home
        self._begun = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take a last sample and stop."""
        self._stop.set()
        self._thread.join()
        self.samples.append(self._sample())

    def _look(self) -> None:
        while not self._stop.wait(0.5):
            self.samples.append(self._sample())

    def _sample(self) -> Sample:
        at_s = time.monotonic() - self._begun
        return Sample(at_s, self._ended(), self._recorded(), resident_mb(), computing_s(), recording_s())

    def _ended(self) -> int:
        journals = [path.read_bytes() for path in self._home.glob("sweeps/*/journal.jsonl")]
        return sum(text.count(b'"kind":"ended"') for text in journals)

    def _recorded(self) -> int:
        database = self._home / "mlflow.db"
        if not database.is_file():
            return 0
        held = "SELECT COUNT(*) FROM tags, runs WHERE tags.run_uuid = runs.run_uuid AND tags.key = 'kind'"
        try:
            with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=5) as store:
                done = store.execute(f"{held} AND tags.value = 'run' AND runs.status = 'FINISHED'").fetchone()
        except sqlite3.OperationalError:  # The tables do not exist yet.
            return 0
        return int(done[0])


def resident_mb() -> float:
    """Return this process's current memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def computing_s() -> float:
    """Return the processor time of this process and its live descendants."""
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def recording_s() -> float:
    """Return the processor time of the recorder's thread, or 0 if there is none."""
    recorders = {thread.native_id for thread in threading.enumerate() if thread.name == "recorder"}
    threads = (thread for thread in psutil.Process().threads() if thread.id in recorders)
    return float(sum(thread.user_time + thread.system_time for thread in threads))


def space(runs: int) -> SweepSpec:
    """Return a grid of at least this many runs."""
    seeds = math.ceil(runs / (2 * len(SIZES)))
    return SweepSpec.model_validate(
        {
            "name": "overhead",
            "question": "What does a run cost that trains nothing?",
            "family": "tests.bench.overhead:IdleFamily",
            "target": "add",
            "mixes": ["add", "add+prod"],
            "sizes": list(SIZES),
            "seeds": seeds,
            "settings": {"steps": 1},
            "search": {"method": "grid"},
            "resources": {"max_stack": 1},
        }
    )


def table(samples: Sequence[Sample]) -> str:
    """Summarize the samples. Memory is compared between :data:`EARLY` ended runs and the end of the last run."""
    total = samples[-1].ended
    first = next(sample for sample in samples if sample.ended > 0)
    early, late = (next(sample for sample in samples if sample.ended >= min(ended, total)) for ended in (EARLY, total))
    held = [sample.at_s - first.at_s for sample in samples if sample.recorded >= total]
    a_run = 1e3 / max(total - first.ended, 1)
    recording = a_run * (late.recording_s - first.recording_s)
    computing = a_run * (late.computing_s - first.computing_s) - recording
    recorded = f"{1e3 * held[0] / max(total - first.recorded, 1):.0f}" if held else "not all recorded"
    growth = late.memory_mb / early.memory_mb - 1
    rows = (
        ("runs ended, and in MLflow", f"{total}, {samples[-1].recorded}", ""),
        ("ms per run until it has ended", f"{a_run * (late.at_s - first.at_s):.0f}", ""),
        ("ms per run until MLflow has it", recorded, "<= 150"),
        ("ms of processor time per run, without MLflow", f"{computing:.0f}", "<= 50"),
        ("ms of processor time per run, for MLflow", f"{recording:.0f}", ""),
        ("largest backlog, runs", str(max(sample.ended - sample.recorded for sample in samples)), "bounded"),
        (f"driver's memory after {EARLY} runs, MB", f"{early.memory_mb:.0f}", ""),
        ("driver's memory at the end, MB", f"{late.memory_mb:.0f}", f"{growth:+.0%}, < 20 %"),
    )
    return "\n".join(["| quantity | value | goal |", "|---|---|---|", *(f"| {' | '.join(row)} |" for row in rows)])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000, help="number of runs (default 2000)")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as home:
        watch = Watch(Path(home))
        run_sweep(space(given.runs), RunOptions(home=Path(home)), Console(file=io.StringIO()))
        watch.close()
    print(", ".join(f"{key} {value}" for key, value in describe("cpu").items()))
    print(table(watch.samples))


if __name__ == "__main__":
    main()
