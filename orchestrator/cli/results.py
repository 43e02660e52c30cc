"""Commands that show results: sweeps, runs, reports, figures, comparisons, tables, probes, pages."""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.text import Text

from orchestrator.catalog import export
from orchestrator.catalog.answer_file import read_answer
from orchestrator.catalog.listings import run_view, status_view, sweeps_view
from orchestrator.catalog.pooled import PooledSweeps, pool
from orchestrator.catalog.reading import StoredSweep, find_run, find_sweep, find_variants, no_sweep
from orchestrator.catalog.retraining import retrained_differences, with_own_script
from orchestrator.catalog.summary import run_rows, status_json
from orchestrator.catalog.summary_cache import keep, open_summary, read_summaries
from orchestrator.catalog.verified_answer import VerifiedAnswer, check
from orchestrator.cli.options import (
    SWEEP_HELP,
    HomeOption,
    Json,
    NewestSweep,
    OneSweep,
    open_home,
    open_sweep,
    open_sweeps,
    path_option,
    warn,
    wide_console,
)
from orchestrator.forecast.cost_estimate import run_seconds
from orchestrator.history.other_code import different_code_notes
from orchestrator.history.sweeps import UnreadableError
from orchestrator.home.directories import Home
from orchestrator.home.ownership import check_own, why_foreign
from orchestrator.jobs.state import State
from orchestrator.record import mlflow_store
from orchestrator.report.answer_table import comparison_view, render
from orchestrator.report.sentences.explanation import explain
from orchestrator.report.sentences.next_step import next_step
from orchestrator.report.sentences.origin import imported_text, origin_line
from orchestrator.report.side_by_side import can_scale, scaling_text
from orchestrator.space.spaces import open_space
from orchestrator.sweep.probe_stored_runs import probe_runs, say_unknown_files
from orchestrator.system import environment
from orchestrator.system.commands import DISTRIBUTION, command_line
from orchestrator.system.environment import HOME, user_path
from orchestrator.system.errors import SweepError, UserError
from orchestrator.system.files import replace_whole, write_whole
from orchestrator.system.permissions import sharing_text
from orchestrator.system.printing import echo
from orchestrator.system.text import counted, rough_duration
from trainables.probes.base import load_probe

PICTURES = (".svg", ".png", ".pdf")
"""Suffixes of files that figures can be written to."""


def sweeps_command(
    home: HomeOption = HOME,
    state: Annotated[State | None, typer.Option(help="List only the sweeps in this state.")] = None,
    json_: Json = False,
) -> None:
    """List all sweeps: state, findings, size on disk."""
    place = open_home(home)
    sweeps = read_summaries(place)
    if state is not None:  # The state of an unreadable sweep is not known.
        sweeps = [sweep for sweep in sweeps if not isinstance(sweep, UnreadableError) and sweep.state == state.value]
    if json_:
        values = [
            {"id": sweep.id, "state": "unreadable", "why": sweep.why, "imported": sweep.is_imported}
            if isinstance(sweep, UnreadableError)
            else status_json(sweep)
            for sweep in sweeps
        ]
        echo(json.dumps(values))
    elif sweeps:
        wide_console().print(sweeps_view(sweeps))
    elif state is not None:
        echo(f"{place.root} has no {state.value} sweep")
    else:
        echo(no_sweep(place))


def status_command(
    sweep: NewestSweep = None,
    home: HomeOption = HOME,
    runs: Annotated[bool, typer.Option("--runs", help="List every run with its key, for `logs`.")] = False,
    json_: Json = False,
) -> None:
    """Show the progress of a sweep (by default the newest), and whether it is still running."""
    place = open_home(home)
    if not runs and not json_:
        summary = open_summary(place, sweep)
        for damage in summary.damage:
            warn(damage)
        wide_console().print(status_view(summary))
        return
    stored = open_sweep(sweep, place)
    summary = keep(stored)
    rows = run_rows(stored)
    if json_:
        echo(json.dumps(status_json(summary, rows), indent=1))
    else:
        wide_console().print(status_view(summary, rows))


def logs_command(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's key or its beginning.")], home: HomeOption = HOME
) -> None:
    """Show one run: settings, learning curve, traceback."""
    wide_console().print(run_view(*find_run(open_home(home), run)))


def explain_command(sweep: NewestSweep = None, home: HomeOption = HOME) -> None:
    """Explain in plain words what a sweep found and how sure it is.

    The last paragraph recommends what to run next.
    """
    stored = open_sweep(sweep, open_home(home))
    console = wide_console()
    console.print(Text(", ".join(filter(None, (f"Sweep {stored.id}", stored.origin))), style="bold"))
    for paragraph in explain(stored.spec, stored.answer, stored.state.value, stored.failure):
        console.print(Text(str(paragraph)))
    step = next_step(stored.spec, stored.answer)
    if stored.state in (State.INTERRUPTED, State.FAILED):
        again = " --retry-failed" if stored.answer.failed else ""
        console.print(Text(f"  {stored.command()}{again}"), soft_wrap=True)
    elif stored.state is not State.RUNNING and step is not None and step.overrides:
        console.print(Text(f"  {stored.command(step)}"), soft_wrap=True)


def report_command(
    sweep: NewestSweep = None,
    output: Annotated[
        Path | None, path_option("The HTML file to write; by default report.html in the sweep's directory.")
    ] = None,
    home: HomeOption = HOME,
) -> None:
    """Write what a sweep found as one self-contained HTML file."""
    stored = open_sweep(sweep, open_home(home))
    echo(f"report  {export.write_report(stored, output)}")


def figure_command(
    sweep: NewestSweep = None,
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
    from orchestrator.report.figures import comparisons, style  # matplotlib takes half a second to import.

    _check_picture(output)
    stored = open_sweep(sweep, open_home(home))
    path = output or stored.sweep.files.directory / "figure.pdf"
    write = write_whole if output else replace_whole
    echo(f"figure  {style.save(comparisons.main_figure(stored.answer, width_in=width), path, write)}")
    echo(f"\n{comparisons.caption(stored.sweep, stored.answer, stored.imported_runs)}")


def _check_picture(output: Path | None) -> None:
    if output is not None and output.suffix not in PICTURES:
        raise UserError(f"--output {str(output)!r}: the file's name must end in {', '.join(PICTURES)}")
    if output is not None:
        export.output_path(output)


def compare_command(
    sweeps: Annotated[list[str], typer.Argument(metavar="SWEEP...", help=SWEEP_HELP)],
    output: Annotated[Path | None, path_option(f"Draw the comparison into this file ({', '.join(PICTURES)}).")] = None,
    pooled: Annotated[
        bool,
        typer.Option("--pooled", help="Print one answer from all the sweeps, which may differ only in their seeds."),
    ] = False,
    home: HomeOption = HOME,
) -> None:
    """Compare the transitions of several sweeps, or pool them.

    A search space with variants stands for the newest sweep of each.

    Examples:

      compare add_vs_add_prod add_vs_add_nadd --output forest.svg

      compare modulus_scaling

      compare --pooled add_vs_add_prod-20261127-09 add_vs_add_prod-20261127-10
    """
    _check_picture(output)
    place = open_home(home)
    if pooled:
        ids = [find_sweep(place, given) for given in sweeps]
        print_pooled(pool(open_sweeps(ids, place)), output)
        return
    ids = [sweep_id for given in sweeps for sweep_id in find_variants(place, given)]
    if twice := [sweep_id for sweep_id in dict.fromkeys(ids) if ids.count(sweep_id) > 1]:
        raise UserError(f"{twice[0]} was named twice: a sweep cannot be compared with itself")
    print_comparison(open_sweeps(ids, place), output)


def print_comparison(
    sweeps: Sequence[StoredSweep], output: Path | None = None, write: Callable[[Path, bytes], None] = write_whole
) -> None:
    """Print the transitions of several sweeps. If they are variants that differ in a number, also print the growth.

    Args:
        sweeps: The sweeps.
        output: File for the figure, or None.
        write: Function that writes the figure to the file.
    """
    for note in different_code_notes([sweep.sweep for sweep in sweeps]):
        warn(note)
    answers = export.compared(sweeps)
    kind = "variant" if all(entry.variant for entry in answers) else "sweep"
    wide_console().print(comparison_view(answers, kind))
    for sentence in scaling_text(answers) if can_scale(answers) else ():
        echo(sentence)
    if output is not None:
        from orchestrator.report.figures import comparisons, style

        echo(f"figure  {style.save(comparisons.forest_figure(answers), output, write)}")


def print_pooled(pooled: PooledSweeps, output: Path | None = None) -> None:
    """Print the answer of several sweeps with their ids. If ``output`` is passed, draw the figure into that file."""
    console = wide_console()
    console.print(Text(f"{pooled}.", style="bold"))
    for sweep in pooled.sweeps:
        console.print(Text(", ".join(filter(None, (f"  {sweep.id}", sweep.origin)))), soft_wrap=True)
    console.print(render(pooled.answer))
    if output is not None:
        from orchestrator.report.figures import comparisons, style

        echo(f"figure  {style.save(comparisons.main_figure(pooled.answer, pooled.spec.question), output)}")


def export_command(
    sweep: OneSweep,
    output: Annotated[Path, path_option("The directory to create, or the answer's file if the name ends in .json.")],
    home: HomeOption = HOME,
) -> None:
    """Write runs, curves and transitions as Parquet and CSV, or the answer for `verify`.

    Examples:

      export add_vs_add_prod --output tables

      export add_vs_add_prod --output answer.json
    """
    for path in export.export(open_sweep(sweep, open_home(home)), output):
        echo(path)


def verify_command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file from `export SWEEP --output FILE.json`.")],
    retrain: Annotated[
        int, typer.Option(min=0, max=1000, help="Train this many of its runs again, and compare them bit by bit.")
    ] = 0,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="Seed of the choice of runs to train; by default a new one, which is printed."),
    ] = None,
    space: Annotated[
        str | None,
        typer.Option(metavar="FILE.yaml", help="Your own search space with the same family, if it is not built in."),
    ] = None,
) -> None:
    """Check that an answer from elsewhere follows from its runs.

    Recomputes evidence, estimates and sentences, without training. With --retrain, it also trains some randomly
    chosen runs again. The exit code is 1 if anything differs.

    Examples:

      verify answer.json

      verify answer.json --retrain 3
    """
    allowed = () if space is None else (str(open_space(space).top.get("family", "")),)
    given = read_answer(user_path(file))
    checked = check(given, allowed)
    wide_console().print(render(checked.answer))
    echo("")
    if origin := origin_line(imported_text(given.imported, given.imported_runs)):
        echo(origin)
    differences = [*checked.differences, *(_retrain(checked, retrain, seed, space) if retrain else ())]
    for difference in differences:
        echo(f"differs {difference}")
    basis = f"{counted(len(given.runs), 'run')} and {counted(len(given.pairs), 'pair')}"
    if differences:
        written = given.program, version(DISTRIBUTION)
        other = f"; version {written[0]} wrote it, and this is {written[1]}" if written[0] != written[1] else ""
        raise SweepError(f"{file} does not follow from its {basis}: {counted(len(differences), 'difference')}{other}")
    echo(f"agrees  evidence, estimates and sentences of {given.sweep} follow from its {basis}")


def _retrain(checked: VerifiedAnswer, count: int, seed: int | None, space: str | None) -> Iterator[str]:
    """Train runs of a file again. Print a line about each, and yield its differences."""
    spec = with_own_script(checked.spec, space)
    seed = secrets.randbits(32) if seed is None else seed
    trainable = [run for run in checked.file.runs if not run.has_failed]
    chosen = random.Random(seed).sample(trainable, min(count, len(trainable)))
    seconds = run_seconds(spec)
    most = rough_duration(sum(seconds[run.size] for run in chosen))
    echo(f"train   {len(chosen)} of {counted(len(trainable), 'run')} (at most about {most}), chosen by --seed {seed}")
    for run in chosen:
        differences = retrained_differences(run, spec)
        echo(f"train   {run}: {'differs' if differences else 'the same bits'}")
        yield from (f"{run}: {difference}" for difference in differences)


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
    environment.prefer_one_thread()
    check_own(home)
    stored = open_sweep(sweep, Home(home.resolve()))
    names = names or list(stored.spec.probes)
    if not names:
        raise UserError(f"{stored.id} has no probes by default: name at least one")
    errors: list[str] = []
    for probe in [load_probe(name) for name in names]:
        result = probe_runs(probe, stored.spec, stored.runs, again=again)
        echo(f"{probe.name}: {result.text}")
        errors += result.errors
    say_unknown_files(stored.spec, names)
    echo(f"`report {stored.id}` shows the results; `sync` writes them to MLflow")
    if errors:
        raise SweepError(f"the probes failed {len(errors)} times; `logs RUN` shows each error. The first: {errors[0]}")


def ui_command(
    home: HomeOption = HOME,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 5000,
) -> None:
    """Serve a page of all sweeps with answers, figures and reports, and MLflow's page.

    The printed address contains a token, so that other users of this machine cannot open the pages. MLflow's record is
    not opened if the home is not yours, or if other users can write to it.
    """
    from orchestrator.site.pages import SweepPages
    from orchestrator.site.server import serving, until_interrupted

    chosen = mlflow_store.choose_store(home)
    if chosen.database is None:
        echo(f"The record is on the MLflow server at {chosen.shown}; open that page.")
        return
    why = "" if chosen.is_named or not home.is_dir() else why_foreign(home) or sharing_text(home)
    if not why:
        _serve_with_record(chosen, home, port)
    warn(f"MLflow's record in {home} is not opened, because the home is not yours alone ({why})")
    with serving(SweepPages(Home(home.resolve())), port) as shown:
        echo(f"Serving all sweeps at {shown}")
        echo("The token in the address opens all pages, so keep it to yourself. Press Ctrl-C to stop.")
        until_interrupted()


def _serve_with_record(chosen: mlflow_store.Store, home: Path, port: int) -> NoReturn:
    """Serve a home's pages and MLflow's page of its record, until interrupted."""
    from orchestrator.record.mlflow_server import ALL_EXPERIMENTS, places, serve
    from orchestrator.site.mlflow_proxy import MlflowPage
    from orchestrator.site.pages import SweepPages
    from orchestrator.site.server import MLFLOW, serving

    assert chosen.database is not None
    if not chosen.database.is_file():
        known = Home(home).sweep_ids()
        remedy = "`sync` creates it from the sweeps" if known else "run a sweep first, or pass another --home"
        raise UserError(f"{str(home)!r} has no record yet: {remedy}")
    mlflow_store.check_store(chosen)
    # If a sweep has just started, the file is empty. MLflow's server would make tables in it at the same time.
    with mlflow_store.store_errors(chosen):
        mlflow_store.make_database(chosen.database)
    if outside := mlflow_store.outside_files(chosen):
        rebuild = command_line("sync", "--rebuild", "--home", home)
        warn(f"{outside}, so MLflow's page does not show pictures and files: run `{rebuild}`")
    pages = SweepPages(Home(home.resolve()), partial(places, chosen, MLFLOW), f"{MLFLOW}{ALL_EXPERIMENTS}")
    with environment.socket_directory() as directory:
        page = MlflowPage(directory / "mlflow", has_files=not outside)
        with serving(pages, port, page) as shown:
            echo(f"Serving all sweeps at {shown}")
            echo("The token in the address opens all pages, so keep it to yourself. They link to MLflow's page, which")
            echo("is ready in a few seconds. Press Ctrl-C to stop.")
            raise typer.Exit(serve(chosen, page.socket))
