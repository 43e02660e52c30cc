"""Results for others: a sweep's report, a comparison of several sweeps, tables for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.commands.looking import open_sweep, wide_console
from orchestrator.commands.options import DEFAULT_HOME, SWEEP_HELP, Debug, HomeOption, OneSweep
from orchestrator.errors import UserError

PICTURES = (".svg", ".png", ".pdf")


def report_command(
    sweep: OneSweep,
    output: Annotated[
        Path | None, typer.Option(help="The HTML file to write; by default SWEEP.html in the working directory.")
    ] = None,
    home: HomeOption = DEFAULT_HOME,
    debug: Debug = False,
) -> None:
    """Write what a sweep found as one self-contained HTML file."""
    from orchestrator.catalogue.reports import write_report

    stored = open_sweep(sweep, home)
    typer.echo(f"report  {write_report(stored, output or Path(f'{stored.id}.html'))}")


def compare_command(
    sweeps: Annotated[list[str], typer.Argument(metavar="SWEEP...", help=SWEEP_HELP)],
    output: Annotated[
        Path | None, typer.Option(help=f"Draw the comparison into this file ({', '.join(PICTURES)}).")
    ] = None,
    home: HomeOption = DEFAULT_HOME,
    debug: Debug = False,
) -> None:
    """Compare the transitions of sweeps, of one search space or of several."""
    if output is not None and output.suffix not in PICTURES:
        raise UserError(f"--output {str(output)!r}: a figure ends in {', '.join(PICTURES)}")
    from orchestrator.catalogue.reports import compared
    from orchestrator.catalogue.views import comparison_table

    stored = [open_sweep(each, home) for each in sweeps]
    found = compared(list({each.id: each for each in stored}.values()))
    wide_console().print(comparison_table(found))
    if output is not None:
        from orchestrator.report.forest import forest_figure
        from orchestrator.report.style import save

        typer.echo(f"figure  {save(forest_figure(found), output)}")


def export_command(
    sweep: OneSweep,
    output: Annotated[Path, typer.Option(help="The directory to create.")],
    home: HomeOption = DEFAULT_HOME,
    debug: Debug = False,
) -> None:
    """Write a sweep's runs, learning curves and transitions as Parquet and CSV."""
    from orchestrator.catalogue.export import export

    for path in export(open_sweep(sweep, home), output):
        typer.echo(path)
