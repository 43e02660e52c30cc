"""Reads sweeps from disk by their names or ids, with their runs in training, even if parts are damaged."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from typing import Any, NoReturn, TypeVar

from numpy.typing import NDArray

from orchestrator.history.foreign_time import ForeignTime
from orchestrator.history.journal import read_request
from orchestrator.history.known_runs import recall_sweep
from orchestrator.history.other_code import code_note
from orchestrator.history.sweeps import Sweep, UnreadableError, load_sweep
from orchestrator.home.array_files import DAMAGED_ARRAYS
from orchestrator.home.checkpoints import MOST_PROGRESS_LINES, read_members, read_progress
from orchestrator.home.directories import Home
from orchestrator.home.ownership import is_of_others
from orchestrator.home.run_files import DAMAGED_WEIGHTS, directory_bytes
from orchestrator.home.run_files import read_arrays as arrays_of
from orchestrator.home.run_files import read_weights as weights_of
from orchestrator.jobs.state import State
from orchestrator.report.answer import Answer, answer
from orchestrator.report.sentences.next_step import NextStep, command_of
from orchestrator.report.sentences.origin import imported_text, origin_text
from orchestrator.space.runs import Run, RunInTraining
from orchestrator.space.spec import SweepSpec
from orchestrator.system.did_you_mean import did_you_mean
from orchestrator.system.errors import UserError
from orchestrator.system.machine_errors import is_damage
from orchestrator.system.reading_time import reading_limited
from orchestrator.system.text import first_of
from orchestrator.transition.evidence import Block
from trainables.base import Status

T = TypeVar("T")
REPAIR_OF_ARRAYS = (
    "`run` trains it again if arrays.npz is damaged. For the arrays of a probe, remove the probe's files in the run's "
    "directory, and repeat `probe`"
)
"""Remedy for damaged arrays. The arrays of probes have no checksums, so ``run`` does not notice their damage."""


def find_sweep(home: Home, given: str | None) -> str:
    """Return the id of a sweep.

    An imported sweep is the newest only if all others are imported, too, because its author chose its times.

    Args:
        home: The home.
        given: The sweep's id, a unique prefix of it, the space (for its newest sweep), or None for the newest sweep.

    Raises:
        UserError: If no sweep or several sweeps match.
    """
    ids = home.sweep_ids()
    if given is None:
        if not ids:
            raise UserError(no_sweep(home))
        return _own_or_all(home, ids)[0]  # Ids are sorted, newest first.
    if given in ids:
        return given
    if not ids:
        raise UserError(f"no sweep {given!r} was found: {home.root} has no sweeps")
    # A space's name comes before prefixes: `prod` must not mean a sweep of `prod_fresh`.
    of_space = [sweep_id for sweep_id in ids if space_of(sweep_id) == given]
    if of_space:
        return _own_or_all(home, of_space)[0]
    matches = [sweep_id for sweep_id in ids if given and sweep_id.startswith(given)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UserError(f"{given!r} matches {len(matches)} sweeps: {first_of(matches)}. Type more of the id.")
    hint = did_you_mean(given, [*ids, *map(space_of, ids)])
    raise UserError(f"there is no sweep {given!r} in {home.root}.{hint} Its sweeps, newest first: {first_of(ids)}.")


def _own_or_all(home: Home, sweep_ids: list[str]) -> list[str]:
    """Return the sweeps that were not imported or, if all were, all of them. One that this user cannot open was not
    imported."""

    def is_imported(sweep_id: str) -> bool:
        try:
            return home.sweep(sweep_id).is_imported
        except PermissionError:
            return False

    return [sweep_id for sweep_id in sweep_ids if not is_imported(sweep_id)] or sweep_ids


def space_of(sweep_id: str) -> str:
    """Return the space in a sweep's id, which is ``NAME[-VARIANT]-DATE-TIME-DIGITS``. Names do not contain dashes."""
    return sweep_id.partition("-")[0]


def variant_of(sweep_id: str) -> str:
    """Return the variant in a sweep's id, or an empty string if its space has no variants."""
    return "-".join(sweep_id.split("-")[1:-3])


def find_variants(home: Home, given: str) -> list[str]:
    """Return the newest sweep of each variant of a space, oldest first, without imported ones if others exist. For any
    other name, return the sweep that :func:`find_sweep` finds."""
    newest: dict[str, str] = {}
    for sweep_id in _own_or_all(home, [one for one in home.sweep_ids() if space_of(one) == given]):
        newest.setdefault(variant_of(sweep_id), sweep_id)
    variants = [sweep_id for variant, sweep_id in newest.items() if variant]
    return variants[::-1] or [find_sweep(home, given)]


def in_training(sweep: Sweep, ended: Collection[str], warn: Callable[[str], object]) -> tuple[RunInTraining, ...]:
    """Return a sweep's runs in training or interrupted, without tuning runs.

    Args:
        sweep: The sweep.
        ended: Keys of runs to omit, because they have ended.
        warn: Called with a message for each unreadable stack.
    """
    family = sweep.spec.make_family()
    unfinished: dict[str, RunInTraining] = {}
    for directory in sorted(sweep.files.stacks.glob("*")):
        try:
            members, _ = read_members(directory)
            curves = read_progress(directory, MOST_PROGRESS_LINES)
            requests = [request for request in map(read_request, members) if request.until is None]
            configs = list(map(sweep.spec.config, requests))
        except (FileNotFoundError, NotADirectoryError):
            continue  # The stack has just ended, or is being written.
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, OSError) as error:
            warn(f"{directory} cannot be read ({type(error).__name__}: {error}); `run --resume` moves it aside")
            continue
        for request, config in zip(requests, configs, strict=True):
            key = family.key(config)
            unfinished[key] = RunInTraining(request, config, key, curves.get(key, ()))
    return tuple(run for run in unfinished.values() if run.key not in ended)


@dataclass(frozen=True)
class StoredSweep:
    """A sweep on disk at the moment it was read.

    Attributes:
        runs: The runs that ended, in that order.
        trials: The tuning runs that ended, in that order.
        damage: A sentence for each part that could not be read.
        stopped: Mixes whose search the user stopped.
        changed: Time of the journal's last entry.
        blocks: The pairs that the search requested as evidence.
        failure: Why the sweep failed, in a line. Empty if it has not failed.
        read_ns: Time just before it was read in ns, or 0 if it is unknown.
    """

    sweep: Sweep
    state: State
    runs: tuple[Run, ...]
    training: tuple[RunInTraining, ...]
    damage: tuple[str, ...]
    stopped: frozenset[str]
    changed: datetime
    blocks: tuple[Block, ...] = ()
    failure: str = ""
    read_ns: int = 0
    trials: tuple[Run, ...] = ()

    @property
    def id(self) -> str:
        return self.sweep.id

    @property
    def record_id(self) -> str:
        """Its id in exported tables (:attr:`~orchestrator.history.sweeps.Sweep.record_id`)."""
        return self.sweep.record_id

    @property
    def spec(self) -> SweepSpec:
        return self.sweep.spec

    @property
    def is_imported(self) -> bool:
        """True for a sweep that came with an archive, or that continued from an archive."""
        return self.sweep.files.is_imported

    @property
    def imported_runs(self) -> int:
        """Number of the sweep's runs that came with archives, including those that tuned its settings."""
        return sum(run.is_imported for run in (*self.runs, *self.trials))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Messages about damaged files, and about code of the family that has changed."""
        return tuple(filter(None, (*self.damage, code_note(self.sweep))))

    @property
    def origin(self) -> str:
        """Text of :func:`imported_text`."""
        return imported_text(self.is_imported, self.imported_runs)

    @property
    def state_text(self) -> str:
        """The state, and what was imported: ``imported, finished`` or ``finished, 16 runs imported``."""
        return origin_text(self.state.value, self.is_imported, self.imported_runs)

    @property
    def begun(self) -> datetime:
        return datetime.fromisoformat(self.sweep.created)

    @cached_property
    def answer(self) -> Answer:
        """The answer from the runs that ended."""
        is_foreign = is_of_others(self.sweep.files)
        with reading_limited(is_foreign):
            return answer(self.spec, self.runs, self.stopped, self.blocks, is_foreign=is_foreign)

    @cached_property
    def disk_bytes(self) -> int:
        """Bytes of its directory and its runs (which sweeps may share), without MLflow and training data."""
        return sum(map(directory_bytes, {self.sweep.files.directory, *(run.directory for run in self.runs)}))

    def command(self, step: NextStep | None = None) -> str:
        """Return the command that follows a recommendation, or resumes the sweep."""
        return command_of(self.sweep, step)

    def run(self, key: str) -> Run:
        """Return the run with this key or unique prefix. Raises :class:`UserError`."""
        matches = {run.key: run for run in self.runs if key and run.key.startswith(key)}
        if len(matches) == 1:
            return matches.popitem()[1]
        if matches:
            raise UserError(f"{key!r} matches {len(matches)} runs of {self.id}; type more of the key")
        raise UserError(f"{self.id} has no run {key!r}; its .runs lists the keys of all {len(self.runs)}")


def read_sweep(home: Home, given: str | None) -> StoredSweep:
    """Read the sweep that :func:`find_sweep` finds.

    Raises:
        UserError: If no sweep or several sweeps match.
        UnreadableError: If the sweep's files are damaged.
    """
    stored = read_known(home, find_sweep(home, given))
    if isinstance(stored, UnreadableError):
        raise stored
    return stored


def no_sweep(home: Home) -> str:
    """Return the message for a home without sweeps."""
    return f"{home.root} has no sweep yet: start one with `run NAME`, or pass another --home"


def read_sweeps(home: Home, *, answered: bool = True) -> Iterator[StoredSweep | UnreadableError]:
    """Yield every sweep of a home, newest first, or the reason why it is not read. For ``answered`` see
    :func:`read_known`."""
    limit = ForeignTime(home)
    for sweep_id in home.sweep_ids():
        yield limit.read(sweep_id, partial(read_known, home, sweep_id, answered=answered))


def read_known(home: Home, sweep_id: str, *, answered: bool = True) -> StoredSweep | UnreadableError:
    """Return the sweep with this id, or the reason why it is unreadable.

    With ``answered``, a sweep also counts as unreadable if its family raises an exception while the answer is computed.
    """
    read_ns = time.time_ns()
    try:
        sweep = load_sweep(home, sweep_id)
    except UnreadableError as error:
        return error
    try:
        # In this order: if the driver ends in between, its last entries are read, and it only seems to run.
        driven = sweep.files.is_driven()
        memory = recall_sweep(sweep)
    except OSError as error:
        return UnreadableError.of(sweep.files, error)
    runs = memory.ended
    damage = list(memory.damaged)
    if damage:
        damage.append(f"`run ... --resume {sweep_id}` finds the missing runs or trains them again")
    ended = frozenset(run.key for run in runs)
    training = () if memory.answered else in_training(sweep, ended, damage.append)
    changed = datetime.fromisoformat(memory.changed or sweep.created)
    state = State.RUNNING if driven else memory.state
    failure = memory.failure if state is State.FAILED else ""
    stored = StoredSweep(
        *(sweep, state, runs, training, tuple(damage), memory.stopped, changed, memory.blocks, failure, read_ns),
        trials=memory.trials,
    )
    if answered:
        answer_or_error = result_of_family(sweep, lambda: stored.answer)
        if isinstance(answer_or_error, UnreadableError):
            return answer_or_error
    return stored


def result_of_family(sweep: Sweep, compute: Callable[[], T]) -> T | UnreadableError:
    """Return the result of a computation that calls a sweep's family. If the family is from outside this project and
    raises an exception, return the error for an unreadable sweep."""
    try:
        return compute()
    except Exception as error:
        if not sweep.spec.source:
            raise
        # Foreign code may raise anything, and a listing must still show the other sweeps.
        return UnreadableError(sweep.files, f"{sweep.spec.family} raised {type(error).__name__}: {error}")


def find_run(home: Home, given: str) -> tuple[str, StoredSweep, list[str]]:
    """Return the key of the run with a unique prefix, the newest readable sweep of this user that has this run (or of
    others, if none of this user's has it), and the names of all
    these sweeps in the record.

    Raises:
        UserError: If no run or several runs match.
        UnreadableError: If the sweep has been damaged in the meantime.
    """
    holders: dict[str, list[tuple[str, str]]] = {}
    unread = 0
    for sweep in read_sweeps(home, answered=False):
        if isinstance(sweep, UnreadableError):
            unread += 1
            continue
        for key in {*(run.key for run in sweep.runs), *(run.key for run in sweep.training)}:
            if given and key.startswith(given):
                # Only names, because many sweeps of somebody else may have long curves.
                holders.setdefault(key, []).append((sweep.id, sweep.record_id))
    if len(holders) == 1:
        key, found = holders.popitem()
        # An archive may claim anything of a run, also of one that a sweep of this user has trained.
        shown = next((sweep_id for sweep_id, record_id in found if sweep_id == record_id), found[0][0])
        sweep = read_known(home, shown, answered=False)
        if isinstance(sweep, UnreadableError):
            raise sweep
        return key, sweep, [record_id for _, record_id in found]
    if holders:
        raise UserError(f"{given!r} matches {len(holders)} runs: {first_of(sorted(holders))}. Type more of the key.")
    others = f" in the sweeps that could be read ({unread} could not)" if unread else ""
    raise UserError(f"{home.root} has no run {given!r}{others}; `status SWEEP --runs` lists the keys of a sweep's runs")


def read_arrays(run: Run) -> dict[str, NDArray[Any]]:
    """Return the arrays of a run and its probes. Raises :class:`UserError` if it has no arrays, or if their file is
    damaged."""
    with _damage_refused(run, "arrays", DAMAGED_ARRAYS, REPAIR_OF_ARRAYS):
        arrays = arrays_of(run.directory)
    return arrays or _refuse(run, "arrays")


def read_weights(run: Run) -> dict[str, NDArray[Any]]:
    """Return the weights of a trained model by name. Raises :class:`UserError` if there are none, or if their file is
    damaged."""
    with _damage_refused(run, "weights", DAMAGED_WEIGHTS, "`run` trains it again"):
        weights = weights_of(run.directory)
    return weights or _refuse(run, "weights")


@contextmanager
def _damage_refused(run: Run, what: str, damaged: tuple[type[Exception], ...], remedy: str) -> Iterator[None]:
    """Raise :class:`UserError` with the remedy if reading this part of a run in the block meets a damaged file."""
    try:
        yield
    except damaged as error:
        if not is_damage(error):
            raise
        raise UserError(f"run {run.key}: its {what} are damaged ({error}); {remedy}") from error


def load_model(spec: SweepSpec, run: Run) -> Any:
    """Return the trained model of a run, on the CPU. Its family chooses the type.

    Raises:
        UserError: If the run has no weights, or if the family cannot load them.
    """
    weights = read_weights(run)
    try:
        return spec.make_family().load(run.config, weights)
    except (NotImplementedError, ValueError) as error:
        raise UserError(f"run {run.key}: {error}") from error


def _refuse(run: Run, what: str) -> NoReturn:
    reason = f"it {run.outcome.status}" if run.outcome.status is not Status.FINISHED else "its family stores none"
    raise UserError(f"run {run.key} ({run.config.label}, size {run.config.size}) has no {what}: {reason}")
