"""The command `doctor`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from orchestrator.cli.options import Debug, HomeOption
from orchestrator.cli.status import wide_console
from orchestrator.doctor.checkup import NAME, Finding, Verdict, check_up
from orchestrator.space import hardware
from orchestrator.sweep.options import HOME

COLOURS = {Verdict.OK: "green", Verdict.SLOW: "yellow", Verdict.WRONG: "bold red", Verdict.SKIPPED: "dim"}
NAME_WIDTH = 14


def doctor_command(
    home: HomeOption = HOME,
    gpu: Annotated[bool, typer.Option("--gpu/--no-gpu", help="Check the GPU too, if there is one.")] = True,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")] = False,
    debug: Debug = False,
) -> None:
    """Try everything a sweep needs of this machine; a line each. Exit code 1: something is wrong."""
    from orchestrator.doctor.machine import machine_checks

    console, place, here = wide_console(), home.resolve(), hardware.detect()
    place.mkdir(parents=True, exist_ok=True)
    checks = machine_checks(place)
    if here.gpus and gpu:
        from orchestrator.doctor.gpu import gpu_checks  # torch takes two seconds.

        checks += gpu_checks(place)
    done = check_up(place, here, checks, (lambda found: None) if json_ else lambda found: _say(found, console))
    if json_:
        typer.echo(json.dumps(done.to_json(), indent=1))
    else:
        counts = ", ".join(f"{done.count(each)} {each}" for each in Verdict)
        took = sum(each.seconds for each in done.findings)
        typer.echo(f"{here}: {counts}, in {took:.0f} s; all figures in {_shown(place / NAME)}")
    if not done.passed:
        raise typer.Exit(1)


def _say(found: Finding, console: Console) -> None:
    """A finding as a line, and its next step as a second one."""
    line = Text.assemble((f"{found.verdict:<6}", COLOURS[found.verdict]), f"{found.name:<{NAME_WIDTH}} {found.said}")
    console.print(line, highlight=False, soft_wrap=True)
    if found.todo:
        console.print(Text(f"{'':6}{'':{NAME_WIDTH}} -> {found.todo}"), highlight=False, soft_wrap=True)


def _shown(path: Path) -> str:
    """A path relative to the current directory, if it is beneath it."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
