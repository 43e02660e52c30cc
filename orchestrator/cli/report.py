"""Results for others: reports, figures, comparisons, tables, probes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.options import SWEEP_HELP, HomeOption, OneSweep, path_option
from orchestrator.cli.status import open_sweep, wide_console
from orchestrator.errors import SweepError, UserError
from orchestrator.sweep.run_options import HOME

if TYPE_CHECKING:
    from orchestrator.catalogue.reading import StoredSweep


PICTURES = (".svg", ".png", ".pdf")


def report_command(
    sweep: OneSweep,
    output: Annotated[
        Path | None, path_option("The HTML file to write; by default report.html in the sweep's directory.")
    ] = None,
    home: HomeOption = HOME,
) -> None:
    """Write what a sweep found as one self-contained HTML file."""
    from orchestrator.catalogue.export import write_report
    from orchestrator.home.sweeps import REPORT

    stored = open_sweep(sweep, home)
    typer.echo(f"report  {write_report(stored, output or stored.sweep.files.directory / REPORT)}")


def explain_command(sweep: OneSweep, home: HomeOption = HOME) -> None:
    """Explain in plain words what a sweep found and how sure it is.

    The last paragraph recommends what to run next.
    """
    from rich.text import Text

    from orchestrator.home.journal import State
    from orchestrator.report.words.explanation import explain
    from orchestrator.report.words.next_step import next_step

    stored, console = open_sweep(sweep, home), wide_console()
    console.print(Text(f"Sweep {stored.id}", style="bold"))
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
    width: Annotated[float, typer.Option(min=2.5, max=12, help="Width in inches; a paper's column is often 3.3.")] = 7,
    home: HomeOption = HOME,
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
    from orchestrator.catalogue.export import output_path

    if output is not None and output.suffix not in PICTURES:
        raise UserError(f"--output {str(output)!r}: the file's name must end in {', '.join(PICTURES)}")
    if output is not None:
        output_path(output)


def compare_command(
    sweeps: Annotated[list[str], typer.Argument(metavar="SWEEP...", help=SWEEP_HELP)],
    output: Annotated[Path | None, path_option(f"Draw the comparison into this file ({', '.join(PICTURES)}).")] = None,
    home: HomeOption = HOME,
) -> None:
    """Compare the transitions of several sweeps.

    A search space with variants stands for the newest sweep of each.

    Examples:

      compare add_vs_add_prod add_vs_add_nadd --output forest.svg

      compare modulus_scaling
    """
    from orchestrator.catalogue.lookup import find_variants
    from orchestrator.home.files import Home

    _check_picture(output)
    place = Home(home.resolve())
    ids = [sweep_id for given in sweeps for sweep_id in find_variants(place, given)]
    if twice := [sweep_id for sweep_id in dict.fromkeys(ids) if ids.count(sweep_id) > 1]:
        raise UserError(f"{twice[0]} was named twice: a sweep cannot be compared with itself")
    print_comparison([open_sweep(sweep_id, home) for sweep_id in ids], output)


def print_comparison(sweeps: Sequence[StoredSweep], output: Path | None = None) -> None:
    """Print transitions and, over variants that differ in a number, their growth. Draw into ``output``, if given."""
    from orchestrator.catalogue.export import compared
    from orchestrator.report.side_by_side import can_scale, scaling_words
    from orchestrator.report.table import comparison_view

    answers = compared(sweeps)
    kind = "variant" if all(entry.variant for entry in answers) else "sweep"
    wide_console().print(comparison_view(answers, kind))
    for sentence in scaling_words(answers) if can_scale(answers) else ():
        typer.echo(sentence)
    if output is not None:
        from orchestrator.report.figures.comparisons import forest_figure
        from orchestrator.report.figures.style import save

        typer.echo(f"figure  {save(forest_figure(answers), output)}")


def export_command(
    sweep: OneSweep,
    output: Annotated[Path, path_option("The directory to create.")],
    home: HomeOption = HOME,
) -> None:
    """Write runs, curves and transitions as Parquet and CSV."""
    from orchestrator.catalogue.export import export

    for path in export(open_sweep(sweep, home), output):
        typer.echo(path)


def probe_command(
    sweep: OneSweep,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="Names of probes, or package.module:Class; by default the sweep's."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Also probe runs that already have results.")] = False,
    home: HomeOption = HOME,
) -> None:
    """Run probes on the trained models of a sweep."""
    from orchestrator.engine.probing import probe_runs
    from trainables.probes.base import load_probe

    os.environ.setdefault("OMP_NUM_THREADS", "1")  # As in a stack: small models are slower with more threads.
    stored = open_sweep(sweep, home)
    names = names or list(stored.spec.probes)
    if not names:
        raise UserError(f"{stored.id} has no probes by default: name at least one")
    errors: list[str] = []
    for probe in [load_probe(name) for name in names]:
        result = probe_runs(probe, stored.spec, stored.runs, again=again)
        typer.echo(f"{probe.name}: {result.words}")
        errors += result.errors
    typer.echo(f"`report {stored.id}` shows the results; `sync` writes them to MLflow")
    if errors:
        raise SweepError(f"the probes failed {len(errors)} times; `logs RUN` shows each error. The first: {errors[0]}")
