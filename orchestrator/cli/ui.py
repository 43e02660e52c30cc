"""The record in MLflow: open its page, and bring it up to date."""

from __future__ import annotations

import socket
from typing import Annotated

import typer
from rich.console import Console

from orchestrator.cli.options import Debug, HomeOption
from orchestrator.errors import UserError
from orchestrator.sweep.options import HOME


def ui_command(
    home: HomeOption = HOME,
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
    from orchestrator.home.files import Home
    from orchestrator.record import store
    from orchestrator.record.page import address, serve
    from orchestrator.site.server import WATCH_REFRESH_S, free_port, new_token, serving
    from orchestrator.site.sweeps import REFRESH_S, SweepPages, record_links

    chosen = store.choose(home)
    if chosen.artifacts is None and chosen.uri.startswith("http"):
        typer.echo(f"The record is kept by the MLflow server at {chosen.shown}; open that page.")
        return
    if chosen.artifacts is not None and not (home / store.DATABASE).is_file():
        raise UserError(f"there is no record in {str(home)!r} yet: run a sweep first, or name its --home")
    _check_free(port)
    store.check(chosen)
    beside = mlflow_port or free_port(port + 1)
    refresh_s = WATCH_REFRESH_S if steer else REFRESH_S
    pages = SweepPages(Home(home.resolve()), record_links(chosen, beside), refresh_s=refresh_s)
    with serving(pages, port, new_token() if steer else "") as shown:
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
    sweeps: Annotated[
        list[str] | None, typer.Argument(help="Ids of sweeps; without any, all sweeps of the home.")
    ] = None,
    home: HomeOption = HOME,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Make the home's store again from the logs; the former one is kept.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Write to MLflow what an outage kept out of it."""
    from orchestrator.record import sync

    if rebuild and sweeps:
        raise UserError("--rebuild makes the whole store again: leave out the ids of sweeps, or --rebuild")
    if rebuild:
        sync.rebuild(home, Console())
    else:
        sync.sync(home, sweeps or (), Console())
