"""The program's commands, in groups."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

ABOUT = "Finds the smallest model that learns a task, alone and together with other tasks."
GROUPS = {
    "Run": {
        "show": ("run", "List the search spaces, or print a resolved one as YAML."),
        "plan": ("run", "Print what a sweep would cost, without starting it."),
        "run": ("run", "Run a sweep and print the transitions it finds."),
        "stop": ("stop_rm", "Stop a running sweep, or one of its mixes or runs."),
        "reproduce": ("reproduce", "Run all experiments and compare them with expectations."),
    },
    "Look": {
        "sweeps": ("status", "List all sweeps: state, findings, size on disk."),
        "status": ("status", "Show a sweep's progress, and whether it is still running."),
        "explain": ("report", "Explain in plain words what a sweep found and how sure it is."),
        "report": ("report", "Write what a sweep found as one self-contained HTML file."),
        "figure": ("report", "Draw a sweep's figure for a paper, and print its caption."),
        "compare": ("report", "Compare the transitions of several sweeps."),
        "export": ("report", "Write runs, curves and transitions as Parquet and CSV."),
        "logs": ("status", "Show one run: settings, learning curve, traceback."),
        "probe": ("report", "Run probes on the trained models of a sweep."),
        "ui": ("ui", "Serve a page of all sweeps, and MLflow's page."),
    },
    "Set up": {
        "doc": ("doc", "Explain a setting: its meaning, values and default."),
        "doctor": ("doctor", "Test everything that a sweep needs from this machine."),
        "check-family": ("doctor", "Check whether a family of models satisfies its contract."),
        "simulate": ("simulate", "Try the searchers without training: cost, error, coverage."),
    },
    "Maintain": {
        "home": ("home", "Copy a home to one file, or a file into a home."),
        "sync": ("ui", "Write records that MLflow is missing after an outage."),
        "rm": ("stop_rm", "Delete a sweep from disk and from MLflow."),
    },
}
"""Module and help text of every command, by group."""
COMMANDS = {name: entry for group in GROUPS.values() for name, entry in group.items()}


class _Grouped(TyperGroup):
    """Lists commands by group."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for group, commands in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(name, text) for name, (_, text) in commands.items()])


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"transition-sweeps {version('transition-sweeps')}")
        raise typer.Exit


def _program(
    version_: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error, with any command.")] = False,
) -> None:
    """Finds the smallest model that learns a task, alone and together with other tasks.

    Begin with: show, plan add_vs_add_prod, run add_vs_add_prod --profile smoke. Then: status, report, ui.
    """


def program(name: str = "") -> typer.Typer:
    """Return the program with only the command ``name`` if it exists, because each command imports its dependencies."""
    app = typer.Typer(cls=_Grouped, help=ABOUT, add_completion=False, rich_markup_mode=None)
    app.callback()(_program)
    for command_name in [name] if name in COMMANDS else COMMANDS:
        module, text = COMMANDS[command_name]
        command = getattr(import_module(f"orchestrator.cli.{module}"), f"{command_name.replace('-', '_')}_command")
        app.command(command_name, short_help=text)(command)
    return app
