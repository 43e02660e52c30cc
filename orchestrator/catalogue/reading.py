"""One sweep, read from its directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from orchestrator.catalogue.lookup import find_sweep
from orchestrator.catalogue.training import Unfinished, in_training
from orchestrator.errors import UserError
from orchestrator.report.answer import Answer, answer
from orchestrator.space.spec import SweepSpec
from orchestrator.store import lifecycle
from orchestrator.store.files import Home, SweepFiles
from orchestrator.store.probed import read_arrays as arrays_of
from orchestrator.store.records import RunRecord, Sweep
from trainables.base import Status


class State(StrEnum):
    """How a sweep stands."""

    RUNNING = "running"
    """A process holds its lock."""
    FINISHED = "finished"
    """It was answered."""
    INTERRUPTED = "interrupted"
    """Neither: ``run --resume`` goes on."""
    FAILED = "failed"
    """Every run failed."""


@dataclass(frozen=True)
class StoredSweep:
    """A sweep on disk at the moment it was read. ``runs`` are in the order they ended; ``training`` are the runs that
    were begun and have not ended."""

    sweep: Sweep
    state: State
    runs: tuple[RunRecord, ...]
    training: tuple[Unfinished, ...]

    @property
    def id(self) -> str:
        return self.sweep.id

    @property
    def spec(self) -> SweepSpec:
        return self.sweep.spec

    @cached_property
    def answer(self) -> Answer:
        """What the runs that ended say."""
        return answer(self.spec, [(run.config, run.outcome) for run in self.runs])

    @property
    def begun(self) -> datetime:
        """When the sweep was started."""
        return datetime.fromisoformat(self.sweep.created)

    @cached_property
    def changed(self) -> datetime:
        """When something last happened in it."""
        files = SweepFiles(self.sweep.directory)
        newest = files.journal if files.journal.exists() else files.about
        return datetime.fromtimestamp(newest.stat().st_mtime, UTC)

    @cached_property
    def disk_bytes(self) -> int:
        """Bytes of its directory and of its runs, which other sweeps may share; the record in MLflow and the training
        data lie elsewhere."""
        own = directory_bytes(self.sweep.directory)
        if SweepFiles(self.sweep.directory).keeps_its_runs:
            return own
        return own + sum(directory_bytes(run.directory) for run in self.runs)

    def run(self, key: str) -> RunRecord:
        """The run with this key or unique prefix of one. Raises :class:`UserError`."""
        fitting = [run for run in self.runs if key and run.key.startswith(key)]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise UserError(f"{key!r} fits {len(fitting)} runs of {self.id}; give more of the key")
        raise UserError(f"{self.id} has no run {key!r}; its .runs lists the keys of all {len(self.runs)}")


def read_sweep(home: Home, given: str) -> StoredSweep:
    """The sweep of this id, unique prefix, or search space (its newest).

    Raises :class:`UserError` where there is none, :class:`SweepError` where its files are damaged.
    """
    sweep = lifecycle.load(home, find_sweep(home, given))
    files = home.sweep(sweep.id)
    driven = lifecycle.is_driven(files)
    memory = lifecycle.recall(files)
    runs = tuple(lifecycle.record_of(sweep, files, entry) for entry in memory.ended)
    ended = frozenset(run.key for run in runs)
    return StoredSweep(
        sweep,
        _state(driven, memory.answered, runs),
        runs,
        () if memory.answered else in_training(sweep.spec, files, ended),
    )


def read_arrays(run: RunRecord) -> dict[str, NDArray[Any]]:
    """What is kept of a trained model and what probes made of it, by name. Raises :class:`UserError` for a run that
    left none."""
    arrays = arrays_of(run.directory)
    if not arrays:
        why = f"it {run.outcome.status}" if run.outcome.status is not Status.FINISHED else "its family keeps none"
        raise UserError(f"run {run.key} ({run.config.label}, size {run.config.size}) left no arrays: {why}")
    return arrays


def directory_bytes(directory: Path) -> int:
    """Bytes of all files under a directory; what disappears meanwhile does not count."""
    total = 0
    for root, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.stat(os.path.join(root, name), follow_symlinks=False).st_size
            except FileNotFoundError:
                continue
    return total


def _state(driven: bool, answered: bool, runs: tuple[RunRecord, ...]) -> State:
    if driven:
        return State.RUNNING
    if answered:
        return State.FINISHED
    if runs and all(run.outcome.status is Status.FAILED for run in runs):
        return State.FAILED
    return State.INTERRUPTED
