"""All experiments at once: what was expected, what was found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from orchestrator.cli.options import Debug, HomeOption, hardware_at, load_variants
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
        typer.Argument(metavar="[SPACE]...", help="Search spaces; by default all that come with the project."),
    ] = None,
    profile: Annotated[str, typer.Option(help="The profile to run every one in.")] = "laptop",
    budget: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Begin no sweep that is expected to end later: 2h, 45min; 0s runs nothing."),
    ] = None,
    home: HomeOption = HOME,
    address: Annotated[str | None, typer.Option(help="Use the Ray cluster at this address.")] = None,
    engine: Annotated[
        str, typer.Option(metavar="ray|local", help="Train under Ray, or one stack after another in this process.")
    ] = "ray",
    debug: Debug = False,
) -> None:
    """Run all experiments and compare them with what is expected.

    Sweeps that were answered are not run again, unfinished ones go on: interrupt and repeat it as you like.
    """
    from orchestrator.home.files import Home
    from orchestrator.sweep.reproduce import Reproduction

    seconds = None if budget is None else seconds_of("--budget", budget)
    place, hardware, console = Home(home.resolve()), hardware_at(address), Console()
    experiments = [_experiment(name, profile, address) for name in spaces or _all(profile)]
    found = Reproduction(experiments, place, hardware, console)
    folder = place.root / "reproduce" / profile
    options = RunOptions(home=home, address=address, hardware=hardware, engine=engine).started()
    try:
        found.run(options, seconds, lambda: _write(found, folder))
    finally:
        _show(found)
        _write(found, folder)
        typer.echo(f"table   {folder / 'table.md'}")


def _all(profile: str) -> list[str]:
    """The shipped search spaces that expect anything and have the profile; says which have not. Raises ``UserError``
    where none has."""
    from orchestrator.space.files import names
    from orchestrator.space.spaces import open_space

    asked = [space for space in map(open_space, names()) if space.files[0].expects]
    there = [space.name for space in asked if profile in space.profiles]
    if not there:
        raise unknown("profile", profile, sorted({each for space in asked for each in space.profiles}))
    for space in asked:
        if space.name not in there:
            typer.echo(f"{space.name} has no profile {profile!r}: it is left out", err=True)
    return there


def _experiment(name: str, profile: str, address: str | None) -> Experiment:
    from orchestrator.space.expected import expectations_of
    from orchestrator.space.spaces import open_space
    from orchestrator.sweep.reproduce import Experiment

    space = open_space(name)
    file = space.files[0]
    expected = expectations_of(file)
    if not expected:
        raise UserError(f"{file.source} expects nothing (`expects:`), so there is nothing to set its answer beside")
    specs = load_variants(name, SpaceOptions(profile=profile if space.profiles else None), hardware_at(address))
    where = f"{file.source}, expects"
    return Experiment(specs[0].name, tuple(specs), tuple(_asked(each, specs, where) for each in expected))


def _asked(expected: Expectation, specs: Sequence[SweepSpec], where: str) -> Expectation:
    """A statement with its mixes as these sweeps name them. Raises ``UserError`` for one that no sweep can answer."""
    from trainables.contract.arms import as_named
    from trainables.probes.base import BUILT_IN, load_probe

    mixes = tuple(dict.fromkeys(name for spec in specs for name in spec.plain_mixes))
    mix, control = (as_named(name, mixes) for name in (expected.mix, expected.control))
    for name in (mix, control):
        if name not in ("*", "", *mixes):
            raise unknown("mix", name, mixes, where=where)
    if mix == mixes[0] and not expected.than and expected.finds in ("fewer", "no fewer", "higher", "lower"):
        raise UserError(f"{where}: {mix} is the baseline, with which others are compared: name another mix")
    if not any(expected.is_about(spec.variant) for spec in specs):
        raise unknown("variant", expected.variant, [spec.variant for spec in specs], where=where)
    probes = dict.fromkeys([*BUILT_IN, *(load_probe(name).name for spec in specs for name in spec.probes)])
    for name in expected.probes:
        if name not in probes:
            raise unknown("probe", name, probes, where=where)
    return expected.model_copy(update={"mix": mix, "control": control})


def _show(found: Reproduction) -> None:
    from rich.table import Table
    from rich.text import Text

    from orchestrator.report.statements import HEADER, over_table, summary

    table = Table(box=None, pad_edge=False)
    for header in HEADER:
        table.add_column(header, overflow="fold")
    rows = over_table(found.rows())
    for row in rows:
        table.add_row(*map(Text, row.cells))
    wide_console().print(table)
    typer.echo(summary(rows))


def _write(found: Reproduction, folder: Path) -> None:
    from orchestrator.report.statements import markdown, over_table
    from orchestrator.report.words.numbers import counted, duration
    from trainables.files import write_whole

    rows, cost = (
        over_table(found.rows()),
        f"{counted(len(found.sweeps), 'sweep')}, {duration(found.seconds)} of training.",
    )
    write_whole(folder / "table.md", markdown(rows, cost))
