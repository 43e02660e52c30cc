"""Arguments that several commands share, and functions for reading them and for printing.

The options of `run` are fields in sweep/run_options.py. :func:`with_options` turns them into options of a command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from functools import partial
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestrator.catalog.reading import StoredSweep, read_sweep
from orchestrator.history.foreign_time import ForeignTime
from orchestrator.history.sweeps import UnreadableError
from orchestrator.home.directories import Home
from orchestrator.home.new_home import check_home
from orchestrator.home.ownership import foreign_note
from orchestrator.space.spaces import load_space, open_space, variant_names
from orchestrator.space.spec import SweepSpec
from orchestrator.sweep.run_options import PlaceOptions, RunOptions, SpaceOptions
from orchestrator.system.environment import user_path
from orchestrator.system.errors import UserError
from orchestrator.system.hardware import Hardware, detect
from orchestrator.system.printing import Console, echo


def _path(given: str | Path, check: Callable[[Path], object] = lambda path: None) -> Path:
    try:
        check(path := user_path(given))
    except UserError as error:
        raise typer.BadParameter(str(error)) from error
    return path


def _home(given: str | Path) -> Path:
    if not str(given).strip():
        raise typer.BadParameter("must not be empty: omit the option, or pass a directory")
    return _path(given, check_home)


def path_option(help: str) -> Any:
    """Return an option whose value is a file or directory to write."""
    return typer.Option(parser=_path, metavar="PATH", help=help)


SpaceNames = Annotated[
    list[str], typer.Argument(metavar="NAME_OR_FILE...", help="Search spaces' names, or YAML files.")
]
SpaceName = Annotated[str, typer.Argument(metavar="NAME_OR_FILE", help="A search space's name, or a YAML file.")]
SWEEP_HELP = "A sweep's id or its beginning, or a search space's name for its newest sweep."
"""Help of arguments that are sweeps."""
OneSweep = Annotated[str, typer.Argument(metavar="SWEEP", help=SWEEP_HELP)]
NewestSweep = Annotated[str | None, typer.Argument(metavar="SWEEP", help=f"{SWEEP_HELP} By default the newest.")]


def as_in_run(name: str, **settings: Any) -> Any:
    """Return the option of `run` with this name, for another command that also has it."""
    described = RunOptions.__dataclass_fields__[name].metadata["option"]
    return typer.Option(*described["names"], help=described["help"], metavar=described["metavar"], **settings)


HomeOption = Annotated[Path, as_in_run("home", parser=_home)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for other programs.")]


def with_options(
    kind: type[SpaceOptions | PlaceOptions], **types: Any
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn a command's parameter ``options`` into options of the command line, one for each field of ``kind``.

    Args:
        kind: The class of the parameter.
        types: Types of options, by field, that replace the fields' types.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        option_fields = [field for field in fields(kind) if "option" in field.metadata]

        def with_fields(**given: Any) -> None:
            values = {field.name: given.pop(field.name) for field in option_fields}
            command(options=kind(**values), **given)

        parameters = []
        for field in option_fields:
            arguments = dict(field.metadata["option"])
            names = arguments.pop("names")
            written: Any = eval(str(field.type), {"Path": Path})  # Annotations in sweep/run_options.py are strings.
            type_ = types.get(field.name, Annotated[written, typer.Option(*names, **arguments)])
            parameters.append(Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=type_))
        for parameter in signature(command, eval_str=True).parameters.values():
            if parameter.name != "options":
                parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
        with_fields.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        with_fields.__doc__, with_fields.__name__ = command.__doc__, command.__name__
        return with_fields

    return decorate


def resolve(space: str, options: SpaceOptions, hardware: Hardware | None = None) -> SweepSpec:
    """Return the specification of a search space with these options, by default for this machine's hardware."""
    if warning := open_space(space).warning:
        warn(warning)
    return load_space(space, options.profile, options.assignments, hardware, options.variant)


def load_variants(space: str, options: SpaceOptions, hardware: Hardware, most: int | None = None) -> list[SweepSpec]:
    """Return the specifications of a search space: for the chosen variant, or for each variant. ``most`` limits the
    number of variants."""
    chosen = options.variant
    names = (chosen,) if chosen is not None else variant_names(space, options.profile, hardware)[:most] or (None,)
    return [resolve(space, replace(options, variant=name), hardware) for name in names]


def hardware_at(address: str | None) -> Hardware:
    """Return the hardware of the cluster at ``address``, or of this machine."""
    if address is None:
        return detect()
    from orchestrator.engine.ray.cluster import cluster_hardware  # Ray takes a second to import.

    return cluster_hardware(address)


def open_home(home: Path) -> Home:
    """Return a home for a command that only reads it. Print a note on stderr if the home is not this user's own."""
    if note := foreign_note(home):
        echo(f"note: {note}", err=True)
    return Home(home.resolve())


def open_sweep(sweep: str | None, home: Home) -> StoredSweep:
    """Return the sweep with this name, by default the newest. Print messages about damaged files and changed code on
    stderr.

    Raises:
        UserError: If no sweep or several sweeps match.
        UnreadableError: If the sweep cannot be read.
    """
    stored = read_sweep(home, sweep)
    for text in stored.warnings:
        warn(text)
    return stored


def open_sweeps(sweep_ids: Iterable[str], home: Home) -> list[StoredSweep]:
    """Return several sweeps, as :func:`open_sweep` does. Also raise ``UnreadableError`` if those of others take too
    long."""
    limit = ForeignTime(home)
    opened: list[StoredSweep] = []
    for sweep_id in sweep_ids:
        stored = limit.read(sweep_id, partial(open_sweep, sweep_id, home))
        if isinstance(stored, UnreadableError):
            raise stored
        opened.append(stored)
    return opened


def warn(text: str) -> None:
    """Print a warning on stderr."""
    echo(f"warning: {text}", err=True)


def wide_console() -> Console:
    """Return a console for tables. If the output is not a terminal, its lines are so long that tables do not wrap."""
    console = Console()
    return console if console.is_terminal else Console(width=200)
