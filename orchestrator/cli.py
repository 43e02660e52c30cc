"""The commands. Each one reads its arguments, calls what does the work and prints; torch, Ray and MLflow are
imported only by the commands that need them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from orchestrator.engine.address import check_address
from orchestrator.errors import UserError
from orchestrator.outcry import exit_code_of

if TYPE_CHECKING:
    from orchestrator.hardware import Hardware
    from orchestrator.spec import SweepSpec

app = typer.Typer(
    help="Finds the smallest model that learns a task, alone and together with other tasks.",
    add_completion=False,
    rich_markup_mode=None,
)

SpaceName = Annotated[str, typer.Argument(metavar="NAME_OR_FILE", help="A search space's name, or a YAML file.")]
Profile = Annotated[str | None, typer.Option(help="Take this profile, not the largest this machine can finish.")]
Override = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a field by its path: --set search.method=grid."),
]
Home = Annotated[Path, typer.Option(help="Where sweeps and the default MLflow store lie.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")]
DEFAULT_HOME = Path("results")


@app.command("run")
def run_command(
    space: SpaceName,
    profile: Profile = None,
    override: Override = None,
    home: Home = DEFAULT_HOME,
    address: Annotated[str | None, typer.Option(help="Use the Ray cluster at this address.")] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="[SWEEP]", help="Continue a sweep; without an id, the newest unfinished one."),
    ] = None,
    extend: Annotated[
        str | None, typer.Option(metavar="SWEEP", help="Start a new sweep that reuses this one's finished runs.")
    ] = None,
    local_debug: Annotated[
        bool, typer.Option("--local-debug", help="Train in this process, without Ray, to step through in a debugger.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Run a sweep and print the transitions it finds."""
    if resume is not None and extend is not None:
        raise UserError("--resume continues a sweep and --extend starts a new one: give one of them")
    spec, hardware = _load(space, profile, override)
    if spec.resources.gpu_per_stack and not hardware.gpus and not address:
        raise UserError(
            f"this sweep asks for {spec.resources.gpu_per_stack:g} GPU a stack and there is none here. Give the "
            "--address of a Ray cluster that has some, another --profile, or --set resources.gpu_per_stack=0 to train "
            "on the CPU, slowly."
        )
    if address is not None:
        check_address(address)
    console = Console()
    _brief(spec, hardware, console)
    from orchestrator.engine.sweep import RunOptions, run_sweep

    options = RunOptions(home=home, address=address, resume=resume, extend=extend, local_debug=local_debug)
    run_sweep(spec, options, console)


@app.command("list")
def list_command(debug: Debug = False) -> None:
    """Name the search spaces that come with the project."""
    from orchestrator.briefing import print_spaces
    from orchestrator.spaces import names, open_space

    print_spaces([open_space(name) for name in names()], Console())


@app.command("show")
def show_command(space: SpaceName, profile: Profile = None, override: Override = None, debug: Debug = False) -> None:
    """Print a search space resolved: the very sweep, as YAML."""
    spec, _ = _load(space, profile, override)
    typer.echo(spec.to_yaml(), nl=False)


@app.command("plan")
def plan_command(space: SpaceName, profile: Profile = None, override: Override = None, debug: Debug = False) -> None:
    """Print what a sweep would cost, without starting it."""
    from orchestrator.briefing import print_plan
    from orchestrator.plan import make_plan

    spec, hardware = _load(space, profile, override)
    console = Console()
    _brief(spec, hardware, console)
    print_plan(spec, make_plan(spec, hardware), console)


@app.command("ui")
def ui_command(
    home: Home = DEFAULT_HOME,
    port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port on this machine; not reachable from others.")
    ] = 5000,
    debug: Debug = False,
) -> None:
    """Open MLflow's page on the record of all sweeps."""
    from orchestrator.tracking import store
    from orchestrator.tracking.page import HOST, serve

    chosen = store.choose(home)
    if chosen.artifacts is None and chosen.uri.startswith("http"):
        typer.echo(f"The record is kept by the MLflow server at {chosen.shown}; open that page.")
        return
    if chosen.artifacts is not None and not (home / store.DATABASE).is_file():
        raise UserError(f"there is no record in {str(home)!r} yet: run a sweep first, or name its --home")
    store.check(chosen)
    typer.echo(f"The record is at http://{HOST}:{port} until you press Ctrl-C.")
    raise typer.Exit(serve(chosen, port))


@app.command("sync")
def sync_command(
    sweep: Annotated[str | None, typer.Argument(help="A sweep's id; without one, all sweeps of the home.")] = None,
    home: Home = DEFAULT_HOME,
    debug: Debug = False,
) -> None:
    """Write into MLflow what an outage kept out of it."""
    from orchestrator.engine.sync import sync

    sync(home, sweep, Console())


def _load(space: str, profile: str | None, overrides: list[str] | None) -> tuple[SweepSpec, Hardware]:
    from orchestrator.hardware import detect
    from orchestrator.spaces import load_space

    hardware = detect()
    return load_space(space, profile, overrides or (), hardware), hardware


def _brief(spec: SweepSpec, hardware: Hardware, console: Console) -> None:
    from orchestrator.briefing import print_briefing
    from orchestrator.plan import make_plan

    print_briefing(spec, hardware, make_plan(spec, hardware), console)


def with_bare_resume(arguments: Sequence[str]) -> list[str]:
    """``--resume`` may stand alone, which options with values cannot: say ``--resume=`` where nothing follows it."""
    return [
        "--resume=" if word == "--resume" and (following is None or following.startswith("-")) else word
        for word, following in zip_longest(arguments, arguments[1:])
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """The program: run one command and exit with 0, 1 (a failure), 2 (the user's mistake) or 130 (interrupted)."""
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]

    def command() -> int:
        code = app(with_bare_resume(given), prog_name="orchestrator", standalone_mode=False)
        return code if isinstance(code, int) else 0

    sys.exit(exit_code_of(command, debug="--debug" in given))
