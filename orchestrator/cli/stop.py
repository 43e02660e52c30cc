"""Stopping what another process runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.options import Debug, HomeOption, OneSweep
from orchestrator.cli.status import open_sweep
from orchestrator.errors import UserError
from orchestrator.sweep.options import HOME

if TYPE_CHECKING:
    from orchestrator.catalogue.reading import StoredSweep


def stop_command(
    sweep: OneSweep,
    mix: Annotated[str | None, typer.Option(help="Stop this mix alone; the sweep goes on with the others.")] = None,
    run: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Stop this run alone (its key or the beginning of it): it has failed."),
    ] = None,
    home: HomeOption = HOME,
    debug: Debug = False,
) -> None:
    """Stop a sweep that runs elsewhere, as Ctrl-C there would, or one of its mixes or runs; what ended of it stays.

    Examples:

      stop add_vs_add_prod                  the newest sweep of this space; run ... --resume goes on

      stop add_vs_add_prod --mix add+prod   no more runs of this mix; the answer says that it was stopped by hand
    """
    from orchestrator.home.notes import StopRequest, ask_to_stop

    if mix is not None and run is not None:
        raise UserError("--mix stops all runs of a mix and --run one run: give one of them")
    stored = open_sweep(sweep, home)
    request = StopRequest(mix or "", "" if run is None else _key(stored, run))
    ask_to_stop(stored.sweep, request)
    typer.echo(f"{stored.id} was asked to stop {request}: it does when a stack comes to its next evaluation")


def _key(stored: StoredSweep, given: str) -> str:
    """The key of the run in training that this begins. Raises ``UserError``."""
    training = [run.key for run in stored.training]
    fitting = [key for key in training if given and key.startswith(given)]
    if len(fitting) == 1:
        return fitting[0]
    why = f"fits {len(fitting)} runs in training" if fitting else "is no run in training"
    listed = ", ".join(fitting or training) or "none"
    raise UserError(f"{given!r} {why} of {stored.id}. In training: {listed}.")
