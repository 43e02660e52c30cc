"""All experiments compared with expectations."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from zlib import crc32

import typer
from rich.console import Console

from orchestrator.cli.options import HomeOption, hardware_at, load_variants
from orchestrator.cli.status import wide_console
from orchestrator.errors import UserError, unknown
from orchestrator.sweep.run_options import HOME, RunOptions, SpaceOptions, seconds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from orchestrator.space.expected import Expectation
    from orchestrator.space.spec import SweepSpec
    from orchestrator.sweep.reproduce import Experiment, Reproduction


def reproduce_command(
    spaces: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SPACE]...", help="Search spaces; by default all shipped ones."),
    ] = None,
    profile: Annotated[str, typer.Option(help="The profile in which to run each search space.")] = "laptop",
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Override a field of every search space by its path: --set settings.model.init.std=0.2.",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Start only sweeps expected to end within this time: 2h, 45min; 0s runs nothing."
        ),
    ] = None,
    home: HomeOption = HOME,
    address: Annotated[str | None, typer.Option(help="Use the Ray cluster at this address.")] = None,
    engine: Annotated[
        str, typer.Option(metavar="ray|local", help="Train under Ray, or one stack after another in this process.")
    ] = "ray",
) -> None:
    """Run all experiments and compare them with expectations.

    Finished sweeps are not run again and unfinished ones continue, so you can interrupt this command and run it again.
    """
    from orchestrator.home.files import Home
    from orchestrator.sweep.reproduce import Reproduction

    seconds = None if budget is None else seconds_of("--budget", budget)
    place, hardware, console = Home(home.resolve()), hardware_at(address), Console()
    choice = SpaceOptions(profile=profile, overrides=overrides or [])
    experiments = [_experiment(name, choice, address) for name in spaces or _all(profile)]
    reproduction = Reproduction(experiments, place, hardware, console)
    folder = place.root / "reproduce" / _folder_name(choice)
    options = RunOptions(home=home, address=address, hardware=hardware, engine=engine).started()
    try:
        reproduction.run(options, seconds, lambda: _write(reproduction, choice, folder))
    finally:
        _show(reproduction)
        _write(reproduction, choice, folder)
        typer.echo(f"table   {folder / 'table.md'}")


def _all(profile: str) -> list[str]:
    """Return the shipped search spaces with expectations in this profile. Raises ``UserError`` if there are none."""
    from orchestrator.space.files import names
    from orchestrator.space.spaces import open_space

    spaces = [space for space in map(open_space, names()) if space.files[0].expects]
    chosen = [space.name for space in spaces if profile in space.profiles]
    if not chosen:
        raise unknown("profile", profile, sorted({name for space in spaces for name in space.profiles}))
    for space in spaces:
        if space.name not in chosen:
            typer.echo(f"{space.name} has no profile {profile!r} and is skipped", err=True)
    return chosen


def _folder_name(choice: SpaceOptions) -> str:
    """Return the name of a table's directory: the profile, and a checksum of the overrides."""
    overridden = f"_{crc32(json.dumps(choice.overrides).encode()):08x}" if choice.overrides else ""
    return f"{choice.profile}{overridden}"


def _experiment(name: str, choice: SpaceOptions, address: str | None) -> Experiment:
    from orchestrator.space.expected import expectations_of
    from orchestrator.space.spaces import open_space
    from orchestrator.sweep.reproduce import Experiment

    space = open_space(name)
    file = space.files[0]
    expected = expectations_of(file)
    if not expected:
        raise UserError(f"{file.source} has no expected findings (`expects:`) to compare with its answer")
    chosen = choice if space.profiles else replace(choice, profile=None)
    specs = load_variants(name, chosen, hardware_at(address))
    where = f"{file.source}, expects"
    return Experiment(specs[0].name, tuple(specs), tuple(_resolved(statement, specs, where) for statement in expected))


def _resolved(expected: Expectation, specs: Sequence[SweepSpec], where: str) -> Expectation:
    """Return a statement with its mixes named as in the sweeps. Raises ``UserError`` if no sweep can answer it."""
    from trainables.contract.arms import as_named
    from trainables.probes.base import BUILT_IN, load_probe

    mixes = tuple(dict.fromkeys(name for spec in specs for name in spec.plain_mixes))
    mix, control = (as_named(name, mixes) for name in (expected.mix, expected.control))
    for name in (mix, control):
        if name not in ("*", "", *mixes):
            raise unknown("mix", name, mixes, where=where)
    if mix == mixes[0] and not expected.than and expected.finds in ("fewer", "no fewer", "higher", "lower"):
        raise UserError(f"{where}: {mix} is the baseline of the comparison: name another mix")
    if not any(expected.is_about(spec.variant) for spec in specs):
        raise unknown("variant", expected.variant, [spec.variant for spec in specs], where=where)
    probes = dict.fromkeys([*BUILT_IN, *(load_probe(name).name for spec in specs for name in spec.probes)])
    for name in expected.probes:
        if name not in probes:
            raise unknown("probe", name, probes, where=where)
    return expected.model_copy(update={"mix": mix, "control": control})


def _show(reproduction: Reproduction) -> None:
    from rich.text import Text

    from orchestrator.report.statements import HEADER, over_table, summary
    from orchestrator.report.table import plain_table

    table, rows = plain_table(*HEADER), over_table(reproduction.rows())
    for row in rows:
        table.add_row(*map(Text, row.cells))
    wide_console().print(table)
    typer.echo(summary(rows))


def _write(reproduction: Reproduction, choice: SpaceOptions, folder: Path) -> None:
    from orchestrator.report.statements import markdown, over_table
    from orchestrator.report.words.numbers import counted, duration
    from trainables.files import write_whole

    recipe = ", ".join([f"Profile {choice.profile}", *choice.overrides])
    cost = f"{recipe}: {counted(len(reproduction.sweeps), 'sweep')}, {duration(reproduction.seconds)} of training."
    write_whole(folder / "table.md", markdown(over_table(reproduction.rows()), cost))
