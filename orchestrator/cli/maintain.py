"""Commands that copy and trust homes, update records, and delete sweeps."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from orchestrator.catalog.export import output_path
from orchestrator.catalog.summary_cache import open_summary
from orchestrator.cli.options import HomeOption, OneSweep, as_in_run, warn
from orchestrator.history.export_archive import export_home
from orchestrator.history.import_archive import import_home
from orchestrator.history.sweeps import UnreadableError
from orchestrator.home.directories import LINES, Home
from orchestrator.home.ownership import check_own
from orchestrator.home.run_files import directory_bytes
from orchestrator.home.trusted_code import trust_directory
from orchestrator.sweep.deletion import delete_sweep, finish_deletions
from orchestrator.sweep.run_options import RECORDS
from orchestrator.system.commands import command_line
from orchestrator.system.did_you_mean import unknown
from orchestrator.system.environment import HOME
from orchestrator.system.errors import UserError
from orchestrator.system.permissions import foreign_link_text
from orchestrator.system.printing import Console, echo
from orchestrator.system.text import counted, size_on_disk

home_command = typer.Typer(
    help="Export a home to a file, import one, or mark a home or code folder as trusted.", add_completion=False
)
"""The commands `home export`, `home import` and `home trust`."""


@home_command.command("export")
def export_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write, such as home.tar.gz.")],
    home: HomeOption = HOME,
) -> None:
    """Write the runs, sweeps and checkpoints of a home to one file.

    The file does not contain code, or the records in MLflow. If a sweep is running, its finished runs are exported, but
    not its checkpoints.

    Example:

      home export home.tar.gz
    """
    written = export_home(Home(home.resolve()), output_path(file))
    size = size_on_disk(file.stat().st_size)
    echo(f"wrote {file}: {counted(written.sweeps, 'sweep')}, {counted(written.runs, 'run')}, {size}")


@home_command.command("import")
def import_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file from `home export`.")],
    home: HomeOption = HOME,
    mine: Annotated[
        bool, typer.Option("--mine", help="The file is yours, so its sweeps are not shown as imported.")
    ] = False,
) -> None:
    """Add the runs, sweeps and checkpoints of a file to a home.

    Runs are merged by key, so you can import a file twice. `run ... --resume` continues a stopped sweep, and `sync`
    records the sweeps in MLflow.

    Imported sweeps are shown as imported, and so are their runs in sweeps that reuse them. With --mine, you say that
    the file is yours.

    Examples:

      home import home.tar.gz --home results

      home import from_my_cluster.tar.gz --mine
    """
    place = Home(home.resolve())
    read = import_home(place, file, warn, mine=mine)
    own = " as your own" if mine else ""
    echo(f"imported {counted(read.sweeps, 'sweep')} and {counted(read.runs, 'run')} into {place.root}{own}")
    if read.runs or read.sweeps:
        echo(f"next: {command_line('sync', '--home', place.root)}, to record them in MLflow")


@home_command.command("trust")
def trust_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A home, or a folder with code.")],
) -> None:
    """Mark a home as yours, or allow sweeps to import the code of a folder.

    A home needs this if it was not created where it is now, for example a copy. Sweeps can then continue there.

    A sweep of your own model can be read only if you have run the model's module, or if you have allowed its folder.

    Examples:

      home trust results

      home trust my_models
    """
    if text := foreign_link_text(directory):
        raise UserError(text)
    echo(trust_directory(directory.resolve(), warn))


def sync_command(
    home: HomeOption = HOME,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Rebuild the home's MLflow store from the logs, and keep the old store.")
    ] = False,
    record: Annotated[str, as_in_run("record")] = "mlflow",
) -> None:
    """Write missing records, for example after an outage.

    By default, the records in MLflow are updated. With `--record jsonl`, the lines of runs.jsonl are.
    """
    from orchestrator.record import sync  # MLflow takes a second to import.

    if record not in RECORDS:
        raise unknown("record", record, RECORDS)
    if rebuild and record != "mlflow":
        raise UserError(f"--rebuild rebuilds MLflow's store: to write {LINES} again, delete it and run `sync`")
    if rebuild:
        sync.rebuild(home, Console())
    else:
        sync.sync(home, Console(), record)


def rm_command(
    sweep: OneSweep,
    home: HomeOption = HOME,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a sweep from disk and from its records in MLflow and runs.jsonl.

    Asks for confirmation. Runs that another sweep uses stay on disk, and `sync` records them again. An MLflow server
    keeps deleted records in its trash until `mlflow gc`.
    """
    place = Home(home.resolve())
    check_own(place.root)
    finished = finish_deletions(place)
    if sweep in finished and sweep not in place.sweep_ids():
        echo(f"deleted {sweep}: an earlier `rm` was interrupted after it had deleted the records and runs")
        return
    try:
        summary = open_summary(place, sweep)
    except UnreadableError as error:  # Even an unreadable sweep can be deleted.
        files = place.sweep(error.id)
        running = files.is_driven()
        freed = size_on_disk(directory_bytes(files.directory))
        lines = [f"{error}", f"{files.id}: {freed}"]
    else:
        for damage in summary.damage:
            warn(damage)
        files = place.sweep(summary.id)
        running = summary.is_running
        freed = size_on_disk(summary.disk_bytes)
        lines = [f"{files.id}: {summary.state}, {counted(summary.ended, 'run')}, {freed}", f"  {summary.words}"]
    if running:
        raise UserError(f"{files.id} is running: stop it first (`stop {files.id}`), then delete it")
    for line in lines:
        echo(line)
    if not yes and sys.stdin is None:  # Closed, as under some schedulers.
        raise UserError(f"{files.id} is deleted only if you confirm it: pass --yes")
    if not yes and not typer.confirm("Permanently delete it from disk and from its records?"):
        raise typer.Abort
    records = delete_sweep(files, warn)
    echo(f"deleted {files.id}: {freed} on disk, {records} records in MLflow")
