"""Results for others: a sweep's report, a comparison of several sweeps, tables for other programs, probes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.options import SWEEP_HELP, Debug, HomeOption, OneSweep, path_option
from orchestrator.cli.status import open_sweep, wide_console
from orchestrator.errors import SweepError, UserError
from orchestrator.sweep.run_options import HOME

if TYPE_CHECKING:
    from orchestrator.catalogue.reading import StoredSweep
    from trainables.probes.base import Probe


PICTURES = (".svg", ".png", ".pdf")


def report_command(
    sweep: OneSweep,
    output: Annotated[
        Path | None, path_option("The HTML file to write; by default report.html in the sweep's directory.")
    ] = None,
    home: HomeOption = HOME,
    debug: Debug = False,
) -> None:
    """Write what a sweep found as one self-contained HTML file."""
    from orchestrator.catalogue.export import write_report
    from orchestrator.home.sweeps import REPORT

    stored = open_sweep(sweep, home)
    typer.echo(f"report  {write_report(stored, output or stored.sweep.files.directory / REPORT)}")


def explain_command(sweep: OneSweep, home: HomeOption = HOME, debug: Debug = False) -> None:
    """Say in plain words what a sweep found and how sure it is.

    The last paragraph says what to run next.
    """
    from rich.text import Text

    from orchestrator.home.journal import State
    from orchestrator.report.words.explanation import explain
    from orchestrator.report.words.next_step import next_step

    stored, console = open_sweep(sweep, home), wide_console()
    for paragraph in explain(stored.spec, stored.answer, stored.state.value):
        console.print(Text(str(paragraph)))
    step = next_step(stored.spec, stored.answer)
    if stored.state is State.INTERRUPTED:
        console.print(Text(f"  {stored.resumed}"), soft_wrap=True)
    elif stored.state is not State.RUNNING and step is not None and step.overrides:
        console.print(Text(f"  {stored.command(step)}"), soft_wrap=True)


def figure_command(
    sweep: OneSweep,
    output: Annotated[
        Path | None,
        path_option(f"The file to write ({', '.join(PICTURES)}); by default figure.pdf in the sweep's directory."),
    ] = None,
    width: Annotated[
        float, typer.Option(min=2.5, max=12, help="How wide, in inches; a paper's column is often 3.3.")
    ] = 7,
    home: HomeOption = HOME,
    debug: Debug = False,
) -> None:
    """Draw a sweep's figure for a paper, and print its caption.

    Examples:

      figure add_vs_add_prod --width 3.3

      figure add_vs_add_prod --output figure.png
    """
    from orchestrator.report.figures import paper
    from orchestrator.report.figures.style import save

    _check_picture(output)
    stored = open_sweep(sweep, home)
    path = output or stored.sweep.files.directory / "figure.pdf"
    typer.echo(f"figure  {save(paper.paper_figure(stored.spec, stored.answer, width), path)}")
    typer.echo(f"\n{paper.caption(stored.sweep, stored.answer)}")


def _check_picture(output: Path | None) -> None:
    """Raise ``UserError`` for a file that no figure can be written to."""
    from orchestrator.catalogue.export import output_path

    if output is not None and output.suffix not in PICTURES:
        raise UserError(f"--output {str(output)!r}: a figure ends in {', '.join(PICTURES)}")
    if output is not None:
        output_path(output)


def compare_command(
    sweeps: Annotated[list[str], typer.Argument(metavar="SWEEP...", help=SWEEP_HELP)],
    output: Annotated[Path | None, path_option(f"Draw the comparison into this file ({', '.join(PICTURES)}).")] = None,
    home: HomeOption = HOME,
    debug: Debug = False,
) -> None:
    """Compare the transitions of several sweeps.

    Of a search space with variants it compares those of each.

    Examples:

      compare add_vs_add_prod add_vs_add_nadd --output forest.svg

      compare modulus_scaling
    """
    from orchestrator.catalogue.lookup import find_variants
    from orchestrator.home.files import Home

    _check_picture(output)
    place = Home(home.resolve())
    ids = [each for given in sweeps for each in find_variants(place, given)]
    if twice := [each for each in dict.fromkeys(ids) if ids.count(each) > 1]:
        raise UserError(f"{twice[0]} was named twice: a sweep is not compared with itself")
    print_comparison([open_sweep(each, home) for each in ids], output)


def print_comparison(sweeps: Sequence[StoredSweep], output: Path | None = None) -> None:
    """Print transitions side by side, and how they move where the sweeps are variants that differ in a number. The
    figure goes to ``output``, where one is given."""
    from orchestrator.catalogue.export import compared
    from orchestrator.report.side_by_side import can_scale, scaling_words
    from orchestrator.report.table import comparison_view

    found = compared(sweeps)
    console = wide_console()
    what = "variant" if all(each.variant for each in found) else "sweep"
    console.print(comparison_view(found, what))
    for said in scaling_words(found) if can_scale(found) else ():
        typer.echo(said)
    if output is not None:
        from orchestrator.report.figures.comparisons import forest_figure
        from orchestrator.report.figures.style import save

        typer.echo(f"figure  {save(forest_figure(found), output)}")


def export_command(
    sweep: OneSweep,
    output: Annotated[Path, path_option("The directory to create.")],
    home: HomeOption = HOME,
    debug: Debug = False,
) -> None:
    """Write runs, curves and transitions as Parquet and CSV."""
    from orchestrator.catalogue.export import export

    for path in export(open_sweep(sweep, home), output):
        typer.echo(path)


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
    """Run probes on the trained models of a sweep."""
    from trainables.probes.base import load_probe

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # As a stack has by default: small models are slower with more.
    stored = open_sweep(sweep, home)
    wanted = names or list(stored.spec.probes)
    if not wanted:
        raise UserError(f"{stored.id} names no probes, so there is none to run by default: name one")
    probes = [load_probe(name) for name in wanted]
    errors = [error for probe in probes for error in _run(probe, stored, again=again)]
    typer.echo(f"`report {stored.id}` shows them; `sync` brings them into MLflow")
    if errors:
        raise SweepError(f"{len(errors)} results are errors, which `logs RUN` shows; the first: {errors[0]}")


def _run(probe: Probe, stored: StoredSweep, *, again: bool) -> list[str]:
    """Run a probe on every run that lacks it, and say how it went; the errors, a line each."""
    from orchestrator.engine.probing import probe_runs

    found = probe_runs(probe, stored.spec, stored.runs, again=again)
    typer.echo(f"{probe.name}: {found.words}")
    return found.errors
