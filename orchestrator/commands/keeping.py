"""Deleting sweeps that are no longer wanted."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.commands.looking import open_sweep
from orchestrator.commands.options import DEFAULT_HOME, Debug, HomeOption, OneSweep
from orchestrator.errors import SweepError, UserError

if TYPE_CHECKING:
    from orchestrator.catalogue.reading import StoredSweep


def rm_command(
    sweep: OneSweep,
    home: HomeOption = DEFAULT_HOME,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    debug: Debug = False,
) -> None:
    """Delete a sweep from disk and from MLflow, artifacts too, after asking."""
    from orchestrator.catalogue.reading import State
    from orchestrator.catalogue.views import size_on_disk, sweep_words

    stored = open_sweep(sweep, home)
    if stored.state is State.RUNNING:
        raise UserError(f"{stored.id} is being run; stop it first (Ctrl-C where it runs), then delete it")
    typer.echo(f"{stored.id}: {stored.state}, {len(stored.runs)} runs, {size_on_disk(stored.disk_bytes)}")
    typer.echo(f"  {sweep_words(stored)}")
    if not yes and not typer.confirm("Delete it from disk and from MLflow, for good?"):
        raise typer.Abort
    records = _delete(stored, home)
    typer.echo(f"deleted {stored.id}: {size_on_disk(stored.disk_bytes)} on disk, {records} records in MLflow")


def _delete(stored: StoredSweep, home: Path) -> int:
    """Delete the record, then the disk: until the end the command can be repeated. Returns the number of records."""
    from orchestrator.store import lifecycle
    from orchestrator.store.files import Home
    from orchestrator.tracking import store
    from orchestrator.tracking.base import OutageError
    from orchestrator.tracking.removal import remove_sweep

    files = Home(home.resolve()).sweep(stored.id)
    chosen = store.choose(home)
    store.check(chosen)
    with lifecycle.driving(files):
        try:
            records = remove_sweep(chosen, stored.spec.name, stored.id)
        except OutageError as error:
            raise SweepError(f"the MLflow store {chosen.shown} failed, nothing on disk is deleted: {error}") from error
        aside = files.directory.with_name(f".{stored.id}")
        files.directory.rename(aside)  # From here on nobody finds it, whatever happens to the rest.
        shutil.rmtree(aside)
    return records
