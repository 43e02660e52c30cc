"""The command `doc`: what settings and probes mean."""

from __future__ import annotations

import inspect
import textwrap
from typing import Annotated

import typer

from orchestrator.cli.options import Debug
from orchestrator.errors import unknown

WIDTH = 96
FamilyOption = Annotated[
    str, typer.Option(metavar="NAME|MODULE:CLASS", help="The family of models whose settings are meant.")
]


def doc_command(
    setting: Annotated[
        str | None, typer.Argument(metavar="[SETTING]", help="A key, whole or its last part; without one, all.")
    ] = None,
    family: FamilyOption = "listops",
    debug: Debug = False,
) -> None:
    """Say what a setting means, may be and is by default.

    Of a probe it says what it finds, and how.

    Examples:

      doc settings.training.learning_rate

      doc resources               all keys below it

      doc --family permutations   every key there is

      doc probes                  every probe: its numbers with their formulas, ranges and sources

      doc probes.separation       one of them; of your own: doc package.module:Class
    """
    from orchestrator.space.settings_documentation import entries
    from trainables.probes.base import BUILT_IN

    if setting is not None and ":" in setting:
        typer.echo(_probe_text(setting))
        return
    every, probes = entries(family), {f"probes.{name}": name for name in BUILT_IN}
    found = [entry for entry in every if _fits(entry.path, setting)]
    asked = {path: name for path, name in probes.items() if setting is not None and _fits(path, setting)}
    if setting is not None and not found and not asked:
        names = [*(entry.path for entry in every), *probes]
        raise unknown("setting", setting, names if "." in setting else {each.rpartition(".")[2] for each in names})
    for entry in found:
        default = f"; by default {entry.default}" if entry.default else ""
        typer.echo(f"{entry.path}: {entry.form}{default}")
        if setting is not None and entry.text:
            typer.echo(textwrap.fill(entry.text, WIDTH, initial_indent="  ", subsequent_indent="  "))
    for path, name in asked.items():
        typer.echo(f"\n{path}: a probe\n" + textwrap.indent(_probe_text(name), "  "))


def _probe_text(name: str) -> str:
    """Documentation of a probe, from its class: its numbers with their formulas, ranges and sources."""
    from trainables.probes.base import load_probe

    return inspect.cleandoc(type(load_probe(name)).__doc__ or "").replace("``", "`")


def _fits(path: str, asked: str | None) -> bool:
    """True if a path is the one asked for, below it, or ends in it."""
    return asked is None or f".{asked}." in f".{path}."
