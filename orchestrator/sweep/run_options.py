"""Options of `run`, defined once for the command line, ``orchestrator.run`` and the command that resumes a sweep."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from orchestrator.system.commands import command_line
from orchestrator.system.did_you_mean import unknown
from orchestrator.system.environment import HOME, user_path
from orchestrator.system.errors import UserError

if TYPE_CHECKING:
    from orchestrator.space.overlays import Assignment

UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
"""Seconds of each unit of a duration."""
TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|min|m|s)\s*")
"""A number with its unit, one part of a duration."""


def seconds_of(option: str, text: str) -> float:
    """Return a duration such as ``2h``, ``45min`` or ``1d 12h`` in seconds.

    Args:
        option: The option, for the error.
        text: The duration.

    Raises:
        UserError: if the text is not a duration.
    """
    parts = TIME.findall(text)
    rest = TIME.sub("", text).strip()
    if rest or not parts:
        raise UserError(f"{option} {text!r}: write a time such as 2h, 45min or 1h 30min")
    return sum(float(count) * UNITS[unit] for count, unit in parts)


def option(default: Any, *names: str, help: str, metavar: str | None = None, once: bool = False) -> Any:
    """Return a dataclass field for an option.

    Args:
        default: Default value.
        names: Names of the option, by default ``--field-name``.
        help: Help text.
        metavar: Placeholder for the value in the help.
        once: True if commands that resume the sweep omit the option.
    """
    command_line = {"names": names, "help": help, "metavar": metavar}
    return field(default=default, metadata={"option": command_line, "once": once})


@dataclass(frozen=True, kw_only=True)
class SpaceOptions:
    """Options that select a sweep of a search space."""

    profile: str | None = option(
        None,
        metavar="NAME",
        help="Use this profile. Default: the first profile that fits this machine (see `plan`).",
    )
    variant: str | None = option(None, metavar="NAME", help="Run this variant of the search space.")
    overrides: list[str] = option(
        (), "--set", metavar="KEY=VALUE", help="Override a field by its path: --set search.method=grid."
    )

    def words(self) -> list[str]:
        """Return options as command-line words, without ``once`` options and default values."""
        words: list[str] = []
        for option_field in fields(self):
            value = getattr(self, option_field.name)
            metadata = option_field.metadata
            if metadata.get("once", True) or value == option_field.default:
                continue
            name = (*metadata["option"]["names"], f"--{option_field.name.replace('_', '-')}")[0]
            if value is True:
                words.append(name)
            else:
                values = value if isinstance(value, list | tuple) else [value]
                words += [word for item in values for word in (name, str(item))]
        return words

    @property
    def assignments(self) -> list[str | Assignment]:
        """Assignments of values in the search space that the options stand for."""
        return list(self.overrides)


@dataclass(frozen=True, kw_only=True)
class SizedOptions(SpaceOptions):
    """:class:`SpaceOptions` with short names for some values of ``resources``."""

    stack: str | None = option(
        None,
        metavar="N|auto",
        help="Train at most this many runs as one batched model. With auto, the number depends on memory and width.",
    )
    gpu_fraction: str | None = option(
        None, metavar="SHARE|auto", help="Train each stack on this share of a GPU, such as 0.5; 0 trains on the CPU."
    )
    scratch: Path | None = option(
        None, metavar="DIR", help="Directory for training data on each machine. Default: a private temporary one."
    )

    @property
    def assignments(self) -> list[str | Assignment]:
        from orchestrator.space.overlays import Assignment

        # Quoted, so that YAML reads any path as text.
        scratch = None if self.scratch is None else json.dumps(str(user_path(self.scratch).absolute()))
        short = (
            ("resources.max_stack", "--stack", self.stack),
            ("resources.gpu_per_stack", "--gpu-fraction", self.gpu_fraction),
            ("resources.scratch", "--scratch", scratch),
        )
        assignments = [
            Assignment(path, str(value), f"{name} {value}") for path, name, value in short if value is not None
        ]
        return [*self.overrides, *assignments]


EXCLUDED = (
    ("resume", "extend", "--resume continues a sweep, but --extend starts a new one"),
    ("fresh", "resume", "--fresh trains every run again, but --resume keeps the runs of a sweep"),
    ("fresh", "extend", "--fresh trains every run again, but --extend reuses the runs of a sweep"),
    ("local", "address", "--engine local trains without Ray, so it cannot use --address"),
    ("local", "dashboard", "--engine local trains without Ray, so it has no --dashboard"),
    ("local", "ship", "--engine local trains in this process, so it has no nodes to --ship to"),
    ("address", "dashboard", "the cluster at --address has its own dashboard: omit --dashboard"),
)
"""Pairs of mutually exclusive options, each with the reason."""
ENGINES = ("ray", "local")
"""Values of ``--engine``."""
RECORDS = {"mlflow": "MLflow", "jsonl": "runs.jsonl"}
"""Values of ``--record``, with the names that messages use."""


@dataclass(frozen=True, kw_only=True)
class PlaceOptions:
    """Options that specify where runs are trained and kept. `run` and `reproduce` have them."""

    home: Path = option(HOME, metavar="DIR", help="Directory of the sweeps and of the default MLflow store.")
    address: str | None = option(None, help="Use the Ray cluster at this address.")
    engine: str = option(
        "ray",
        metavar="ray|local",
        help="Train under Ray, or one stack at a time in this process, for example in a debugger.",
    )
    record: str = option(
        "mlflow", metavar="mlflow|jsonl", help="Record runs in MLflow, or as lines of runs.jsonl in the home."
    )


@dataclass(frozen=True, kw_only=True)
class RunOptions(PlaceOptions, SizedOptions):
    """Options of a run. Fields without ``option`` are not on the command line.

    Attributes:
        space: The requested name or file of a search space. Empty if the sweep was started from a specification.
    """

    resume: str | None = option(
        None,
        metavar="[SWEEP]",
        once=True,
        help="Continue this sweep, or the newest unfinished sweep if no id is given.",
    )
    retry_failed: bool = option(False, "--retry-failed", once=True, help="With --resume: train failed runs again.")
    extend: str | None = option(
        None, metavar="SWEEP", once=True, help="Start a new sweep that reuses the finished runs of this sweep."
    )
    fresh: bool = option(False, "--fresh", once=True, help="Train every run again, even if it is already in the home.")
    dashboard: bool = option(False, "--dashboard", help="Start Ray's dashboard, which only this machine can reach.")
    ship: bool = option(
        False, "--ship", help="With --address: send the folder of your family to every node, without hidden files."
    )
    max_time: str | None = option(
        None, metavar="TIME", help="Stop after this time, for example 2h or 45min. Continue with --resume."
    )
    quiet: bool = option(False, "--quiet", "-q", once=True, help="Print only the answer.")

    space: str = ""

    def checked(self) -> Self:
        """Check the options and return them.

        Raises:
            UserError: for an unknown value, mutually exclusive options, or a time limit of zero.
        """
        if self.engine not in ENGINES:
            raise unknown("engine", self.engine, ENGINES)
        if self.record not in RECORDS:
            raise unknown("record", self.record, RECORDS)
        for first, second, reason in EXCLUDED:
            if {getattr(self, first), getattr(self, second)}.isdisjoint({None, False}):
                raise UserError(f"{reason}: use only one")
        if self.retry_failed and self.resume is None:
            raise UserError("--retry-failed trains failed runs of a sweep again: name the sweep with --resume [SWEEP]")
        if self.ship and self.address is None:
            raise UserError("--ship sends the folder of your family to the nodes of a cluster: name it with --address")
        if self.limit_s == 0:
            raise UserError(f"--max-time {self.max_time!r}: the time must be greater than zero, for example 2h")
        return self

    @property
    def limit_s(self) -> float | None:
        """Seconds after which a sweep stops, or None if there is no limit."""
        return None if self.max_time is None else seconds_of("--max-time", self.max_time)

    @property
    def local(self) -> bool:
        """True if stacks train in this process."""
        return self.engine == "local"

    @property
    def line(self) -> str:
        """Command that starts the same sweep, quoted for a shell."""
        return command_line("run", self.space, *self.words()) if self.space else "the same command and"

    @property
    def plan_line(self) -> str:
        """Command that prints the settings, caveats and cost of the same sweep."""
        sized = SizedOptions(**{field.name: getattr(self, field.name) for field in fields(SizedOptions)})
        return command_line("plan", self.space, *sized.words())

    @property
    def sync_line(self) -> str:
        """Command that adds missing records later."""
        kind = [] if self.record == "mlflow" else ["--record", self.record]
        return command_line("sync", *kind, "--home", self.home.resolve())

    def resumed(self, sweep_id: str) -> str:
        """Return the command that continues the sweep."""
        return f"{self.line} --resume {sweep_id}"

    def asking(self, overrides: Sequence[str], extended: str = "") -> str:
        """Return the command of a sweep with other values.

        Args:
            overrides: Values for fields of the search space, as for ``--set``.
            extended: Id of a sweep whose runs the new sweep reuses, or an empty string.
        """
        # Remove earlier values of the same fields, so that commands do not grow.
        changed_fields = {override.partition("=")[0] for override in overrides}
        unchanged = [override for override in self.overrides if override.partition("=")[0] not in changed_fields]
        line = replace(self, overrides=unchanged).line
        changed = SpaceOptions(overrides=list(overrides)).words()
        reused = ["--extend", extended] if extended else []
        return f"{line} {shlex.join([*changed, *reused])}"


SAMPLES = {
    "overrides": '{"seeds": 5} or ["seeds=5"]',
    "max_time": '"2h" or 7200 (seconds)',
    "resume": "True (the newest unfinished sweep) or a sweep's id",
    "home": '"results" or a Path',
    "scratch": '"/scratch" or a Path',
    "stack": '4 or "auto"',
    "gpu_fraction": '0.5 or "auto"',
}
"""Examples of values from Python, for options that are not only text."""
KNOWN_OPTIONS = {field.name: field.type for field in fields(RunOptions) if "option" in field.metadata}
"""Types of all options, by name."""
SWITCHES = [name for name, kind in KNOWN_OPTIONS.items() if kind == "bool"]
"""Names of the options without a value."""


def from_python(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the values that the command line would produce, without those that are None.

    Raises:
        UserError: for an unknown option or a value of the wrong type.
    """
    for name in given:
        if name not in KNOWN_OPTIONS:
            raise unknown("option", name, KNOWN_OPTIONS)
    return {name: _option(name, value) for name, value in given.items() if value is not None}


def home_from_python(given: Any) -> Path:
    """Return a home directory, by default :data:`HOME`. Raises :class:`UserError` for a value of the wrong type."""
    return HOME if given is None else user_path(_option("home", given))


def _option(name: str, value: Any) -> Any:
    """Return the value that the command line would produce for an option."""
    match name, value:
        case "overrides", _:
            return _overrides(value)
        case "resume", bool():
            return "" if value else None
        case _, bool() if name in SWITCHES:
            return value
        case _, bool():  # Otherwise the following case would accept it as a number.
            pass
        case "max_time", int() | float():
            return f"{value:.3f}s"
        case "stack" | "gpu_fraction", int() | float():
            return str(value)
        case "home" | "scratch", os.PathLike():
            return Path(value)
        case _, str() if name not in SWITCHES:
            return value
    sample = SAMPLES.get(name, "True or False" if name in SWITCHES else "text")
    raise UserError(f"{name}={value!r} cannot be used: write {sample}")


def _overrides(value: Any) -> list[str]:
    """Return overrides as ``key=value``, with the value as JSON, which is also YAML."""
    if isinstance(value, Mapping):
        return [f"{key}={_json(str(key), inner)}" for key, inner in value.items()]
    if isinstance(value, str):
        return [value]
    if isinstance(value, Sequence) and all(isinstance(item, str) for item in value):
        return list(value)
    raise UserError(f"overrides={value!r} cannot be used: write {SAMPLES['overrides']}")


def _json(key: str, value: Any) -> str:
    """Return a value as JSON. Raises ``UserError`` if it cannot be written into a search space."""
    try:
        return json.dumps(value, default=lambda inner: inner.tolist())  # numpy's numbers and arrays
    except (TypeError, AttributeError):
        raise UserError(f"overrides: {key} is {value!r}, which cannot be written into a search space") from None
