"""Updates a record from the journals after an outage, or fills a new store from them."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path

from mlflow import MlflowClient
from rich.console import Console

from orchestrator.history.foreign_time import ForeignTime
from orchestrator.history.known_runs import recall_sweep
from orchestrator.history.sweeps import FIGURE_FILE, REPORT_FILE, UnreadableError, load_sweep
from orchestrator.home.directories import DATABASE, LINES, Home
from orchestrator.home.ownership import check_own, is_of_others
from orchestrator.record.choice import opener
from orchestrator.record.mlflow_store import (
    ARTIFACTS,
    URI_VARIABLE,
    check_owner,
    check_store,
    choose_store,
    make_database,
    store_errors,
)
from orchestrator.record.sweep_records import SweepRecords
from orchestrator.record.tracker import StoreError, Tracker
from orchestrator.report.answer import answer
from orchestrator.system.environment import temporary_directory
from orchestrator.system.errors import SweepError, UserError
from orchestrator.system.files import is_file
from orchestrator.system.reading_time import TooSlowError, reading_limited
from orchestrator.system.text import counted

FORMER_STORE_PREFIX = "former-store-"
"""Prefix of the directory to which an old store is moved."""


def sync(root: Path, console: Console, record: str = "mlflow") -> None:
    """Write the missing records of all sweeps of a home that are not running.

    Raises:
        SweepError: If the store fails. Also at the end if some sweeps could not be read or recorded.
    """
    home = _home(root)
    tracker = opener(record, home.root)()
    shown = choose_store(home.root).shown if record == "mlflow" else home.root / LINES
    troubles = []
    is_any_recorded = False
    limit = ForeignTime(home, remedy="Repeat `sync` to record it")
    for sweep_id in home.sweep_ids():
        if home.sweep(sweep_id).is_driven():
            console.out(f"{sweep_id} is running, so its own process records it", highlight=False)
            continue
        try:
            # Under the sweep's lock, so that no driver starts and records it at the same time.
            with home.sweep(sweep_id).driving():
                count = limit.read(sweep_id, partial(_record, home, sweep_id, tracker, console))
                if isinstance(count, UnreadableError):
                    raise count
        except UnreadableError as error:
            troubles.append(str(error))
            continue
        except StoreError as error:
            opener(record, home.root)  # Raises if the store also fails for other sweeps.
            troubles.append(f"{sweep_id}: {error}")
            continue
        is_any_recorded = True
        console.out(f"{sweep_id}: {counted(count, 'run')} in {shown}", highlight=False)
    if troubles:
        lines = "\n  ".join([f"{len(troubles)} of {len(home.sweep_ids())} sweeps cannot be recorded:", *troubles])
        raise SweepError(f"{lines}\nThe others are recorded." if is_any_recorded else lines)


def rebuild(root: Path, console: Console) -> None:
    """Rebuild the store of a home from its journals. Move the old store aside, whether it is damaged or not.

    Raises:
        UserError: If there is no sweep, if a sweep is running, or if the record is not in the home.
    """
    home = _home(root)
    store = choose_store(home.root)
    if store.database != home.root / DATABASE:
        raise UserError(
            f"--rebuild rebuilds the store in {home.root}, but {URI_VARIABLE} is {store.shown}. Start it with "
            "an empty database and run `sync`, or unset the variable."
        )
    check_owner(store)
    for sweep_id in home.sweep_ids():
        home.sweep(sweep_id).check_free()
    # The database may have files next to it with changes that it does not contain yet.
    if old := [*home.root.glob(f"{DATABASE}*"), *home.root.glob(ARTIFACTS)]:
        aside = Path(tempfile.mkdtemp(prefix=FORMER_STORE_PREFIX, dir=home.root))
        for path in old:
            path.rename(aside / path.name)
        console.out(f"the old store was moved to {aside}; delete it when you no longer need it", highlight=False)
    sync(root, console)


def _home(root: Path) -> Home:
    home = Home(root.resolve())
    if not home.sweep_ids():
        raise UserError(f"{home.root} has no sweep yet")
    check_own(home.root)
    return home


def _record(home: Home, sweep_id: str, tracker: Tracker, console: Console) -> int:
    """Pass a sweep's whole journal to the tracker, and return the number of its runs.

    Raises:
        UnreadableError: If the sweep cannot be read.
        TooSlowError: If it is a sweep of others, and reading or recording it takes too long.
    """
    sweep = load_sweep(home, sweep_id)
    is_foreign = is_of_others(sweep.files)
    with reading_limited(is_foreign):
        memory = recall_sweep(sweep)
        answered = answer(sweep.spec, memory.ended, memory.stopped, memory.blocks, is_foreign=is_foreign)
    for damage in memory.damaged:
        console.out(damage, highlight=False)
    records = SweepRecords(sweep, lambda call: call(tracker))
    records.begin()
    directory = sweep.files.directory
    files = [*sorted(directory.glob(f"{Path(FIGURE_FILE).stem}.*")), *directory.glob(REPORT_FILE)]
    files = [path for path in files if is_file(path)]  # A link would copy its target into the record.
    try:
        with reading_limited(is_foreign):
            for run in memory.ended:
                records.run_ended(run)
            records.end(answered, memory.state, files)
    except TooSlowError:
        records.cut_off(answered, memory.state)
        raise
    return len(memory.ended)


def try_store(home: Path) -> tuple[str, float]:
    """Return the name of a home's store, and the seconds to read it. If the home has no database yet, they are the
    seconds to write a record to a temporary database.

    Raises:
        StoreError: If the store does not respond, or if another user could replace its database.
    """
    store = choose_store(home)
    check_owner(store)
    begun = time.perf_counter()
    if store.database is None or store.database.is_file():
        check_store(store)
        return store.shown, time.perf_counter() - begun
    with temporary_directory(".doctor-", home) as aside, store_errors(store):
        tried = choose_store(aside, {})
        make_database(aside / DATABASE)
        client = MlflowClient(tried.uri)
        client.create_run(client.create_experiment("doctor", tried.location_of("doctor")))
    return store.shown, time.perf_counter() - begun
