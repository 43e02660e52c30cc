"""Looking inside the trained models of a sweep that are there already."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.commands.looking import open_sweep
from orchestrator.commands.options import DEFAULT_HOME, Debug, HomeOption, OneSweep
from orchestrator.errors import SweepError, UserError

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
    home: HomeOption = DEFAULT_HOME,
    debug: Debug = False,
) -> None:
    """Run probes on the trained models of a sweep, from what its runs left."""
    stored = open_sweep(sweep, home)
    wanted = names or list(stored.spec.probes)
    if not wanted:
        raise UserError(f"{stored.id} names no probes, so there is none to run by default: name one")
    probes = [_load(name) for name in wanted]
    errors = [error for probe in probes for error in _run(probe, stored, home, again=again)]
    typer.echo(f"`report {stored.id}` shows them; `sync {stored.id}` brings them into MLflow")
    if errors:
        raise SweepError(f"{len(errors)} results are errors, which `logs RUN` shows; the first: {errors[0]}")


def _run(probe: Probe, stored: StoredSweep, home: Path, *, again: bool) -> list[str]:
    """Run a probe on every run that lacks it, and say how it went; the errors, a line each."""
    from orchestrator.engine.probing import run_probe
    from orchestrator.store.probed import is_due
    from orchestrator.store.scratch import scratch
    from trainables.base import Status

    family, data = stored.spec.make_family(), scratch(stored.spec.resources.scratch)
    counts: Counter[str] = Counter()
    errors = []
    for run in stored.runs:
        if run.outcome.status is not Status.FINISHED:
            counts["not finished"] += 1
        elif not again and not is_due(probe, run.directory):
            counts["there already"] += 1
        else:
            result = run_probe(probe, family, run.config, run.runs, run.key, data)
            counts["failed" if result.error else "probed"] += 1
            errors += [f"{run.key}: {result.reason}"] if result.error else []
    said = ", ".join(f"{count} {word}" for word, count in counts.items()) or "there is no run yet"
    typer.echo(f"{probe.name}: {said}")
    return errors


def _load(name: str) -> Probe:
    from orchestrator.space.validation import explain
    from trainables.base import SettingsError
    from trainables.probes.base import load_probe

    try:
        return load_probe(name)
    except SettingsError as error:
        raise UserError(explain(error)) from error
