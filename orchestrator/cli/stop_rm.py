"""Stopping and deleting sweeps."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.options import HomeOption, OneSweep
from orchestrator.cli.status import open_sweep
from orchestrator.errors import SweepError, UserError
from orchestrator.sweep.run_options import HOME

if TYPE_CHECKING:
    from orchestrator.catalogue.reading import StoredSweep


def stop_command(
    sweep: OneSweep,
    mix: Annotated[str | None, typer.Option(help="Stop only this mix; the sweep continues with the others.")] = None,
    run: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Stop only this run (by its key or a prefix); it counts as failed."),
    ] = None,
    home: HomeOption = HOME,
) -> None:
    """Stop a running sweep as Ctrl-C does, or one of its mixes or runs. Finished runs are kept.

    Examples:

      stop add_vs_add_prod                  the newest sweep of this space; run ... --resume continues it

      stop add_vs_add_prod --mix add+prod   no more runs of this mix; the answer mentions it
    """
    from orchestrator.home.files import StopRequest
    from orchestrator.home.sweeps import ask_to_stop

    if mix is not None and run is not None:
        raise UserError("--mix stops all runs of a mix, --run stops one run: give only one option")
    stored = open_sweep(sweep, home)
    request = StopRequest(mix or "", "" if run is None else _key(stored, run))
    ask_to_stop(stored.sweep, request)
    typer.echo(f"{stored.id} will stop {request} at the next evaluation of a stack")


def _key(stored: StoredSweep, given: str) -> str:
    """Return the key of the run in training with this prefix. Raises ``UserError``."""
    training = [run.key for run in stored.training]
    matches = [key for key in training if given and key.startswith(given)]
    if len(matches) == 1:
        return matches[0]
    problem = f"matches {len(matches)} runs in training" if matches else "is not a run in training"
    raise UserError(f"{given!r} {problem} of {stored.id}. In training: {', '.join(matches or training) or 'none'}.")


def rm_command(
    sweep: OneSweep,
    home: HomeOption = HOME,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a sweep from disk and from MLflow, after asking.

    Runs that another sweep uses stay on disk; `sync` records them again. An MLflow server keeps deleted records in its
    trash until `mlflow gc`.
    """
    from orchestrator.catalogue.listings import sweep_words
    from orchestrator.catalogue.lookup import space_of
    from orchestrator.home.files import Home
    from orchestrator.home.journal import State
    from orchestrator.home.run_files import directory_bytes
    from orchestrator.home.sweeps import UnreadableError
    from orchestrator.report.words.numbers import counted, size_on_disk

    try:
        stored = open_sweep(sweep, home)
    except UnreadableError as error:  # An unreadable sweep can still be deleted.
        sweep_id, space = error.unreadable.id, space_of(error.unreadable.id)
        files = Home(home.resolve()).sweep(sweep_id)
        running, freed = files.is_driven(), size_on_disk(directory_bytes(files.directory))
        lines = [f"{error}", f"{sweep_id}: {freed}"]
    else:
        sweep_id, space, running = stored.id, stored.spec.name, stored.state is State.RUNNING
        freed = size_on_disk(stored.disk_bytes)
        lines = [f"{sweep_id}: {stored.state}, {counted(len(stored.runs), 'run')}, {freed}", f"  {sweep_words(stored)}"]
    if running:
        raise UserError(f"{sweep_id} is running: stop it first (`stop {sweep_id}`), then delete it")
    for line in lines:
        typer.echo(line)
    if not yes and not typer.confirm("Permanently delete it from disk and from MLflow?"):
        raise typer.Abort
    records = _delete(sweep_id, space, home)
    typer.echo(f"deleted {sweep_id}: {freed} on disk, {records} records in MLflow")


def _delete(sweep_id: str, space: str, home: Path) -> int:
    """Delete the record, then the files. Return the number of records. An interrupted deletion can be repeated."""
    from orchestrator.home.checkpoints import Checkpoints
    from orchestrator.home.files import Home
    from orchestrator.home.run_store import RunStore
    from orchestrator.record.mlflow_tracker import remove_sweep
    from orchestrator.record.store import StoreError, opened

    files = Home(home.resolve()).sweep(sweep_id)
    chosen = opened(home)
    with files.driving():
        try:
            records = remove_sweep(chosen, space, sweep_id)
        except StoreError as error:
            raise SweepError(f"nothing was deleted from disk: {error}") from error
        store = RunStore(files.home, sweep_id)
        with store.locked():
            store.remove_own()
            Checkpoints(files.checkpoints).clear()
            aside = files.directory.with_name(f".{sweep_id}")
            files.directory.rename(aside)  # Readers no longer find it.
        shutil.rmtree(aside)
    return records
