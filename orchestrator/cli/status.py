"""Looking at what is on disk: all sweeps, one sweep, one run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from orchestrator.cli.options import Debug, HomeOption, SweepName
from orchestrator.errors import SweepError, UserError
from orchestrator.sweep.run_options import HOME

if TYPE_CHECKING:
    from orchestrator.catalogue.reading import StoredSweep
    from orchestrator.home.files import Home

PIPED_WIDTH = 200
"""Columns where the output is not a terminal: a table in a file should not be folded for a screen."""
Json = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]


def sweeps_command(
    home: HomeOption = HOME,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """List all sweeps: state, what they found, size on disk."""
    from orchestrator.catalogue.listings import sweeps_view
    from orchestrator.catalogue.reading import StoredSweep, read_sweeps
    from orchestrator.catalogue.status import status_of, unreadable_json
    from orchestrator.home.files import Home
    from orchestrator.home.sweeps import Unreadable

    sweeps = read_sweeps(Home(home.resolve()))
    if json_:
        listed = [
            status_of(each).to_json() if isinstance(each, StoredSweep) else unreadable_json(each) for each in sweeps
        ]
        sizes = [{} if isinstance(each, Unreadable) else {"disk_bytes": each.disk_bytes} for each in sweeps]
        plain = [{key: said for key, said in each.items() if key != "runs"} for each in listed]
        typer.echo(json.dumps([each | size for each, size in zip(plain, sizes, strict=True)]))
    elif sweeps:
        console = wide_console()
        console.print(sweeps_view(sweeps, console.width))
    else:
        typer.echo(f"{home} holds no sweep yet: `run NAME` makes one, --home names another place")


def status_command(
    sweep: SweepName = None,
    home: HomeOption = HOME,
    runs: Annotated[bool, typer.Option("--runs", help="List every run, with the keys `logs` takes.")] = False,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Show how far a sweep is, and whether it is still running.

    Without a name it is the newest one.
    """
    from orchestrator.catalogue.listings import status_view
    from orchestrator.catalogue.status import status_of

    status = status_of(open_sweep(sweep, home))
    if json_:
        typer.echo(json.dumps(status.to_json(), indent=1))
    else:
        console = wide_console()
        console.print(status_view(status, runs=runs, width=console.width))


def logs_command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's key, or the beginning of it.")],
    home: HomeOption = HOME,
    debug: Debug = False,
) -> None:
    """Show one run: settings, learning curve, why it failed."""
    from orchestrator.catalogue.listings import run_view
    from orchestrator.catalogue.reading import find_run
    from orchestrator.home.files import Home

    wide_console().print(run_view(*find_run(Home(home.resolve()), run)))


def open_sweep(sweep: str | None, home: Path) -> StoredSweep:
    """The sweep of this name, without a name the newest that can be read. What of its files cannot be read, and which
    newer sweeps were passed over, is said on stderr. Raises ``UserError``, and ``UnreadableError`` for one asked for by
    name."""
    from orchestrator.catalogue.reading import read_sweep
    from orchestrator.home.files import Home

    place = Home(home.resolve())
    if sweep is not None:
        found = read_sweep(place, sweep)
    else:
        ids = place.sweep_ids()
        if not ids:
            raise UserError(f"{home} holds no sweep yet: `run NAME` makes one, --home names another place")
        found = _newest(place, ids)
    for said in found.damage:
        warn(said)
    return found


def _newest(place: Home, ids: list[str]) -> StoredSweep:
    """The first of these sweeps that can be read."""
    from orchestrator.catalogue.reading import read_sweep
    from orchestrator.home.sweeps import UnreadableError

    for sweep_id in ids:
        try:
            return read_sweep(place, sweep_id)
        except UnreadableError as error:
            warn(f"passed over: {error}")
    raise SweepError(f"no sweep in {place.root} can be read; `sweeps` says why of each")


def warn(text: str) -> None:
    """Say on stderr what does not stop a command."""
    typer.echo(f"warning: {text}", err=True)


def wide_console() -> Console:
    """A console that folds nothing where the output is not a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=PIPED_WIDTH)
