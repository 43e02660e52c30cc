"""Brings the record up to the journals: what an outage kept out of MLflow, or all of it into a new store."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console

from orchestrator.errors import SweepError, UserError
from orchestrator.prediction.registered import registered
from orchestrator.report.answer import answer
from orchestrator.space.validation import explain
from orchestrator.store import lifecycle, reading
from orchestrator.store.files import Home
from orchestrator.store.reading import Unreadable
from orchestrator.store.records import FIGURE, REPORT, Sweep
from orchestrator.tracking import store
from orchestrator.tracking.base import Ending, OutageError, Tracker
from orchestrator.tracking.mlflow_tracker import MlflowTracker
from orchestrator.tracking.moved import follow
from orchestrator.tracking.opening import opened
from orchestrator.tracking.store import Store
from orchestrator.tracking.system import read_samples
from trainables.base import SettingsError, Status

NEW = ".new-store-"
"""How the directory's name begins in which a store is made anew."""


def sync(root: Path, sweep_id: str | None, console: Console) -> None:
    """Record the sweep with this id, or every sweep of a home directory, again; what is there already stays as it is.

    Raises :class:`UserError` where there is no such sweep, :class:`SweepError` where the store fails, and at the end
    where sweeps could not be read.
    """
    home = Home(root.resolve())
    ids = [lifecycle.load(home, sweep_id).id] if sweep_id is not None else home.sweep_ids()
    if not ids:
        raise UserError(f"{home.root} holds no sweep yet")
    say = _sayer(console)
    tracker = MlflowTracker(opened(home.root, say))
    unread = []
    for each in ids:
        found = _read(home, each)
        if isinstance(found, Unreadable):
            unread.append(found)
            continue
        with lifecycle.driving(home.sweep(each)):
            _record(home, found, tracker, tracker.describe(), say)
    if unread:
        raise SweepError(f"{_unread_words(unread, len(ids))}\nThe others are recorded.")


def rebuild(root: Path, console: Console, *, skip_unreadable: bool = False) -> None:
    """Make the store of a home directory anew from its journals alone. The former one, damaged or not, stays where it
    is until the new one is complete; then it is moved aside, and kept.

    Raises :class:`UserError` where there is no sweep, where one is being run, or where the store is a server's, whose
    database is not ours to replace; :class:`SweepError` where the new store cannot be written, and, before anything is
    written, where sweeps cannot be read, unless ``skip_unreadable``.
    """
    home = Home(root.resolve())
    chosen = store.choose(home.root)
    if chosen.artifacts is None:
        raise UserError(
            f"--rebuild makes the store in {home.root} anew, and {store.VARIABLE} names {chosen.shown}. Start that "
            "server on an empty database and run `sync` without --rebuild, or unset the variable."
        )
    ids, say = home.sweep_ids(), _sayer(console)
    if not ids:
        raise UserError(f"{home.root} holds no sweep yet")
    with ExitStack() as held:
        for sweep_id in ids:
            held.enter_context(lifecycle.driving(home.sweep(sweep_id)))
        found = [_read(home, each) for each in ids]
        unread = [each for each in found if isinstance(each, Unreadable)]
        if unread and not skip_unreadable:
            raise SweepError(
                f"{_unread_words(unread, len(ids))}\nThe store is as it was: one made anew would lack them. Put them "
                "right, or add --skip-unreadable to make one without them."
            )
        with _beside(home) as new:
            tracker = MlflowTracker(new)
            for sweep in found:
                if isinstance(sweep, Sweep):
                    _record(home, sweep, tracker, chosen.shown, say)
            if begun := sorted(set(home.sweep_ids()) - set(ids)):
                raise UserError(
                    f"{begun[0]} was begun meanwhile; the store is as it was. Repeat this when it has ended."
                )
            follow(_database(new), chosen.artifacts)
            aside = store.replace(chosen, new)
    if aside is not None:
        say(f"the former store lies in {aside}; delete it when you no longer need it")
    for each in unread:
        say(f"left out: {each}")


@contextmanager
def _beside(home: Home) -> Iterator[Store]:
    """A store to fill beside the one that is there. What is left of it when the block ends is removed, and what an
    earlier attempt left that was killed."""
    for left in home.root.glob(f"{NEW}*"):
        shutil.rmtree(left)
    directory = Path(tempfile.mkdtemp(prefix=NEW, dir=home.root))
    try:
        yield store.own(directory)
    finally:
        shutil.rmtree(directory)


def _database(own: Store) -> Path:
    return Path(urlsplit(own.uri).path[1:])


def _sayer(console: Console) -> Callable[[str], object]:
    return partial(console.print, markup=False, highlight=False, soft_wrap=True)


def _unread_words(unread: Sequence[Unreadable], of: int) -> str:
    lines = [f"{len(unread)} of {of} sweeps cannot be read:", *map(str, unread)]
    return "\n  ".join(lines)


def _read(home: Home, sweep_id: str) -> Sweep | Unreadable:
    """A sweep all of whose runs can be recorded."""
    found = reading.read(home, sweep_id)
    if isinstance(found, Sweep):
        files = home.sweep(sweep_id)
        try:
            for entry in lifecycle.recall(files).ended:
                lifecycle.record_of(found, files, entry)
        except SettingsError as error:
            why = f"{found.spec.family} does not take its settings any more: {explain(error)}"
            return reading.without_family(found, why)
    return found


def _record(home: Home, sweep: Sweep, tracker: Tracker, place: str, say: Callable[[str], object]) -> None:
    """Record one sweep as far as its journal goes, in a store that people know as ``place``."""
    try:
        count = _replay(home, sweep, tracker, say)
    except OutageError as error:
        raise SweepError(f"the MLflow store {place} failed at {sweep.id}: {error}") from error
    say(f"{sweep.id}: {count} runs are in {place}")


def _replay(home: Home, sweep: Sweep, tracker: Tracker, say: Callable[[str], object]) -> int:
    """Hand a sweep to the tracker; returns its runs."""
    files = home.sweep(sweep.id)
    memory = lifecycle.recall(files)
    for damaged in memory.damaged:
        say(damaged)
    registered(files, say)  # Says so where it is damaged.
    tracker.begin(sweep)
    runs = [lifecycle.record_of(sweep, files, entry) for entry in memory.ended]
    for run in runs:
        tracker.run_ended(sweep, run)
    tracker.measured(sweep, list(read_samples(files.directory)))
    found = answer(sweep.spec, [(run.config, run.outcome) for run in runs], memory.stopped)
    failed = bool(runs) and all(run.outcome.status is Status.FAILED for run in runs)
    unanswered = Ending.FAILED if failed else Ending.INTERRUPTED
    ending = Ending.FINISHED if memory.answered else unanswered
    kept = [*sorted(files.directory.glob(f"{Path(FIGURE).stem}.*")), *files.directory.glob(REPORT)]
    tracker.end(sweep, found, ending, kept)
    return len(runs)
