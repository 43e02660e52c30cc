"""The program: its commands put together, and how it exits."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version
from itertools import zip_longest
from typing import Annotated

import typer

from orchestrator import supervised
from orchestrator.commands import (
    asking,
    checking,
    doctoring,
    documenting,
    keeping,
    looking,
    predicting,
    probing,
    recording,
    reproducing,
    simulating,
    stopping,
    telling,
)
from orchestrator.drive.supervisor import supervise
from orchestrator.terminal.outcry import exit_code_of, say

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


app.command("run")(asking.run_command)
app.command("reproduce")(reproducing.reproduce_command)
app.command("list")(asking.list_command)
app.command("show")(asking.show_command)
app.command("plan")(asking.plan_command)
app.command("predict")(predicting.predict_command)
app.command("doc")(documenting.doc_command)
app.command("schema")(documenting.schema_command)
app.command("simulate")(simulating.simulate_command)
app.command("sweeps")(looking.sweeps_command)
app.command("status")(looking.status_command)
app.command("logs")(looking.logs_command)
app.command("probe")(probing.probe_command)
app.command("explain")(telling.explain_command)
app.command("report")(telling.report_command)
app.command("figure")(telling.figure_command)
app.command("compare")(telling.compare_command)
app.command("export")(telling.export_command)
app.command("stop")(stopping.stop_command)
app.command("note")(keeping.note_command)
app.command("rm")(keeping.rm_command)
app.command("upgrade")(keeping.upgrade_command)
app.command("check-family")(checking.check_family_command)
app.command("ui")(recording.ui_command)
app.command("sync")(recording.sync_command)
app.command("doctor")(doctoring.doctor_command)


def with_bare_resume(arguments: Sequence[str]) -> list[str]:
    """``--resume`` may stand alone, which options with values cannot: say ``--resume=`` where nothing follows it."""
    return [
        "--resume=" if word == "--resume" and (following is None or following.startswith("-")) else word
        for word, following in zip_longest(arguments, arguments[1:])
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """The program: run one command and exit with 0, 1 (a failure), 2 (the user's mistake) or 130 (interrupted).

    Without ``arguments`` it is this process's own, and a sweep is driven by a process that this one watches over.
    """
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    supervised.begin()
    if arguments is None and not supervised.is_supervised() and _may_die(given):
        sys.exit(supervise(given, say))

    def command() -> int:
        code = app(with_bare_resume(given), prog_name="orchestrator", standalone_mode=False)
        return code if isinstance(code, int) else 0

    code = exit_code_of(command, debug="--debug" in given)
    supervised.tell(ended=code)
    sys.exit(code)


def _may_die(given: Sequence[str]) -> bool:
    """Whether a command drives a sweep with Ray, so that something beyond it can end it. A debugger wants it here."""
    return given[0] == "run" and not {"--local-debug", "--help"}.intersection(given)
