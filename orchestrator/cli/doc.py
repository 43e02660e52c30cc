"""The command `doc`: the meaning of settings and probes."""

from __future__ import annotations

import inspect
import textwrap
from typing import Annotated

import typer

from orchestrator.errors import unknown

WIDTH = 96
FamilyOption = Annotated[
    str, typer.Option(metavar="NAME|MODULE:CLASS", help="The family of models with these settings.")
]


def doc_command(
    setting: Annotated[
        str | None, typer.Argument(metavar="[SETTING]", help="A full key or its last part; by default all keys.")
    ] = None,
    family: FamilyOption = "listops",
) -> None:
    """Explain a setting: its meaning, values and default; or a probe: its numbers.

    Examples:

      doc settings.training.learning_rate

      doc resources               all keys below this one

      doc --family permutations   every key

      doc probes                  every probe: its numbers with their formulas, ranges and sources

      doc probes.separation       one probe; for your own: doc package.module:Class
    """
    from orchestrator.space.settings_documentation import entries
    from trainables.probes.base import BUILT_IN

    if setting is not None and ":" in setting:
        typer.echo(_probe_text(setting))
        return
    all_entries, all_probes = entries(family), {f"probes.{name}": name for name in BUILT_IN}
    settings = [entry for entry in all_entries if _fits(entry.path, setting)]
    probes = {path: name for path, name in all_probes.items() if setting is not None and _fits(path, setting)}
    if setting is not None and not settings and not probes:
        paths = [*(entry.path for entry in all_entries), *all_probes]
        raise unknown("setting", setting, paths if "." in setting else {path.rpartition(".")[2] for path in paths})
    for entry in settings:
        default = f"; by default {entry.default}" if entry.default else ""
        typer.echo(f"{entry.path}: {entry.form}{default}")
        if setting is not None and entry.text:
            typer.echo(textwrap.fill(entry.text, WIDTH, initial_indent="  ", subsequent_indent="  "))
    for path, name in probes.items():
        typer.echo(f"\n{path}: a probe\n" + textwrap.indent(_probe_text(name), "  "))


def _probe_text(name: str) -> str:
    """Return the documentation of a probe's class: its numbers with their formulas, ranges and sources."""
    from trainables.probes.base import load_probe

    return inspect.cleandoc(type(load_probe(name)).__doc__ or "").replace("``", "`")


def _fits(path: str, given: str | None) -> bool:
    """Return whether a path is the given path, below it, or ends in it."""
    return given is None or f".{given}." in f".{path}."
