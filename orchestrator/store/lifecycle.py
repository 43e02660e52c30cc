"""How a sweep begins: new, resumed where it stopped, or as an extension of another one."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.errors import UserError, unknown
from orchestrator.search.base import Request
from orchestrator.space.plain import differences
from orchestrator.space.spec import SweepSpec
from orchestrator.store import damage, reading
from orchestrator.store.checkpoints import Checkpoints
from orchestrator.store.driving import check_free as check_free
from orchestrator.store.driving import driving as driving
from orchestrator.store.driving import is_driven as is_driven
from orchestrator.store.environment import describe_environment
from orchestrator.store.files import Home, SweepFiles, write_whole
from orchestrator.store.journal import Answered, BadLine, Ended, Journal, Stopped, no_flaw, read_journal
from orchestrator.store.mirrored import home_words
from orchestrator.store.reading import SCHEMA, Unreadable, UnreadableError
from orchestrator.store.records import RunRecord, Sweep
from orchestrator.store.remains import (
    CHECKPOINT,
    ORIGIN,
    read_members,
    read_origin,
    read_outcome,
    write_origin,
)
from orchestrator.store.storage import Storage, kept_runs


@dataclass(frozen=True)
class Memory:
    """What a journal holds; ``damaged`` are its lines that cannot be read. ``changed`` is when the last entry was made
    (ISO 8601, UTC), ``""`` where there is none, or it does not say; ``stopped`` are the mixes that somebody stopped."""

    ended: tuple[Ended, ...]
    answered: bool
    damaged: tuple[BadLine, ...] = ()
    changed: str = ""
    stopped: frozenset[str] = frozenset()


def create(spec: SweepSpec, home: Home, *, fresh: bool = False) -> Sweep:
    """A new sweep, on disk. A ``fresh`` one takes no run that is there already, and keeps its own by itself."""
    files, now = _new_directory(home, "-".join(filter(None, (spec.name, spec.variant))))
    begun = now.isoformat(timespec="seconds")
    sweep = Sweep(files.directory.name, spec, files.directory, begun, describe_environment(), fresh=fresh)
    if fresh:
        files.own_runs.mkdir(parents=True)
    write_whole(files.spec, spec.to_yaml())
    about = {
        "id": sweep.id,
        "schema": SCHEMA,
        "created": sweep.created,
        "environment": sweep.environment,
        "fresh": fresh,
    }
    write_whole(files.about, json.dumps(about, indent=1))
    return sweep


def _new_directory(home: Home, name: str) -> tuple[SweepFiles, datetime]:
    """A directory of its own for a sweep of this name, and when it was begun. The last four digits of its id count the
    65 536ths of the second: sweeps that begin in one second have an order, too."""
    while True:
        now = datetime.now(UTC)
        files = home.sweep(f"{name}-{now:%Y%m%d-%H%M%S}-{(now.microsecond << 16) // 1_000_000:04x}")
        with suppress(FileExistsError):
            files.directory.mkdir(parents=True)
            return files, now


def load(home: Home, sweep_id: str) -> Sweep:
    """A sweep by its id. Raises :class:`UserError` where there is none, :class:`UnreadableError` where it cannot be
    read."""
    ids = home.sweep_ids()
    if sweep_id not in ids:
        if not ids:
            raise UserError(f"there is no sweep {sweep_id!r}: {home_words(home.root)} holds none yet")
        raise unknown("sweep", sweep_id, ids, where=home_words(home.root))
    found = reading.read(home, sweep_id)
    if isinstance(found, Unreadable):
        raise UnreadableError(found)
    return found


def recall(files: SweepFiles, flaw: Callable[[Ended], str] = no_flaw) -> Memory:
    """What a sweep's journal holds; ``flaw`` as in :func:`read_journal`."""
    entries = list(read_journal(files.journal, flaw))
    last: dict[tuple[str, Request], Ended] = {}
    for entry in entries:
        if isinstance(entry, Ended):  # Of a run that failed and was trained again, the later word.
            last.pop((entry.key, entry.request), None)
            last[entry.key, entry.request] = entry
    ended = tuple(last.values())
    damaged = tuple(entry for entry in entries if isinstance(entry, BadLine))
    times = [entry.at for entry in entries if not isinstance(entry, BadLine)]
    answered = any(isinstance(entry, Answered) for entry in entries)
    stopped = frozenset(entry.mix for entry in entries if isinstance(entry, Stopped))
    return Memory(ended, answered, damaged, times[-1] if times else "", stopped)


def find_unfinished(spec: SweepSpec, home: Home, say: Callable[[str], object] = warnings.warn) -> Sweep:
    """The newest unfinished sweep that asks for the same runs; where all of them are answered, the newest, which may
    have died before it printed its answer. Raises :class:`UserError` where there is none, naming what differs in the
    newest of the same name. ``say`` is told of those that cannot be read."""
    closest, answered = "", None
    for sweep in _of_space(spec, home, say):
        different = differences(spec, sweep.spec)
        if recall(home.sweep(sweep.id)).answered:
            answered = answered or (None if different else sweep)
            continue
        if not different:
            return sweep
        closest = closest or f" The newest, {sweep.id}, differs in {_listed(different)}."
    if answered is not None:
        say(f"{answered.id} has its answer already; here it is again")
        return answered
    raise UserError(f"no unfinished sweep of {spec.name} with these settings lies in {home_words(home.root)}.{closest}")


def newest(spec: SweepSpec, home: Home, say: Callable[[str], object] = warnings.warn) -> Sweep | None:
    """The newest sweep, finished or not, that asks for the same runs; None where there is none. ``say`` is told of
    those that cannot be read."""
    return next((sweep for sweep in _of_space(spec, home, say) if not differences(spec, sweep.spec)), None)


def _of_space(spec: SweepSpec, home: Home, say: Callable[[str], object]) -> Iterator[Sweep]:
    """The sweeps of a search space and variant that can be read, newest first."""
    for sweep_id in home.sweep_ids():
        if not sweep_id.startswith(f"{spec.name}-"):
            continue
        sweep = reading.read(home, sweep_id)
        if isinstance(sweep, Unreadable):
            say(f"passed over: {sweep}")
        elif (sweep.spec.name, sweep.spec.variant) == (spec.name, spec.variant):
            yield sweep


def check_same(spec: SweepSpec, sweep: Sweep) -> None:
    """Raise :class:`UserError` unless a sweep asks for the runs of this spec."""
    different = differences(spec, sweep.spec)
    if different:
        raise UserError(
            f"{sweep.id} cannot be resumed with these settings: they differ in {_listed(different)}. "
            f"Repeat the settings it was started with, or use --extend {sweep.id} for a new sweep that reuses its runs."
        )


def drop_checkpoints(files: SweepFiles) -> None:
    """Remove the checkpoints of stacks that failed. Those that ended well removed theirs themselves."""
    shutil.rmtree(files.checkpoints, ignore_errors=True)


def adopt_outcomes(
    sweep: Sweep, journal: Journal, known: Iterable[str], say: Callable[[str], object] = warnings.warn
) -> list[Ended]:
    """Journal the runs that finished on disk but that a crash kept out of the journal; returns them. ``say`` is told of
    those that are damaged: they are put aside, and wanted again."""
    adopted, files = set(known), SweepFiles(sweep.directory)
    runs, found = kept_runs(files), []
    for key, request in _usable(sweep.spec).items():
        if key not in adopted and _was_trained_for(files, key) and damage.is_whole(runs, key, say):
            found.append(Ended(key, request, read_outcome(runs.get(key))))
            journal.append(found[-1])
    return found


def _was_trained_for(files: SweepFiles, key: str) -> bool:
    """Whether a finished run is there that was trained for this sweep."""
    runs = kept_runs(files)
    if files.keeps_its_runs or not runs.has(key):
        return runs.has(key)
    origin = read_origin(runs.get(key))
    return origin is not None and origin.sweep == files.directory.name


def reuse_runs(older: Sweep, home: Home, sweep: Sweep, journal: Journal) -> list[Ended]:
    """Take over from another sweep every finished run that the new one may use; returns them.

    Raises :class:`UserError` where the two have no run in common.
    """
    usable = _usable(sweep.spec)
    theirs, runs = kept_runs(home.sweep(older.id)), kept_runs(home.sweep(sweep.id))
    reused = []
    for entry in _reusable(sweep.spec, older, home, usable):
        origin = entry.reused_from or older.id
        link_run(theirs.get(entry.key), runs, entry.key, origin)
        reused.append(Ended(entry.key, usable[entry.key], entry.outcome, reused_from=origin))
        journal.append(reused[-1])
    return reused


def check_reusable(spec: SweepSpec, older: Sweep, home: Home) -> None:
    """Raise :class:`UserError` unless a sweep of ``spec`` may use a finished run of the other one."""
    _reusable(spec, older, home, _usable(spec))


def _reusable(spec: SweepSpec, older: Sweep, home: Home, usable: Mapping[str, Request]) -> list[Ended]:
    found = [each for each in recall(home.sweep(older.id)).ended if each.key in usable and not each.outcome.error]
    if not found:
        different = _listed(differences(spec, older.spec)) or "nothing"
        raise UserError(f"{older.id} has no finished run that this sweep could reuse: they differ in {different}")
    return found


def interrupted_stacks(files: SweepFiles, say: Callable[[str], object] = warnings.warn) -> list[list[Request]]:
    """The stacks that an earlier driver left with a checkpoint, each as its requests. ``say`` is told of checkpoints
    that cannot be read: their runs begin again."""
    checkpoints, found = Checkpoints(files.checkpoints), []
    for stack_id in checkpoints.stacks():
        directory = checkpoints.newest(stack_id)
        try:
            assert directory is not None
            if (directory / CHECKPOINT).is_dir():
                found.append(list(read_members(directory)))
        except (ValueError, KeyError, TypeError, OSError) as error:
            say(f"the checkpoint {directory} cannot be read ({error}): its runs begin again")
    return found


def record_of(sweep: Sweep, files: SweepFiles, entry: Ended) -> RunRecord:
    """A journal entry as trackers and reports know it."""
    config = sweep.spec.config(entry.request)
    return RunRecord(entry.key, config, entry.outcome, kept_runs(files), entry.reused_from, entry.at)


def _usable(spec: SweepSpec) -> dict[str, Request]:
    """Every run the sweep may use, by key."""
    family = spec.make_family()
    wanted = [each for request in spec.requests() for each in spec.chain(request)]
    return {family.key(spec.config(request)): request for request in wanted}


def link_run(source: Path, runs: Storage, key: str, sweep_id: str, ended: datetime | None = None) -> None:
    """Link a finished run's files to where other sweeps look for them, or copy them where links do not work; nothing
    where they look at the same place, or a run is there. ``sweep_id`` and ``ended`` are its origin, unless it has one.
    """
    if runs.has(key) or not source.is_dir():
        return
    with runs.put(key) as aside:
        try:
            shutil.copytree(source, aside, copy_function=os.link, dirs_exist_ok=True)
        except (OSError, shutil.Error):
            shutil.copytree(source, aside, dirs_exist_ok=True)
        if not (aside / ORIGIN).exists():
            write_origin(aside, sweep_id, ended)


def _listed(different: dict[str, tuple[object, object]]) -> str:
    shown = [f"{key} (now {mine!r}, then {theirs!r})" for key, (mine, theirs) in sorted(different.items())[:6]]
    return ", ".join(shown) + (f" and {len(different) - 6} more" if len(different) > 6 else "")
