"""A finished sweep on disk, as an engine leaves it, for tests of the record."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from orchestrator.history.sweeps import Sweep
from orchestrator.home.directories import SweepDirectory
from orchestrator.home.run_files import ARRAYS
from orchestrator.jobs.state import State
from orchestrator.record.sweep_records import SweepRecords
from orchestrator.record.tracker import Tracker
from orchestrator.report.answer import Answer, answer
from orchestrator.space.runs import Run
from orchestrator.space.spec import SweepSpec
from tests.report.samples import diverged, failed, make_spec, train
from trainables.base import Evaluation

ENVIRONMENT = {"versions": {"python": "3.11.7", "torch": "2.13.0"}, "git": {"commit": "a1b2c3", "edited": False}}


@dataclass(frozen=True)
class Finished:
    """A sweep, its runs and its answer."""

    sweep: Sweep
    runs: tuple[Run, ...]
    answer: Answer


def finish(directory: Path, sweep_id: str = "add_vs_add_prod-20260102-030405-ab12") -> Finished:
    """Store and return five finished runs, one diverged run and one failed run."""
    spec = make_spec()
    sweep = Sweep(SweepDirectory(directory / sweep_id), spec, "2026-01-02T03:04:05+00:00", ENVIRONMENT)
    cells = [("add", 24), ("add", 64), ("add+prod", 16), ("add+prod", 32), ("add+prod", 64)]
    ended = train(spec, cells, seeds=1)
    ended += [replace(run, outcome=diverged(run.config)) for run in train(spec, [("add", 8)], seeds=1)]
    ended += [replace(run, outcome=failed()) for run in train(spec, [("add+prod", 12)], seeds=1)]
    runs = tuple(_leave(spec, sweep.files.directory, run) for run in ended)
    return Finished(sweep, runs, answer(spec, ended))


def records_of(tracker: Tracker, sweep: Sweep) -> SweepRecords:
    """Return the records of a sweep, which a tracker keeps at once."""
    return SweepRecords(sweep, lambda call: call(tracker))


def record(tracker: Tracker, finished: Finished, ending: State = State.FINISHED) -> None:
    """Record a whole sweep."""
    records = records_of(tracker, finished.sweep)
    records.begin()
    for run in finished.runs:
        records.run_ended(run)
    records.end(finished.answer, ending)


def _leave(spec: SweepSpec, directory: Path, run: Run) -> Run:
    """Write a run's files as a worker does, with a learning curve of 60 evaluations."""
    config, outcome = run.config, run.outcome
    key = spec.make_family().key(config)
    folder = directory / "runs" / key
    if not outcome.error:
        folder.mkdir(parents=True)
        embedding = np.random.default_rng(config.seed).normal(size=(6, config.size)).astype(np.float32)
        similarity = np.corrcoef(embedding).astype(np.float32)
        np.savez(folder / ARRAYS, embedding=embedding, similarity=similarity)
        curve = tuple(
            Evaluation(50 * step, 2.0 / step, dict.fromkeys(config.mix.tasks, step / 60)) for step in range(1, 61)
        )
        outcome = replace(
            outcome,
            steps=3000,
            curve=curve,
            measures={"seconds": 40.5, "test_examples_add": 21.0},
            data=hashlib.sha256(f"{config.mix} {config.seed}".encode()).hexdigest()[:32],
        )
    return replace(run, outcome=outcome, key=key, directory=folder)
