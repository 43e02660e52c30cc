"""Looking inside the trained models of a sweep that are there already."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.options import Debug, HomeOption, OneSweep
from orchestrator.cli.status import open_sweep
from orchestrator.errors import SweepError, UserError
from orchestrator.sweep.options import HOME

if TYPE_CHECKING:
    from orchestrator.catalogue.reading import StoredSweep
    from trainables.probes.base import Probe


def probe_command(
    sweep: OneSweep,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Probes, or package.module:Class; by default the sweep's own."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Also where there is a result already.")] = False,
    home: HomeOption = HOME,
    debug: Debug = False,
) -> None:
    """Run probes on the trained models of a sweep, from what its runs left."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # As a stack has by default: small models are slower with more.
    stored = open_sweep(sweep, home)
    wanted = names or list(stored.spec.probes)
    if not wanted:
        raise UserError(f"{stored.id} names no probes, so there is none to run by default: name one")
    probes = [_load(name) for name in wanted]
    errors = [error for probe in probes for error in _run(probe, stored, again=again)]
    typer.echo(f"`report {stored.id}` shows them; `sync {stored.id}` brings them into MLflow")
    if errors:
        raise SweepError(f"{len(errors)} results are errors, which `logs RUN` shows; the first: {errors[0]}")


def _run(probe: Probe, stored: StoredSweep, *, again: bool) -> list[str]:
    """Run a probe on every run that lacks it, and say how it went; the errors, a line each."""
    from orchestrator.sweep.probing import probe_runs

    found = probe_runs(probe, stored, again=again)
    typer.echo(f"{probe.name}: {found.words}")
    return found.errors


def _load(name: str) -> Probe:
    from orchestrator.space.validation import explain
    from trainables.base import SettingsError
    from trainables.probes.base import load_probe

    try:
        return load_probe(name)
    except SettingsError as error:
        raise UserError(explain(error)) from error
