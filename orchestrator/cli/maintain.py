"""Homes and the record in MLflow: copy, bring up to date, delete."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Annotated, Literal

import typer

from orchestrator.catalog.export import output_path
from orchestrator.catalog.reading import space_of
from orchestrator.catalog.summary_cache import forget, open_summary
from orchestrator.cli.options import HomeOption, OneSweep, as_in_run, warn
from orchestrator.history.archive import export_home, import_home
from orchestrator.history.sweeps import UnreadableError
from orchestrator.home.directories import LINES, Home, SweepDirectory
from orchestrator.home.ownership import check_own, homes_list, is_home, trust_home
from orchestrator.home.run_files import directory_bytes
from orchestrator.home.run_store import RunStore
from orchestrator.home.trusted_code import is_in_sweep, list_path, trust
from orchestrator.record import mlflow_store
from orchestrator.record.json_lines import remove_lines
from orchestrator.record.tracker import StoreError
from orchestrator.sweep.run_options import RECORDS
from orchestrator.system.commands import command_line
from orchestrator.system.did_you_mean import unknown
from orchestrator.system.environment import HOME
from orchestrator.system.errors import SweepError, UserError
from orchestrator.system.files import entries, is_directory, opened_directory
from orchestrator.system.permissions import closing_words, open_words, writable_by_others
from orchestrator.system.printing import Console, echo
from orchestrator.system.text import counted, size_on_disk

REMOVED = ".removed-"
"""Beginning of the name of a sweep's directory while it is deleted."""


def home_command(
    action: Annotated[
        Literal["export", "import", "trust"],
        typer.Argument(metavar="export|import|trust", help="Write the file, read it, or trust a directory."),
    ],
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The file, such as home.tar.gz, or the directory.")],
    home: HomeOption = HOME,
    mine: Annotated[
        bool, typer.Option("--mine", help="With import: the file is yours, so its sweeps are not shown as imported.")
    ] = False,
) -> None:
    """Copy a home to a file, or a file into a home. Or trust a home, or a folder of code.

    The file contains runs, sweeps and checkpoints, but no code. `sync` records them in MLflow. Runs are merged by key,
    so a file can be imported twice. `run ... --resume` continues a stopped sweep. Imported sweeps are shown as
    imported, and so are their runs in sweeps that reuse them, unless you say that the file is yours (--mine).

    `trust` marks a home as yours if it was not created where it is now, for example a copy. Sweeps can then continue
    there. For any other folder, `trust` allows sweeps to import its code. A sweep of your own model can be read only
    if you have run the model's module, or if you have allowed its folder.

    Examples:

      home export home.tar.gz

      home import home.tar.gz --home results

      home import from_my_cluster.tar.gz --mine

      home trust results

      home trust my_models
    """
    place = Home(home.resolve())
    if mine and action != "import":
        raise UserError(f"--mine applies only to `home import`: leave it out of `home {action}`")
    if action == "trust":
        echo(_trust(path.resolve()))
        return
    if action == "export":
        written = export_home(place, output_path(path))
        size = size_on_disk(path.stat().st_size)
        echo(f"wrote {path}: {counted(written.sweeps, 'sweep')}, {counted(written.runs, 'run')}, {size}")
        return
    read = import_home(place, path, warn, mine=mine)
    own = " as your own" if mine else ""
    echo(f"imported {counted(read.sweeps, 'sweep')} and {counted(read.runs, 'run')} into {place.root}{own}")
    if read.runs or read.sweeps:
        echo(f"next: {command_line('sync', '--home', place.root)}, to record them in MLflow")


def _trust(folder: Path) -> str:
    """List a home as this user's own, or allow sweeps to import code from any other folder. Return a message about it.
    Raises :class:`UserError` for a folder that would be refused."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a directory: name a home, or a folder with the module of a family")
    if is_home(folder) or not any(folder.iterdir()):  # An empty directory has no code, and can become a home.
        if warning := trust_home(folder):
            warn(warning)
        return f"{folder} is now listed as your home in {homes_list()}. Sweeps import no code from it"
    if is_in_sweep(folder):
        raise UserError(f"{folder} is part of a home, from which no code is imported: copy the code elsewhere")
    if open_place := writable_by_others(folder):
        remedy = closing_words(open_place, "move the code to a folder of yours")
        raise UserError(f"{open_words(open_place)}, so it is not imported from: {remedy}")
    trust(folder)
    return f"sweeps may now import code from {folder}; {list_path()} lists all such folders"


def sync_command(
    home: HomeOption = HOME,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Rebuild the home's MLflow store from the logs, and keep the old store.")
    ] = False,
    record: Annotated[str, as_in_run("record")] = "mlflow",
) -> None:
    """Write missing records, for example after an outage.

    By default, they are those in MLflow. With `--record jsonl`, they are the lines of runs.jsonl.
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
    """Delete a sweep from disk and from its records, in MLflow and runs.jsonl, after asking.

    Runs that another sweep uses stay on disk; `sync` records them again. An MLflow server keeps deleted records in its
    trash until `mlflow gc`.
    """
    place = Home(home.resolve())
    check_own(place.root)
    finished = _finish_deletions(place)
    if sweep in finished and sweep not in place.sweep_ids():
        echo(f"deleted {sweep}: an earlier `rm` was interrupted after it had removed the records and runs")
        return
    try:
        summary = open_summary(place, sweep)
    except UnreadableError as error:  # An unreadable sweep can still be deleted.
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
    if not yes and not typer.confirm("Permanently delete it from disk and from its records?"):
        raise typer.Abort
    records = _delete(files, home)
    echo(f"deleted {files.id}: {freed} on disk, {records} records in MLflow")


def _finish_deletions(home: Home) -> list[str]:
    """Delete what interrupted deletions left, and return the ids of the sweeps. Nothing is deleted through a link."""
    home.check_links()
    left = [path.name for path in entries(home.root / "sweeps") if path.name.startswith(REMOVED) and is_directory(path)]
    if left:
        with opened_directory(home.root / "sweeps") as sweeps:
            for name in left:
                shutil.rmtree(name, dir_fd=sweeps)
    return [name.removeprefix(REMOVED) for name in left]


def _delete(files: SweepDirectory, home: Path) -> int:
    """Delete the record, then the files. Return the number of records. An interrupted deletion can be repeated."""
    from orchestrator.record.mlflow_tracker import remove_sweep

    chosen = mlflow_store.choose(home)
    # On a server, the records of this id may be those of the sweep's author.
    is_asked = chosen.database is not None or not files.is_imported
    if is_asked:
        mlflow_store.check(chosen)
    else:
        warn(f"{files.id} came with an archive, so its records on {chosen.shown} stay: they may be its author's")
    with files.driving(), opened_directory(files.directory.parent) as sweeps:
        try:
            records = remove_sweep(chosen, space_of(files.id), files.id) if is_asked else 0
            remove_lines(files.home.root / LINES, files.id)
        except StoreError as error:
            raise SweepError(f"nothing was deleted from disk: {error}") from error
        runs = RunStore(files.home, files.id)
        with runs.locked():
            runs.remove_own()
            aside = f"{REMOVED}{files.id}"
            os.rename(files.id, aside, src_dir_fd=sweeps, dst_dir_fd=sweeps)  # Readers no longer find it.
            forget(files)
        shutil.rmtree(aside, dir_fd=sweeps)
    return records
