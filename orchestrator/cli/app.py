"""The program's commands, in groups, with one module per group."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from orchestrator.system.commands import DISTRIBUTION
from orchestrator.system.printing import echo

COMMAND_GROUPS = {
    "Run": {
        "show": "List the search spaces, or print a resolved one as YAML.",
        "plan": "Print what a sweep would cost, without starting it.",
        "run": "Run a sweep and print the transitions it finds.",
        "stop": "Stop a running sweep, or one of its mixes.",
        "reproduce": "Run all experiments and compare them with published claims.",
    },
    "Results": {
        "sweeps": "List all sweeps: state, findings, size on disk.",
        "status": "Show a sweep's progress, and whether it is still running.",
        "explain": "Explain in plain words what a sweep found and how sure it is.",
        "report": "Write what a sweep found as one self-contained HTML file.",
        "figure": "Draw a sweep's figure for a paper, and print its caption.",
        "compare": "Compare the transitions of several sweeps, or pool them.",
        "export": "Write runs, curves and transitions, or the answer for `verify`.",
        "verify": "Check that an answer from elsewhere follows from its runs.",
        "logs": "Show one run: settings, learning curve, traceback.",
        "probe": "Run probes on the trained models of a sweep.",
        "ui": "Serve a page of all sweeps, and MLflow's page.",
    },
    "Set up": {
        "doc": "Explain a setting: its meaning, values and default.",
        "doctor": "Check that this machine can run sweeps.",
        "check-family": "Check whether a family of models satisfies its contract.",
        "simulate": "Compare the search methods on simulated sweeps: cost, error.",
    },
    "Maintain": {
        "home": "Export a home, import one, or trust a home or code.",
        "sync": "Write missing records, for example after an outage.",
        "rm": "Delete a sweep from disk and from its records.",
    },
}
"""Help text of every command, by group."""


class _Grouped(TyperGroup):
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for group, commands in COMMAND_GROUPS.items():
            with formatter.section(group):
                formatter.write_dl(list(commands.items()))


def _version(asked: bool) -> None:
    if asked:
        echo(f"orchestrator {version(DISTRIBUTION)}")
        raise typer.Exit


def _program(
    version_: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_version, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error, with any command.")] = False,
) -> None:
    """Finds the smallest model that learns a task, alone and together with other tasks."""


def program(name: str = "") -> typer.Typer:
    """Return the program. If a ``name`` is passed, only that command can be called. The others are only listed and
    suggested, because each module imports its dependencies."""
    app = typer.Typer(cls=_Grouped, add_completion=False, rich_markup_mode=None)
    app.callback()(_program)
    for group, commands in COMMAND_GROUPS.items():
        for command, text in commands.items():
            function = _program
            if name in ("", command):
                module = import_module(f"orchestrator.cli.{group.lower().replace(' ', '_')}")
                function = getattr(module, f"{command.replace('-', '_')}_command")
            if isinstance(function, typer.Typer):  # A group of commands, such as `home export` and `home import`.
                app.add_typer(function, name=command, short_help=text)
            else:
                app.command(command, short_help=text)(function)
    return app
