"""The record in MLflow: open its page, and bring it up to date."""

from __future__ import annotations

import socket
from typing import Annotated

import typer
from rich.console import Console

from orchestrator.commands.options import DEFAULT_HOME, Debug, HomeOption
from orchestrator.errors import UserError


def ui_command(
    home: HomeOption = DEFAULT_HOME,
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port on this machine; not reachable from others.")
    ] = 5000,
    mlflow_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of MLflow's page; by default the next one that is free.")
    ] = None,
    steer: Annotated[
        bool,
        typer.Option(
            "--steer", help="Let who has the page's address, with a secret in it then, stop and resume sweeps."
        ),
    ] = False,
    debug: Debug = False,
) -> None:
    """Serve a page of all sweeps: their answers, figures and reports, with links into MLflow's page beside it."""
    from orchestrator.report.index import REFRESH_S
    from orchestrator.site import watching
    from orchestrator.site.beside import free_port, shelf_of
    from orchestrator.site.server import new_token, serving
    from orchestrator.store.files import Home
    from orchestrator.tracking import store
    from orchestrator.tracking.interrupted import mark_home
    from orchestrator.tracking.opening import opened
    from orchestrator.tracking.page import address, serve

    chosen = store.choose(home)
    if chosen.artifacts is None and chosen.uri.startswith("http"):
        typer.echo(f"The record is kept by the MLflow server at {chosen.shown}; open that page.")
        return
    if chosen.artifacts is not None and not (home / store.DATABASE).is_file():
        raise UserError(f"there is no record in {str(home)!r} yet: run a sweep first, or name its --home")
    _check_free(port)
    chosen = opened(home, typer.echo)
    for died in mark_home(chosen, Home(home.resolve())):
        typer.echo(f"{died} is marked as interrupted: nothing drives it any more; `run ... --resume {died}` goes on")
    beside = mlflow_port or free_port(port + 1)
    shelf = shelf_of(home, chosen, beside, refresh_s=watching.REFRESH_S if steer else REFRESH_S)
    with serving(shelf, port, new_token() if steer else "") as shown:
        typer.echo(f"All sweeps with their answers: {shown} until you press Ctrl-C.")
        typer.echo(f"MLflow's page on the record, in some seconds: {address(beside)}")
        raise typer.Exit(serve(chosen, beside))


def _check_free(port: int) -> None:
    """Raise ``UserError`` where something listens at a port already, perhaps the page of another home."""
    if not _is_free(port):
        other = next((each for each in range(port + 1, min(port + 100, 65535)) if _is_free(each)), None)
        hint = f": --port {other} is free" if other is not None else ""
        raise UserError(f"port {port} of this machine is taken, perhaps by another `ui`{hint}")


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # As a server does: not what has just been closed.
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def sync_command(
    sweep: Annotated[str | None, typer.Argument(help="A sweep's id; without one, all sweeps of the home.")] = None,
    home: HomeOption = DEFAULT_HOME,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make the home's store anew from the journals; the former one is kept.")
    ] = False,
    skip_unreadable: Annotated[
        bool, typer.Option("--skip-unreadable", help="With --rebuild: leave out the sweeps that cannot be read.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Write to MLflow what is missing there after an outage."""
    from orchestrator.tracking import sync

    if rebuild and sweep is not None:
        raise UserError("--rebuild makes the whole store anew: leave the sweep's id out, or --rebuild")
    if skip_unreadable and not rebuild:
        raise UserError("--skip-unreadable goes with --rebuild: without it every sweep that can be read is recorded")
    if rebuild:
        sync.rebuild(home, Console(), skip_unreadable=skip_unreadable)
    else:
        sync.sync(home, sweep, Console())
