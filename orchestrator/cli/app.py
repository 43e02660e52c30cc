"""The program's commands, put together."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from orchestrator.cli import (
    check_family,
    doc,
    doctor,
    predict,
    probe,
    report,
    reproduce,
    rm,
    run,
    simulate,
    status,
    stop,
    ui,
)

app = typer.Typer(
    help="Finds the smallest model that learns a task, alone and together with other tasks.",
    add_completion=True,
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:
    """Print the version and end, where it is asked for."""
    if asked:
        typer.echo(f"transition-sweeps {version('transition-sweeps')}")
        raise typer.Exit


@app.callback()
def _program(
    version_: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Finds the smallest model that learns a task, alone and together with other tasks.

    Begin with: list, plan add_vs_add_prod, run add_vs_add_prod --profile smoke. Then: status, report, ui.
    """


app.command("run", short_help="Run a sweep and print the transitions it finds.")(run.run_command)
app.command("reproduce", short_help="Run all experiments and set them beside what is expected.")(
    reproduce.reproduce_command
)
app.command("list", short_help="List the search spaces that come with the project.")(run.list_command)
app.command("show", short_help="Print a resolved search space as YAML that can be run.")(run.show_command)
app.command("plan", short_help="Print what a sweep would cost, without starting it.")(run.plan_command)
app.command("predict", short_help="Before any training, score which mixes should help.")(predict.predict_command)
app.command("doc", short_help="Say what a setting means, may be and is by default.")(doc.doc_command)
app.command("schema", short_help="Print a JSON schema by which editors check search spaces.")(doc.schema_command)
app.command("simulate", short_help="Try the searchers without training: cost, error, coverage.")(
    simulate.simulate_command
)
app.command("sweeps", short_help="List all sweeps: state, what they found, size on disk.")(status.sweeps_command)
app.command("status", short_help="Show how far a sweep is, and whether it is still running.")(status.status_command)
app.command("logs", short_help="Show one run: settings, learning curve, why it failed.")(status.logs_command)
app.command("probe", short_help="Run probes on the trained models of a sweep.")(probe.probe_command)
app.command("explain", short_help="Say in plain words what a sweep found and how sure it is.")(report.explain_command)
app.command("report", short_help="Write what a sweep found as one self-contained HTML file.")(report.report_command)
app.command("figure", short_help="Draw a sweep's figure, for a screen or a paper.")(report.figure_command)
app.command("compare", short_help="Compare the transitions of several sweeps.")(report.compare_command)
app.command("export", short_help="Write runs, curves and transitions as Parquet and CSV.")(report.export_command)
app.command("stop", short_help="Stop a sweep that runs elsewhere, or a mix or run of it.")(stop.stop_command)
app.command("note", short_help="Write a note and tags for a sweep.")(rm.note_command)
app.command("rm", short_help="Delete a sweep from disk and from MLflow.")(rm.rm_command)
app.command("check-family", short_help="Try whether a family of models keeps its contract.")(
    check_family.check_family_command
)
app.command("ui", short_help="Serve a page of all sweeps, and MLflow's beside it.")(ui.ui_command)
app.command("sync", short_help="Write to MLflow what is missing there after an outage.")(ui.sync_command)
app.command("doctor", short_help="Try out everything a sweep needs of this machine.")(doctor.doctor_command)
