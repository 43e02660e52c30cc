"""Sweeps, read from their directories: one, or all of a home directory, whatever became of some of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from orchestrator.catalogue.lookup import Unfinished, find_sweep, in_training
from orchestrator.commands import command_line
from orchestrator.errors import SweepError, UserError, first_of
from orchestrator.home.files import Home
from orchestrator.home.journal import State, recall
from orchestrator.home.run_files import DAMAGED_ARRAYS, directory_bytes
from orchestrator.home.run_files import read_arrays as arrays_of
from orchestrator.home.sweeps import RunRecord, Sweep, Unreadable, UnreadableError, sweep_in
from orchestrator.report.answer import Answer, answer
from orchestrator.report.words.next_step import NextStep
from orchestrator.space.spec import SweepSpec
from orchestrator.transition.evidence import Block
from trainables.base import Status


@dataclass(frozen=True)
class StoredSweep:
    """A sweep on disk at the moment it was read. ``runs`` are in the order they ended; ``training`` were begun and have
    not ended; ``damage`` names, a sentence each, what could not be read; ``stopped`` are the mixes stopped by hand;
    ``changed`` is the time of the journal's last entry; ``blocks`` are the pairs asked for as evidence."""

    sweep: Sweep
    state: State
    runs: tuple[RunRecord, ...]
    training: tuple[Unfinished, ...]
    damage: tuple[str, ...]
    stopped: frozenset[str]
    changed: datetime
    blocks: tuple[Block, ...] = ()

    @property
    def id(self) -> str:
        return self.sweep.id

    @property
    def spec(self) -> SweepSpec:
        return self.sweep.spec

    @property
    def begun(self) -> datetime:
        return datetime.fromisoformat(self.sweep.created)

    @cached_property
    def answer(self) -> Answer:
        """The answer from the runs that ended."""
        return answer(self.spec, [(run.config, run.outcome) for run in self.runs], self.stopped, self.blocks)

    @cached_property
    def counted(self) -> int:
        """The runs that its transitions rest on, as in its table: neither first phases nor audits of the budget."""
        return sum(mix.runs for mix in self.answer.mixes)

    @cached_property
    def disk_bytes(self) -> int:
        """Bytes of its directory and of its runs, which other sweeps may share; the record in MLflow and the training
        data are elsewhere."""
        return sum(map(directory_bytes, {self.sweep.files.directory, *(run.directory for run in self.runs)}))

    @property
    def resumed(self) -> str:
        """The command that resumes it."""
        return self._run("--resume", self.id)

    def command(self, step: NextStep) -> str:
        """The command that follows a recommendation, from the sweep's own files."""
        sets = [word for override in step.overrides for word in ("--set", override)]
        return self._run(*sets, *(["--extend", self.id] if step.extends else []))

    def _run(self, *words: str) -> str:
        files = self.sweep.files
        return command_line("run", files.spec, *words, "--home", files.home.root)

    def run(self, key: str) -> RunRecord:
        """The run with this key or unique prefix of one. Raises :class:`UserError`."""
        fitting = {run.key: run for run in self.runs if key and run.key.startswith(key)}
        if len(fitting) == 1:
            return fitting.popitem()[1]
        if fitting:
            raise UserError(f"{key!r} fits {len(fitting)} runs of {self.id}; give more of the key")
        raise UserError(f"{self.id} has no run {key!r}; its .runs lists the keys of all {len(self.runs)}")


def read_sweep(home: Home, given: str) -> StoredSweep:
    """The sweep of this id, unique prefix, or search space (its newest).

    Raises :class:`UserError` if there is none, :class:`UnreadableError` if it cannot be read.
    """
    found = read_known(home, find_sweep(home, given))
    if isinstance(found, Unreadable):
        raise UnreadableError(found)
    return found


def read_sweeps(home: Home) -> list[StoredSweep | Unreadable]:
    """Every sweep of a home directory as far as it can be read, newest first."""
    return [read_known(home, sweep_id) for sweep_id in home.sweep_ids()]


def read_known(home: Home, sweep_id: str) -> StoredSweep | Unreadable:
    """The sweep of this id, or the reason why it cannot be read."""
    sweep = sweep_in(home, sweep_id)
    if isinstance(sweep, Unreadable):
        return sweep
    driven, memory = sweep.files.is_driven(), recall(sweep.files)
    runs = tuple(sweep.record(entry) for entry in memory.ended)
    damage = list(memory.damaged)
    if damage:
        damage.append(f"`run ... --resume {sweep_id}` finds or trains again what is left out")
    if sweep.spec.lacks_family:
        shown = "its runs are shown as the family was described when the sweep began"
        damage.append(f"the family {sweep.spec.family} of {sweep_id} cannot be imported: {shown}")
    ended = frozenset(run.key for run in runs)
    training = () if memory.answered else in_training(sweep, ended, damage.append)
    changed = datetime.fromisoformat(memory.changed or sweep.created)
    state = State.RUNNING if driven else memory.state
    return StoredSweep(sweep, state, runs, training, tuple(damage), memory.stopped, changed, memory.blocks)


def find_run(home: Home, given: str) -> tuple[str, list[StoredSweep]]:
    """The key of a run of any sweep that can be read, ended or in training, by the key or a unique prefix of it; and
    every sweep that holds it, newest first. Raises :class:`UserError`, which names what could not be read."""
    holders: dict[str, list[StoredSweep]] = {}
    unread: list[str] = []
    for sweep in read_sweeps(home):
        if isinstance(sweep, Unreadable):
            unread.append(str(sweep))
            continue
        unread += sweep.damage
        for key in {*(run.key for run in sweep.runs), *(run.key for run in sweep.training)}:
            if given and key.startswith(given):
                holders.setdefault(key, []).append(sweep)
    if len(holders) == 1:
        return holders.popitem()
    if holders:
        raise UserError(f"{given!r} fits {len(holders)} runs: {first_of(sorted(holders))}. Give more of the key.")
    message = f"there is no run {given!r} in {home.root}; `status SWEEP --runs` lists the keys of a sweep's runs"
    raise UserError("\n".join([message, *unread]))


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
