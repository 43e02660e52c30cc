"""The record in MLflow: its page, and bringing it up to date."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer
from rich.console import Console

from orchestrator.cli.options import HomeOption
from orchestrator.errors import UserError
from orchestrator.sweep.run_options import HOME


def ui_command(
    home: HomeOption = HOME,
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port on this machine; MLflow's page gets the next free one.")
    ] = 5000,
) -> None:
    """Serve a page of all sweeps with answers, figures and reports, and MLflow's page."""
    from orchestrator.home.files import Home
    from orchestrator.record import store
    from orchestrator.record.mlflow_server import address, places, serve
    from orchestrator.site.pages import SweepPages
    from orchestrator.site.server import free_port, serving

    chosen = store.choose(home)
    if chosen.artifacts is None and chosen.uri.startswith("http"):
        typer.echo(f"The record is on the MLflow server at {chosen.shown}; open that page.")
        return
    if chosen.artifacts is not None and not (home / store.DATABASE).is_file():
        remedy = (
            "`sync` creates it from the sweeps" if Home(home).sweep_ids() else "run a sweep first, or name its --home"
        )
        raise UserError(f"there is no record in {str(home)!r} yet: {remedy}")
    store.check(chosen)
    mlflow_port = free_port(port + 1)
    pages = SweepPages(Home(home.resolve()), partial(places, chosen, mlflow_port))
    with serving(pages, port) as shown:
        typer.echo(f"Serving all sweeps at {shown}. Press Ctrl-C to stop.")
        typer.echo(f"MLflow's page on the record, in a few seconds: {address(mlflow_port)}")
        raise typer.Exit(serve(chosen, mlflow_port))


def sync_command(
    home: HomeOption = HOME,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Rebuild the home's store from the logs, and keep the old store.")
    ] = False,
) -> None:
    """Write records that MLflow is missing after an outage."""
    from orchestrator.record import sync

    (sync.rebuild if rebuild else sync.sync)(home, Console())
