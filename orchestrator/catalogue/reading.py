"""Sweeps, read from their directories: one, or all of a home directory, whatever became of some of them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from orchestrator.catalogue.lookup import Unfinished, find_sweep, in_training
from orchestrator.errors import SweepError, UserError
from orchestrator.home import lifecycle
from orchestrator.home.files import Home, SweepFiles
from orchestrator.home.journal import Ended, Memory
from orchestrator.home.notes import Notes, read_notes
from orchestrator.home.run_files import DAMAGED_ARRAYS, directory_bytes
from orchestrator.home.run_files import read_arrays as arrays_of
from orchestrator.home.sweeps import RunRecord, Sweep, Unreadable, UnreadableError, sweep_in
from orchestrator.report.answer import Answer, answer
from orchestrator.report.words.next_step import NextStep
from orchestrator.space.spec import SweepSpec
from trainables.base import Status


class State(StrEnum):
    """The state of a sweep."""

    RUNNING = "running"
    """A process holds its lock."""
    FINISHED = "finished"
    """It was answered."""
    INTERRUPTED = "interrupted"
    """Neither: ``run --resume`` goes on."""
    FAILED = "failed"
    """Every run failed."""


class _OnDisk:
    """Facts from a sweep's own files, with its family or without."""

    sweep: Sweep

    @property
    def id(self) -> str:
        return self.sweep.id

    @property
    def spec(self) -> SweepSpec:
        return self.sweep.spec

    @property
    def begun(self) -> datetime:
        """When the sweep was started."""
        return datetime.fromisoformat(self.sweep.created)

    @cached_property
    def notes(self) -> Notes:
        """Notes and tags a person wrote."""
        return read_notes(SweepFiles(self.sweep.directory))

    @cached_property
    def changed(self) -> datetime:
        """When something last happened in it."""
        return _changed(self.sweep)


@dataclass(frozen=True)
class StoredSweep(_OnDisk):
    """A sweep on disk at the moment it was read. ``runs`` are in the order they ended; ``training`` are the runs that
    were begun and have not ended; ``damage`` says, a sentence each, what in its files could not be read;
    ``stopped`` are the mixes stopped by hand."""

    sweep: Sweep
    state: State
    runs: tuple[RunRecord, ...]
    training: tuple[Unfinished, ...]
    damage: tuple[str, ...] = ()
    stopped: frozenset[str] = frozenset()

    @cached_property
    def answer(self) -> Answer:
        """The answer from the runs that ended."""
        return answer(self.spec, [(run.config, run.outcome) for run in self.runs], self.stopped)

    @cached_property
    def counted(self) -> int:
        """The runs that its transitions rest on, as in its table: neither first phases nor audits of the budget."""
        return sum(mix.runs for mix in self.answer.mixes)

    @cached_property
    def disk_bytes(self) -> int:
        """Bytes of its directory and of its runs, which other sweeps may share; the record in MLflow and the training
        data lie elsewhere."""
        return directory_bytes(self.sweep.directory) + sum(run.runs.size(run.key) for run in self.runs)

    def command(self, step: NextStep) -> str:
        """The command that follows a recommendation, from the sweep's own files."""
        files = SweepFiles(self.sweep.directory)
        sets = [word for override in step.overrides for word in ("--set", override)]
        reused = ["--extend", self.id] if step.extends else []
        words = ["python", "-m", "orchestrator", "run", str(files.spec), *sets, *reused, "--home", str(files.home.root)]
        return shlex.join(words)

    def run(self, key: str) -> RunRecord:
        """The run with this key or unique prefix of one. Raises :class:`UserError`."""
        fitting = [run for run in self.runs if key and run.key.startswith(key)]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise UserError(f"{key!r} fits {len(fitting)} runs of {self.id}; give more of the key")
        raise UserError(f"{self.id} has no run {key!r}; its .runs lists the keys of all {len(self.runs)}")


@dataclass(frozen=True)
class Outline(_OnDisk):
    """A sweep without its family: the question, its settings as plain values, and the journal's
    ``ended`` runs. ``unreadable`` says why there is no more."""

    unreadable: Unreadable
    sweep: Sweep
    state: State
    ended: tuple[Ended, ...]
    damage: tuple[str, ...] = ()

    @property
    def counted(self) -> int:
        """The runs in its journal that belong to a mix."""
        return sum(not entry.request.phase for entry in self.ended)

    @cached_property
    def disk_bytes(self) -> int:
        """Bytes of its directory."""
        return directory_bytes(self.sweep.directory)


def read_sweep(home: Home, given: str) -> StoredSweep:
    """The sweep of this id, unique prefix, or search space (its newest).

    Raises :class:`UserError` if there is none, :class:`UnreadableError` if it cannot be read.
    """
    found = read_known(home, find_sweep(home, given))
    if isinstance(found, StoredSweep):
        return found
    raise UnreadableError(found.unreadable if isinstance(found, Outline) else found)


def read_sweeps(home: Home) -> list[StoredSweep | Outline | Unreadable]:
    """Every sweep of a home directory as far as it can be read, newest first."""
    return [read_known(home, sweep_id) for sweep_id in home.sweep_ids()]


def read_known(home: Home, sweep_id: str) -> StoredSweep | Outline | Unreadable:
    """The sweep of this id, as far as it can be read."""
    found = sweep_in(home, sweep_id)
    if isinstance(found, Unreadable):
        return found if found.sweep is None else _outline(home, found, found.sweep)
    return _stored(home, found)


def _stored(home: Home, sweep: Sweep) -> StoredSweep:
    files = home.sweep(sweep.id)
    driven = lifecycle.is_driven(files)
    memory = lifecycle.recall(files)
    runs = tuple(lifecycle.record_of(sweep, files, entry) for entry in memory.ended)
    ended = frozenset(run.key for run in runs)
    damage = _damage(files, memory)
    training = () if memory.answered else in_training(sweep.spec, files, ended, damage.append)
    return StoredSweep(
        sweep,
        _state(driven, memory),
        runs,
        training,
        tuple(damage),
        memory.stopped,
    )


def _outline(home: Home, unreadable: Unreadable, sweep: Sweep) -> Outline:
    files = home.sweep(sweep.id)
    driven = lifecycle.is_driven(files)
    memory = lifecycle.recall(files)
    return Outline(unreadable, sweep, _state(driven, memory), memory.ended, tuple(_damage(files, memory)))


def _damage(files: SweepFiles, memory: Memory) -> list[str]:
    """Damaged lines and runs, and what to do."""
    said = list(memory.damaged)
    if said:
        said.append(f"`run ... --resume {files.directory.name}` trains again what is left out")
    return said


def read_arrays(run: RunRecord) -> dict[str, NDArray[Any]]:
    """The arrays kept of a trained model and of its probes, by name. Raises :class:`UserError` for a run that
    left none, :class:`SweepError` for a damaged file."""
    try:
        arrays = arrays_of(run.directory)
    except DAMAGED_ARRAYS as error:
        why = f"{run.directory} holds damaged arrays ({error}); the run's outcome is in the journal all the same"
        raise SweepError(why) from error
    if not arrays:
        why = f"it {run.outcome.status}" if run.outcome.status is not Status.FINISHED else "its family keeps none"
        raise UserError(f"run {run.key} ({run.config.label}, size {run.config.size}) left no arrays: {why}")
    return arrays


def _changed(sweep: Sweep) -> datetime:
    """Time of the journal's last entry."""
    changed = lifecycle.recall(SweepFiles(sweep.directory), runs=False).changed
    return datetime.fromisoformat(changed or sweep.created)


def _state(driven: bool, memory: Memory) -> State:
    if driven:
        return State.RUNNING
    if memory.answered:
        return State.FINISHED
    if memory.ended and all(entry.outcome.status is Status.FAILED for entry in memory.ended):
        return State.FAILED
    return State.INTERRUPTED
