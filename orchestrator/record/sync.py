"""Brings the record up to the logs: what an outage kept out of MLflow, or all of it into a new store."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from mlflow import MlflowClient
from rich.console import Console

from orchestrator.errors import SweepError, UserError
from orchestrator.home.files import Home
from orchestrator.home.journal import recall
from orchestrator.home.sweeps import FIGURE, REPORT, Sweep, Unreadable, sweep_in
from orchestrator.record.mlflow_tracker import MlflowTracker
from orchestrator.record.store import (
    ARTIFACTS,
    DATABASE,
    VARIABLE,
    check,
    choose,
    make_database,
    opened,
    store_errors,
)
from orchestrator.record.tracker import Tracker
from orchestrator.report.answer import answer
from orchestrator.report.words.numbers import counted

FORMER = "former-store-"
"""Prefix of the directory that receives a store that is made again."""
OPEN = ("", "-journal", "-wal", "-shm")
"""Endings of the files of an SQLite database."""


def sync(root: Path, console: Console) -> None:
    """Record all sweeps of a home that are not running; records that are complete stay as they are.

    Raises :class:`SweepError` if the store fails, and at the end if sweeps could not be read.
    """
    home = _home(root)
    store = opened(home.root)
    tracker, unread = MlflowTracker(store), []
    for each in home.sweep_ids():
        if home.sweep(each).is_driven():
            _say(console, f"{each} is running: its driver records it")
            continue
        found = sweep_in(home, each)
        if isinstance(found, Unreadable):
            unread.append(str(found))
            continue
        with home.sweep(each).driving():
            count = _replay(found, tracker, console)
        _say(console, f"{each}: {counted(count, 'run')} in {store.shown}")
    if unread:
        lines = "\n  ".join([f"{len(unread)} of {len(home.sweep_ids())} sweeps cannot be read:", *unread])
        raise SweepError(f"{lines}\nThe others are recorded.")


def rebuild(root: Path, console: Console) -> None:
    """Make the store of a home again from its logs alone. The former one, damaged or not, is moved aside and kept.

    Raises :class:`UserError` if there is no sweep, if one is running, or if a server holds the record.
    """
    home = _home(root)
    store = choose(home.root)
    if store.artifacts is None:
        raise UserError(
            f"--rebuild makes the store in {home.root} again, but {VARIABLE} names {store.shown}. Start that server "
            "on an empty database and run `sync`, or unset the variable."
        )
    for each in home.sweep_ids():
        home.sweep(each).check_free()
    aside = Path(tempfile.mkdtemp(prefix=FORMER, dir=home.root))
    for name in (*(f"{DATABASE}{end}" for end in OPEN), ARTIFACTS):
        if (home.root / name).exists():
            (home.root / name).rename(aside / name)
    if any(aside.iterdir()):
        _say(console, f"the former store is in {aside}; delete it when you no longer need it")
    else:
        aside.rmdir()
    sync(root, console)


def _home(root: Path) -> Home:
    home = Home(root.resolve())
    if not home.sweep_ids():
        raise UserError(f"{home.root} holds no sweep yet")
    return home


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def _replay(sweep: Sweep, tracker: Tracker, console: Console) -> int:
    """Hand a sweep to the tracker as far as its log goes; returns the number of its runs."""
    memory = recall(sweep.files)
    for damaged in memory.damaged:
        _say(console, damaged)
    runs = [sweep.record(entry) for entry in memory.ended]
    tracker.begin(sweep)
    for run in runs:
        tracker.run_ended(sweep, run)
    found = answer(sweep.spec, [(run.config, run.outcome) for run in runs], memory.stopped, memory.blocks)
    there = sweep.files.directory
    kept = [*sorted(there.glob(f"{Path(FIGURE).stem}.*")), *there.glob(REPORT)]
    tracker.end(sweep, found, memory.state, kept)
    return len(runs)


def try_store(home: Path) -> tuple[str, float]:
    """The store of a home as a person knows it, and seconds until a record is written and read back.

    A server is only read; the store of a home is tried with another one in a directory that goes again. Raises as
    :func:`orchestrator.record.store.check`.
    """
    store, begun = choose(home), time.perf_counter()
    if store.artifacts is None or (home / DATABASE).is_file():
        check(store)
    if store.artifacts is None:
        return store.shown, time.perf_counter() - begun
    with tempfile.TemporaryDirectory(prefix=".doctor-", dir=home) as aside, store_errors(store):
        tried = choose(Path(aside), {})
        make_database(tried)
        client = MlflowClient(tried.uri)
        run_id = client.create_run(client.create_experiment("doctor", tried.location_of("doctor"))).info.run_id
        client.log_metric(run_id, "answer", 42.0)
        if (read := client.get_run(run_id).data.metrics.get("answer")) != 42.0:
            raise SweepError(f"a record in a new store in {home} reads {read}, written was 42.0")
    return store.shown, time.perf_counter() - begun
