"""The program's commands, put together."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Annotated

import typer

COMMANDS = {
    "run": ("run", "Run a sweep and print the transitions it finds."),
    "reproduce": ("reproduce", "Run all experiments and compare them with what is expected."),
    "list": ("run", "List the search spaces that come with the project."),
    "show": ("run", "Print a resolved search space as YAML that can be run."),
    "plan": ("run", "Print what a sweep would cost, without starting it."),
    "doc": ("doc", "Say what a setting means, may be and is by default."),
    "simulate": ("simulate", "Try the searchers without training: cost, error, coverage."),
    "sweeps": ("status", "List all sweeps: state, what they found, size on disk."),
    "status": ("status", "Show how far a sweep is, and whether it is still running."),
    "logs": ("status", "Show one run: settings, learning curve, why it failed."),
    "probe": ("report", "Run probes on the trained models of a sweep."),
    "explain": ("report", "Say in plain words what a sweep found and how sure it is."),
    "report": ("report", "Write what a sweep found as one self-contained HTML file."),
    "figure": ("report", "Draw a sweep's figure for a paper, and print its caption."),
    "compare": ("report", "Compare the transitions of several sweeps."),
    "export": ("report", "Write runs, curves and transitions as Parquet and CSV."),
    "stop": ("stop_rm", "Stop a sweep that runs elsewhere, or a mix or run of it."),
    "home": ("home", "Copy a home to one file, or a file into a home."),
    "rm": ("stop_rm", "Delete a sweep from disk and from MLflow."),
    "check-family": ("doctor", "Try whether a family of models keeps its contract."),
    "ui": ("ui", "Serve a page of all sweeps, and MLflow's page."),
    "sync": ("ui", "Write to MLflow what is missing there after an outage."),
    "doctor": ("doctor", "Try out everything a sweep needs of this machine."),
}
"""Every command with its module and its line in the list of commands."""


def _version(asked: bool) -> None:
    """Print the version and end, where it is asked for."""
    if asked:
        typer.echo(f"transition-sweeps {version('transition-sweeps')}")
        raise typer.Exit


def _program(
    version_: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Finds the smallest model that learns a task, alone and together with other tasks.

    Begin with: list, plan add_vs_add_prod, run add_vs_add_prod --profile smoke. Then: status, report, ui.
    """


def program(asked: str = "") -> typer.Typer:
    """The program, with the command that is ``asked`` for alone, or with all of them for any other word: each imports
    what it needs."""
    app = typer.Typer(
        help="Finds the smallest model that learns a task, alone and together with other tasks.",
        add_completion=False,
        rich_markup_mode=None,
    )
    app.callback()(_program)
    for name in [asked] if asked in COMMANDS else COMMANDS:
        module, said = COMMANDS[name]
        command = getattr(import_module(f"orchestrator.cli.{module}"), f"{name.replace('-', '_')}_command")
        app.command(name, short_help=said)(command)
    return app
