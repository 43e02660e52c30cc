"""Brings the record up to the journals: what an outage kept out of MLflow, or all of it into a new store."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from rich.console import Console

from orchestrator.errors import SweepError, UserError
from orchestrator.report.answer import answer
from orchestrator.store import lifecycle
from orchestrator.store.files import Home
from orchestrator.store.records import FIGURE, REPORT, Sweep
from orchestrator.tracking import store
from orchestrator.tracking.base import Ending, OutageError, Tracker
from orchestrator.tracking.mlflow_tracker import MlflowTracker
from orchestrator.tracking.system import read_samples
from trainables.base import Status


def sync(root: Path, sweep_id: str | None, console: Console) -> None:
    """Record the sweep with this id, or every sweep of a home directory, again; what is there already stays as it is.

    Raises :class:`UserError` where there is no such sweep, :class:`SweepError` where the store fails.
    """
    home = Home(root.resolve())
    ids = [sweep_id] if sweep_id is not None else home.sweep_ids()
    if not ids:
        raise UserError(f"{home.root} holds no sweep yet")
    sweeps = [lifecycle.load(home, each) for each in ids]
    chosen = store.choose(home.root)
    store.check(chosen)
    tracker = MlflowTracker(chosen)
    for sweep in sweeps:
        try:
            with lifecycle.driving(home.sweep(sweep.id)):
                runs = _record(home, sweep, tracker)
        except OutageError as error:
            raise SweepError(f"the MLflow store {tracker.describe()} failed at {sweep.id}: {error}") from error
        console.print(f"{sweep.id}: {runs} runs are in {tracker.describe()}", highlight=False, soft_wrap=True)


def rebuild(root: Path, console: Console) -> None:
    """Make the store of a home directory anew from its journals alone; the former one is moved aside and stays.

    Raises :class:`UserError` where there is no sweep, where one is being run, or where the store is a server's, whose
    database is not ours to replace; :class:`SweepError` where the new store cannot be written.
    """
    home = Home(root.resolve())
    chosen = store.choose(home.root)
    if chosen.artifacts is None:
        raise UserError(
            f"--rebuild makes the store in {home.root} anew, and {store.VARIABLE} names {chosen.shown}. Start that "
            "server on an empty database and run `sync` without --rebuild, or unset the variable."
        )
    if not home.sweep_ids():
        raise UserError(f"{home.root} holds no sweep yet")
    with ExitStack() as held:
        for sweep_id in home.sweep_ids():
            held.enter_context(lifecycle.driving(home.sweep(sweep_id)))
        aside = store.move_aside(chosen)
    if aside is not None:
        console.print(f"the former store lies in {aside}; delete it when you no longer need it", soft_wrap=True)
    sync(root, None, console)


def _record(home: Home, sweep: Sweep, tracker: Tracker) -> int:
    """Record one sweep as far as its journal goes; returns its runs."""
    files = home.sweep(sweep.id)
    memory = lifecycle.recall(files)
    tracker.begin(sweep)
    runs = [lifecycle.record_of(sweep, files, entry) for entry in memory.ended]
    for run in runs:
        tracker.run_ended(sweep, run)
    tracker.measured(sweep, list(read_samples(files.directory)))
    found = answer(sweep.spec, [(run.config, run.outcome) for run in runs])
    failed = bool(runs) and all(run.outcome.status is Status.FAILED for run in runs)
    unanswered = Ending.FAILED if failed else Ending.INTERRUPTED
    ending = Ending.FINISHED if memory.answered else unanswered
    kept = [*sorted(files.directory.glob(f"{Path(FIGURE).stem}.*")), *files.directory.glob(REPORT)]
    tracker.end(sweep, found, ending, kept)
    return len(runs)
