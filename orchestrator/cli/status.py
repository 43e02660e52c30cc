"""Looking at what is on disk: all sweeps, one sweep, one run."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from orchestrator.cli.options import Debug, HomeOption, SweepName
from orchestrator.errors import SweepError, UserError
from orchestrator.sweep.options import HOME

if TYPE_CHECKING:
    from rich.console import RenderableType

    from orchestrator.catalogue.reading import StoredSweep
    from orchestrator.catalogue.status import SweepStatus
    from orchestrator.home.files import Home

PIPED_WIDTH = 200
"""Columns where the output is not a terminal: a table in a file should not be folded for a screen."""
WATCH_EVERY_S = 5.0
Json = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]


def sweeps_command(
    home: HomeOption = HOME,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """List all sweeps: state, what they found, size on disk."""
    from orchestrator.catalogue.reading import StoredSweep, read_sweeps
    from orchestrator.catalogue.status import status_of, unreadable_json
    from orchestrator.catalogue.views import sweeps_view
    from orchestrator.home.bucket_home import home_words
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
        typer.echo(f"{home_words(home)} holds no sweep yet: `run NAME` makes one, --home names another place")


def status_command(
    sweep: SweepName = None,
    home: HomeOption = HOME,
    runs: Annotated[bool, typer.Option("--runs", help="List every run, with the keys `logs` takes.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it again every few seconds, until the sweep is over.")
    ] = False,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Show how far a sweep is, and whether it is still running.

    Examples:

      status                          the newest sweep

      status add_vs_add_prod --watch  that of a search space, again and again
    """
    from orchestrator.catalogue.status import status_of

    if watch and json_:
        raise UserError("--watch shows the status again and again, --json prints it once: give one of them")
    status = status_of(open_sweep(sweep, home))
    if json_:
        typer.echo(json.dumps(status.to_json(), indent=1))
    elif watch:
        _watch(status, home, runs=runs)
    else:
        console = wide_console()
        console.print(_view(status, console, runs=runs))


def _view(status: SweepStatus, console: Console, *, runs: bool) -> RenderableType:
    from orchestrator.catalogue.views import status_view
    from orchestrator.terminal.snapshot import speaks_ascii

    return status_view(status, runs=runs, ascii_only=speaks_ascii(console), width=console.width)


def _watch(status: SweepStatus, home: Path, *, runs: bool) -> None:
    """Show a sweep until nobody drives it any more: in place on a terminal, elsewhere one view after the other."""
    from rich.live import Live

    from orchestrator.catalogue.reading import State
    from orchestrator.catalogue.status import status_of

    console = wide_console()
    if not console.is_terminal:
        console.print(_view(status, console, runs=runs))
        while status.state is State.RUNNING:
            time.sleep(WATCH_EVERY_S)
            status = status_of(open_sweep(status.id, home))
            console.print(_view(status, console, runs=runs))
        return
    with Live(_view(status, console, runs=runs), console=console, auto_refresh=False) as live:
        while status.state is State.RUNNING:
            time.sleep(WATCH_EVERY_S)
            status = status_of(open_sweep(status.id, home))
            live.update(_view(status, console, runs=runs), refresh=True)


def logs_command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's key, or the beginning of it.")],
    home: HomeOption = HOME,
    debug: Debug = False,
) -> None:
    """Show one run: settings, learning curve, why it failed."""
    from orchestrator.catalogue.reading import find_run
    from orchestrator.catalogue.views import run_view
    from orchestrator.home.files import Home
    from orchestrator.terminal.snapshot import speaks_ascii

    console = wide_console()
    console.print(run_view(find_run(Home(home.resolve()), run), ascii_only=speaks_ascii(console)))


def open_sweep(sweep: str | None, home: Path) -> StoredSweep:
    """The sweep of this name, without a name the newest that can be read. What of its files cannot be read, and which
    newer sweeps were passed over, is said on stderr. Raises ``UserError``, and ``UnreadableError`` for one asked for by
    name."""
    from orchestrator.catalogue.reading import read_sweep
    from orchestrator.home.bucket_home import home_words
    from orchestrator.home.files import Home

    place = Home(home.resolve())
    if sweep is not None:
        found = read_sweep(place, sweep)
    else:
        ids = place.sweep_ids()
        if not ids:
            raise UserError(f"{home_words(home)} holds no sweep yet: `run NAME` makes one, --home names another place")
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
