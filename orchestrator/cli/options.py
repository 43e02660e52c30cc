"""Arguments and options that several commands share, and the functions that read them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orchestrator.environment import user_path
from orchestrator.errors import UserError
from orchestrator.sweep.run_options import RunOptions, SpaceOptions

if TYPE_CHECKING:
    from orchestrator.space.hardware import Hardware
    from orchestrator.space.spec import SweepSpec


def _home(given: str | Path) -> Path:
    """The directory of a home, if it can be one."""
    from orchestrator.home.files import check_home

    try:
        if not str(given).strip():
            raise UserError("it is empty: leave it out, or name a directory")
        home = user_path(given)
        check_home(home)
    except UserError as error:
        raise typer.BadParameter(str(error)) from error
    return home


def _path(given: str | Path) -> Path:
    """A path as a person writes it."""
    try:
        return user_path(given)
    except UserError as error:
        raise typer.BadParameter(str(error)) from error


def path_option(help: str, metavar: str = "PATH") -> Any:
    """An option that names a file or a directory to write."""
    return typer.Option(parser=_path, metavar=metavar, help=help)


SpaceName = Annotated[str, typer.Argument(metavar="NAME_OR_FILE", help="A search space's name, or a YAML file.")]
SWEEP_HELP = "A sweep's id, the beginning of one, or a search space's name for its newest sweep."
SweepName = Annotated[str | None, typer.Argument(metavar="[SWEEP]", help=SWEEP_HELP)]
OneSweep = Annotated[str, typer.Argument(metavar="SWEEP", help=SWEEP_HELP)]
HomeOption = Annotated[
    Path,
    typer.Option(
        parser=_home,
        metavar="DIR",
        help=RunOptions.__dataclass_fields__["home"].metadata["option"]["help"],
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the full traceback of an error.")]


def with_options(kind: type[SpaceOptions], **types: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command whose parameter ``options`` is of this kind: the command line has an option for each of its fields,
    of the field's own type or the one in ``types``."""

    def made(command: Callable[..., None]) -> Callable[..., None]:
        named = [each for each in fields(kind) if "option" in each.metadata]

        def called(**given: Any) -> None:
            own = {each.name: given.pop(each.name) for each in named}
            command(options=kind(**own), **given)

        parameters = []
        for each in named:
            told = dict(each.metadata["option"])
            names = told.pop("names")
            written: Any = eval(str(each.type), {"Path": Path})  # In orchestrator/sweep/run_options.py.
            type_ = types.get(each.name, Annotated[written, typer.Option(*names, **told)])
            parameters.append(Parameter(each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=type_))
        for own in signature(command, eval_str=True).parameters.values():
            if own.name != "options":
                parameters.append(own.replace(kind=Parameter.KEYWORD_ONLY))
        called.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        called.__doc__, called.__name__ = command.__doc__, command.__name__
        return called

    return made


def resolve(space: str, options: SpaceOptions, hardware: Hardware | None = None) -> SweepSpec:
    """The sweep that a name or file and these options ask for, by default on this machine."""
    from orchestrator.space.spaces import load_space, open_space

    if said := open_space(space).warning:
        typer.echo(f"warning: {said}", err=True)
    return load_space(space, options.profile, options.assignments, hardware, options.variant)


def load_variants(space: str, options: SpaceOptions, hardware: Hardware) -> list[SweepSpec]:
    """The sweeps that a name or file asks for: one for each of its variants, or for the one that is named."""
    from orchestrator.space.spaces import variant_names

    named = options.variant
    names = (named,) if named is not None else variant_names(space, options.profile, hardware) or (None,)
    return [resolve(space, replace(options, variant=name), hardware) for name in names]


def hardware_at(address: str | None) -> Hardware:
    """The hardware of the cluster at ``address``, or of this machine."""
    from orchestrator.space.hardware import detect

    if address is None:
        return detect()
    from orchestrator.engine.ray.cluster import cluster_hardware  # Ray takes a second.

    return cluster_hardware(address)
