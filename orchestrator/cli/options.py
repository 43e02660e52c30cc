"""Arguments and options that several commands share, and the functions that read them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.errors import UserError

if TYPE_CHECKING:
    from orchestrator.space.hardware import Hardware
    from orchestrator.space.layers import Assignment
    from orchestrator.space.spaces import Resolved
    from orchestrator.space.spec import SweepSpec


def _spaces(begun: str) -> list[str]:
    """Completions of a search space's name; the shell completes files itself."""
    from orchestrator.space.files import names

    return [name for name in names() if name.startswith(begun)]


def _sweeps(context: typer.Context, begun: str) -> list[str]:
    """Completions of a sweep's id, from the home that the line names so far."""
    from orchestrator.home.files import Home

    home = context.params.get("home") or DEFAULT_HOME
    return [sweep for sweep in Home(Path(home).resolve()).sweep_ids() if sweep.startswith(begun)]


def _home(given: str | Path) -> Path:
    """The directory of a home by what a person calls it."""
    from orchestrator.home.bucket_home import local_directory
    from orchestrator.home.files import check_home

    try:
        root = local_directory(given)
        check_home(root)
    except UserError as error:
        raise typer.BadParameter(str(error)) from error
    return root


def _opened(context: typer.Context, home: Path) -> Path:
    """A home in an object store is brought up to date first, and what the command changes copied there when it ends."""
    from orchestrator.home.bucket_home import bucket_of, follow, open_home

    if not context.resilient_parsing:  # Else a shell asks what could stand here.
        open_home(home, lambda said: typer.echo(said, err=True))
        if bucket_of(home) is not None:
            context.call_on_close(follow(home))
    return home


SpaceName = Annotated[
    str,
    typer.Argument(metavar="NAME_OR_FILE", help="A search space's name, or a YAML file.", autocompletion=_spaces),
]
SWEEP_HELP = "A sweep's id, the beginning of one, or a search space's name for its newest sweep."
SweepName = Annotated[str | None, typer.Argument(metavar="[SWEEP]", help=SWEEP_HELP, autocompletion=_sweeps)]
OneSweep = Annotated[str, typer.Argument(metavar="SWEEP", help=SWEEP_HELP, autocompletion=_sweeps)]
Profile = Annotated[
    str | None,
    typer.Option(help="Take this profile; by default the largest that the machine or cluster can finish."),
]
VariantOption = Annotated[
    str | None,
    typer.Option("--variant", metavar="NAME", help="One of the search space's variants, where it has some."),
]
Override = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override a field by its path: --set search.method=grid."),
]
StackOption = Annotated[
    str | None,
    typer.Option(
        metavar="N|auto",
        help="Train at most this many runs as one batched model; auto: by a rule from memory and width.",
    ),
]
GpuFraction = Annotated[
    str | None,
    typer.Option(metavar="SHARE|auto", help="Give each stack this share of a GPU, such as 0.5; 0 trains on the CPU."),
]
ScratchOption = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Keep training data here, on each machine; by default in a private temporary directory.",
    ),
]
HomeOption = Annotated[
    Path,
    typer.Option(
        parser=_home,
        callback=_opened,
        metavar="DIR|s3://...",
        help="The directory of the sweeps and of the default MLflow store, or s3://BUCKET/PREFIX.",
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the full traceback of an error.")]
Address = Annotated[str | None, typer.Option(help="Use the Ray cluster at this address.")]
Resume = Annotated[
    str | None,
    typer.Option(metavar="[SWEEP]", help="Continue a sweep; without an id, the newest unfinished one."),
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="With --resume: train runs that failed again.")]
Extend = Annotated[
    str | None, typer.Option(metavar="SWEEP", help="Start a new sweep that begins with this one's finished runs.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Train every run anew, also those that lie in the home already.")]
LocalDebug = Annotated[
    bool, typer.Option("--local-debug", help="Train in this process, without Ray, to step through in a debugger.")
]
Dashboard = Annotated[
    bool, typer.Option("--dashboard", help="Start Ray's dashboard as well, reachable from this machine only.")
]
Watch = Annotated[
    bool, typer.Option("--watch", help="Serve the page of all sweeps while this runs, for a browser on this machine.")
]
MaxTime = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Stop after this time, 2h or 45min, as Ctrl-C does: --resume goes on."),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the answer alone, when it is there.")]
DEFAULT_HOME = Path("results")
PROGRAM = "python -m orchestrator"
"""How a person calls it."""
UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(h|min|m|s)")


def load(
    space: str, profile: str | None, overrides: Sequence[str | Assignment] | None, variant: str | None = None
) -> tuple[SweepSpec, Hardware]:
    """The same as :func:`load_resolved`, without the origins of values."""
    resolved, hardware = load_resolved(space, profile, overrides, variant)
    return resolved.spec, hardware


def load_variants(
    space: str,
    profile: str | None,
    overrides: Sequence[str | Assignment] | None,
    variant: str | None = None,
    address: str | None = None,
) -> tuple[list[SweepSpec], Hardware]:
    """The sweeps that a name or file asks for, one for each of its variants, or for the one that is named; and the
    hardware by which the profile was chosen: that of the cluster at ``address``, or of this machine."""
    from orchestrator.space.spaces import load_space, variant_names

    hardware = hardware_at(address)
    names = (variant,) if variant is not None else variant_names(space, profile, hardware) or (None,)
    return [load_space(space, profile, overrides or (), hardware, name) for name in names], hardware


def hardware_at(address: str | None) -> Hardware:
    """The hardware of the cluster at ``address``, or of this machine."""
    from orchestrator.space.hardware import detect

    if address is None:
        return detect()
    from orchestrator.engine.ray.cluster import cluster_hardware  # Ray takes a second.

    return cluster_hardware(address)


def load_resolved(
    space: str, profile: str | None, overrides: Sequence[str | Assignment] | None, variant: str | None = None
) -> tuple[Resolved, Hardware]:
    """The sweep that a name or file, a profile, overrides and perhaps a variant ask for, and this machine's hardware,
    by which the profile was chosen."""
    from orchestrator.space.spaces import resolve_space

    hardware = hardware_at(None)
    return resolve_space(space, profile, overrides or (), hardware, variant), hardware


def with_sizes(
    overrides: list[str] | None, stack: str | None, gpu_fraction: str | None, scratch: Path | None = None
) -> list[str | Assignment]:
    """The overrides, with those that ``--stack``, ``--gpu-fraction`` and ``--scratch`` stand for."""
    from orchestrator.space.layers import Assignment

    place = None if scratch is None else json.dumps(str(scratch.absolute()))  # What YAML reads as a text.
    sizes = (
        ("resources.max_stack", "--stack", stack),
        ("resources.gpu_per_stack", "--gpu-fraction", gpu_fraction),
        ("resources.scratch", "--scratch", place),
    )
    short = [Assignment(path, value, f"{option} {value}") for path, option, value in sizes if value is not None]
    return [*(overrides or ()), *short]


def seconds_of(option: str, text: str) -> float:
    """``2h``, ``45min``, ``90s`` in seconds. Raises ``UserError``."""
    found = TIME.fullmatch(text.strip())
    if found is None:
        raise UserError(f"{option} {text!r}: write a time such as 2h, 45min or 90s")
    return float(found[1]) * UNITS[found[2]]


def repeated(words: Sequence[str], *options: Mapping[str, object]) -> str:
    """The command of these words and options (:func:`words_of`), as a shell takes it."""
    return shlex.join([*PROGRAM.split(), *words, *words_of(*options)])


def words_of(*options: Mapping[str, object]) -> list[str]:
    """Options as words of a command: those that are None, False or empty are left out, of a list each value has the
    option before it."""
    words: list[str] = []
    for name, given in ((name, given) for each in options for name, given in each.items()):
        if given is True:
            words.append(name)
        elif given not in (None, False):
            for value in given if isinstance(given, list) else [given]:
                words += [name, str(value)]
    return words
