"""Looking at what is on disk: all sweeps, one sweep, one run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from orchestrator.commands.options import DEFAULT_HOME, Debug, HomeOption, SweepName
from orchestrator.errors import UserError

if TYPE_CHECKING:
    from orchestrator.catalogue.reading import StoredSweep

PIPED_WIDTH = 200
"""Columns where the output is not a terminal: a table in a file should not be folded for a screen."""
Json = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]


def sweeps_command(home: HomeOption = DEFAULT_HOME, json_: Json = False, debug: Debug = False) -> None:
    """List all sweeps: their state, what they found, their size on disk."""
    from orchestrator.catalogue.reading import read_sweep
    from orchestrator.catalogue.status import status_of
    from orchestrator.catalogue.views import sweeps_view
    from orchestrator.store.files import Home

    place = Home(home.resolve())
    sweeps = [read_sweep(place, sweep_id) for sweep_id in place.sweep_ids()]
    if json_:
        listed = [status_of(each).to_json() | {"disk_bytes": each.disk_bytes} for each in sweeps]
        typer.echo(json.dumps([{key: value for key, value in each.items() if key != "runs"} for each in listed]))
    elif sweeps:
        console = wide_console()
        console.print(sweeps_view(sweeps, console.width))
    else:
        typer.echo(f"{home} holds no sweep yet: `run NAME` makes one, --home names another place")


def status_command(
    sweep: SweepName = None,
    home: HomeOption = DEFAULT_HOME,
    runs: Annotated[bool, typer.Option("--runs", help="List every run, with the keys `logs` takes.")] = False,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Show how far a sweep is, and whether it is still running."""
    from orchestrator.catalogue.status import status_of
    from orchestrator.catalogue.views import status_view
    from orchestrator.terminal.bars import speaks_ascii

    status = status_of(open_sweep(sweep, home))
    if json_:
        typer.echo(json.dumps(status.to_json(), indent=1))
    else:
        console = wide_console()
        console.print(status_view(status, runs=runs, ascii_only=speaks_ascii(console)))


def logs_command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's key, or the beginning of it.")],
    home: HomeOption = DEFAULT_HOME,
    debug: Debug = False,
) -> None:
    """Show one run: its settings, its learning curve, and why it failed if it did."""
    from orchestrator.catalogue.lookup import find_run
    from orchestrator.catalogue.reading import read_sweep
    from orchestrator.catalogue.views import run_view
    from orchestrator.store.files import Home
    from orchestrator.terminal.bars import speaks_ascii

    place = Home(home.resolve())
    found = find_run(place, run)
    console = wide_console()
    console.print(run_view(read_sweep(place, found.sweeps[0]), found, ascii_only=speaks_ascii(console)))


def open_sweep(sweep: str | None, home: Path) -> StoredSweep:
    """The sweep of this name, without a name the newest one. Raises ``UserError``."""
    from orchestrator.catalogue.reading import read_sweep
    from orchestrator.store.files import Home

    place = Home(home.resolve())
    if sweep is None:
        ids = place.sweep_ids()
        if not ids:
            raise UserError(f"{home} holds no sweep yet: `run NAME` makes one, --home names another place")
        sweep = ids[0]
    return read_sweep(place, sweep)


def wide_console() -> Console:
    """A console that folds nothing where the output is not a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=PIPED_WIDTH)
