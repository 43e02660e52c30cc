"""The state on disk: all sweeps, one sweep, one run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from orchestrator.cli.options import HomeOption, SweepName
from orchestrator.errors import SweepError, UserError
from orchestrator.sweep.run_options import HOME

if TYPE_CHECKING:
    from orchestrator.catalogue.reading import StoredSweep
    from orchestrator.home.files import Home

PIPED_WIDTH = 200
"""Columns if the output is not a terminal, so that tables do not wrap."""
Json = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]


def sweeps_command(
    home: HomeOption = HOME,
    json_: Json = False,
) -> None:
    """List all sweeps: state, findings, size on disk."""
    from orchestrator.catalogue.listings import sweeps_view
    from orchestrator.catalogue.reading import read_sweeps
    from orchestrator.catalogue.status import status_json
    from orchestrator.home.files import Home
    from orchestrator.home.sweeps import Unreadable

    sweeps = read_sweeps(Home(home.resolve()))
    if json_:
        values = [
            {"id": sweep.id, "state": "unreadable", "why": sweep.why}
            if isinstance(sweep, Unreadable)
            else {key: value for key, value in status_json(sweep).items() if key != "runs"}
            for sweep in sweeps
        ]
        typer.echo(json.dumps(values))
    elif sweeps:
        wide_console().print(sweeps_view(sweeps))
    else:
        typer.echo(_no_sweep(home))


def status_command(
    sweep: SweepName = None,
    home: HomeOption = HOME,
    runs: Annotated[bool, typer.Option("--runs", help="List every run with its key, for `logs`.")] = False,
    json_: Json = False,
) -> None:
    """Show the progress of a sweep (by default the newest), and whether it is still running."""
    from orchestrator.catalogue.listings import status_view
    from orchestrator.catalogue.status import status_json

    stored = open_sweep(sweep, home)
    if json_:
        typer.echo(json.dumps(status_json(stored), indent=1))
    else:
        wide_console().print(status_view(stored, runs=runs))


def logs_command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's key or its beginning.")],
    home: HomeOption = HOME,
) -> None:
    """Show one run: settings, learning curve, traceback."""
    from orchestrator.catalogue.listings import run_view
    from orchestrator.catalogue.reading import find_run
    from orchestrator.home.files import Home

    wide_console().print(run_view(*find_run(Home(home.resolve()), run)))


def open_sweep(sweep: str | None, home: Path) -> StoredSweep:
    """Return the sweep of this name, or the newest readable sweep. Print damaged files and skipped sweeps on stderr.

    Raises ``UserError``, or ``UnreadableError`` for a named sweep that cannot be read.
    """
    from orchestrator.catalogue.reading import read_sweep
    from orchestrator.home.files import Home

    place = Home(home.resolve())
    if sweep is not None:
        stored = read_sweep(place, sweep)
    else:
        ids = place.sweep_ids()
        if not ids:
            raise UserError(_no_sweep(home))
        stored = _newest(place, ids)
    for damage in stored.damage:
        warn(damage)
    return stored


def _newest(place: Home, ids: list[str]) -> StoredSweep:
    """Return the first of these sweeps that can be read."""
    from orchestrator.catalogue.reading import read_sweep
    from orchestrator.home.sweeps import UnreadableError

    for sweep_id in ids:
        try:
            return read_sweep(place, sweep_id)
        except UnreadableError as error:
            warn(f"skipped: {error}")
    raise SweepError(f"no sweep in {place.root} can be read; `sweeps` lists the reasons")


def _no_sweep(home: Path) -> str:
    return f"{home} has no sweep yet: start one with `run NAME`, or name another --home"


def warn(text: str) -> None:
    """Print a problem on stderr that does not stop the command."""
    typer.echo(f"warning: {text}", err=True)


def wide_console() -> Console:
    """Return a console that does not fold lines unless the output is a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=PIPED_WIDTH)
