"""From a name or a file on the command line to a validated sweep: inherit, choose a profile, override, check.

``like: OTHER`` lets a file inherit from another one, that one perhaps from a third. The file farthest away is at the
bottom. Each file lays over it first its top level, then its own part of the chosen profile: what a nearer file says
wins over a farther one, and within one file a profile wins over the top level. A variant is laid over the profile. The
command line wins over all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.errors import UserError, unknown
from orchestrator.space import hardware as machine
from orchestrator.space.files import PROFILE_KEYS, SpaceFile, read_space, source_of
from orchestrator.space.hardware import Hardware
from orchestrator.space.layers import Assignment, Layers, Origin, merge
from orchestrator.space.profiles import ChosenProfile, choose, choose_variant, suit, variants_of
from orchestrator.space.spec import DEFAULT_FAMILY, SweepSpec
from orchestrator.space.validation import InvalidDataError, Key, Mistake, leaf_paths, parse
from trainables.base import SettingsError
from trainables.contract.arms import Arm
from trainables.named import load_family


@dataclass(frozen=True)
class Space:
    """A search space as written: its file and those it inherits from, the nearest first."""

    files: tuple[SpaceFile, ...]

    @property
    def source(self) -> str:
        """The file that was asked for."""
        return self.files[0].source

    @property
    def top(self) -> dict[str, Any]:
        """The top level of all files, without profiles."""
        merged: dict[str, Any] = {}
        for file in reversed(self.files):
            merged = merge(merged, file.top)
        return merged

    @property
    def name(self) -> str:
        """The search space's name."""
        return str(self.top["name"])

    @property
    def profiles(self) -> dict[str, dict[str, Any]]:
        """The profiles of all files, those of the farthest file first."""
        merged: dict[str, dict[str, Any]] = {}
        for file in reversed(self.files):
            merged = merge(merged, file.profiles)
        return merged


@dataclass(frozen=True)
class Resolved:
    """A validated sweep with the layers it was made from.

    ``left_out`` are inherited keys that mean nothing in this space, with the places they are written at.
    """

    spec: SweepSpec
    layers: Layers
    left_out: Mapping[Key, Origin] = field(default_factory=dict)


def open_space(name_or_path: str) -> Space:
    """Read a search space of the project by its name, or any YAML file by its path, with what it inherits from.

    Raises ``UserError``.
    """
    files: dict[str, SpaceFile] = {}
    asked: str | None = name_or_path
    while asked is not None:
        if (source := source_of(asked)) in files:
            chain = " -> ".join([*(file.source for file in files.values()), files[source].source])
            raise UserError(f"{files[source].source} is like itself: {chain}")
        files[source] = read_space(asked)
        asked = files[source].like
    space = Space(tuple(files.values()))
    for place, file in enumerate(space.files):
        if any(each.profiles for each in space.files[place:]):
            for key in PROFILE_KEYS:
                if key in file.top:
                    file.refuse((key,), "is decided by the profiles; remove it, and choose with --profile NAME")
    for file in space.files:
        if "profile" in file.top and "profile_reason" not in file.top:
            hint = "it says what a resolved space was made with; write what differs under profiles: NAME:"
            file.refuse(("profile",), f"{hint}, and choose with --profile NAME")
    return space


def load_space(
    name_or_path: str,
    profile: str | None = None,
    overrides: Sequence[str | Assignment] = (),
    hardware: Hardware | None = None,
    variant: str | None = None,
) -> SweepSpec:
    """The sweep a search space asks for: see :func:`resolve_space`."""
    return resolve_space(name_or_path, profile, overrides, hardware, variant).spec


def variant_names(name_or_path: str, profile: str | None = None, hardware: Hardware | None = None) -> tuple[str, ...]:
    """The variants of a search space in a profile, chosen as :func:`resolve_space` does; none where it is one sweep.

    Raises ``UserError``.
    """
    space = open_space(name_or_path)
    return variants_of(_layers(space, _choice(space, profile, hardware), asked=profile is not None))


def resolve_space(
    name_or_path: str,
    profile: str | None = None,
    overrides: Sequence[str | Assignment] = (),
    hardware: Hardware | None = None,
    variant: str | None = None,
) -> Resolved:
    """The sweep a search space asks for, with a profile and ``key.path=value`` overrides, and each value's origin.

    Without ``profile`` the largest one that ``hardware`` (default: this machine) can finish is taken. ``variant`` names
    one of the space's variants, where it has some. An inherited ``tuned:`` entry for a mix that this space does not
    have is left out. Raises ``UserError`` that lists everything wrong with the files or the overrides, each with its
    place.
    """
    space = open_space(name_or_path)
    layers = _layers(space, _choice(space, profile, hardware), asked=profile is not None)
    choose_variant(layers, variant)
    layers.add_overrides(overrides)
    suit(layers, lambda: hardware or machine.detect())
    _refuse_choices(layers)
    try:
        left_out = _leave_out_other_mixes(layers, space.source)
        return Resolved(parse(SweepSpec, layers.data), layers, left_out)
    except InvalidDataError as error:
        raise UserError("\n".join(_describe(layers, mistake) for mistake in error.mistakes)) from error


CHOSEN_BY = {"profile": "--profile", "profile_reason": "--profile", "variant": "--variant"}
"""Keys of a resolved space that say what was chosen, and the options that choose it."""


def _refuse_choices(layers: Layers) -> None:
    """Raise ``UserError`` where the command line sets the name of a choice: a label without its values."""
    for key, option in CHOSEN_BY.items():
        if layers.overridden((key,)):
            raise UserError(f"{layers.place((key,))}: it says what was chosen; choose with {option} NAME")


def _choice(space: Space, asked: str | None, hardware: Hardware | None) -> ChosenProfile | None:
    """The profile to take; None where there are none. Raises ``UserError``."""
    profiles = space.profiles
    if not profiles:
        if asked is None or asked == space.top.get("profile"):
            return None
        raise UserError(f"{space.source} has no profiles, so {asked!r} cannot be chosen")
    if asked is not None and asked not in profiles:
        raise unknown("profile", asked, profiles, where=space.source)
    return choose(space.source, profiles, asked, hardware or machine.detect())


def _layers(space: Space, choice: ChosenProfile | None, *, asked: bool) -> Layers:
    """The files' values with the chosen profile, the nearest file on top."""
    layers = Layers(space.source)
    for file in reversed(space.files):
        layers.add(file.top, file.top_origins)
        if choice is not None and choice.name in file.profiles:
            written = {key: value for key, value in file.profiles[choice.name].items() if key != "needs"}
            layers.add(written, file.profile_origins(choice.name))
    if choice is not None:
        origin = Origin(f"--profile {choice.name}" if asked else "chosen for the hardware found")
        layers.add({"profile": choice.name, "profile_reason": choice.reason}, {(key,): origin for key in PROFILE_KEYS})
    return layers


def _leave_out_other_mixes(layers: Layers, source: str) -> dict[Key, Origin]:
    """Take inherited ``tuned:`` entries for mixes that the space does not have out of the layers; those taken out.

    An entry that the space's own file or the command line says anything about stays, to be refused. Raises
    ``InvalidDataError`` where the space is wrong without any of them.
    """
    tuned = layers.data.get("tuned")
    names = tuned if isinstance(tuned, Mapping) else {}
    inherited = {name for name in names if not _said_here(layers, ("tuned", name), source)}
    if not inherited:
        return {}
    own = {name: values for name, values in names.items() if name not in inherited}
    mixes = parse(SweepSpec, layers.data | {"tuned": own}).mix_named
    others = [name for name in names if name in inherited and _is_other_mix(name, mixes)]
    return {("tuned", name): layers.drop(("tuned", name)) for name in others}


def _said_here(layers: Layers, key: Key, source: str) -> bool:
    """True if the file ``source`` or the command line wrote ``key`` or anything inside it."""
    return any(origin.sets is not None or origin.source == source for origin in layers.written_by(key))


def _is_other_mix(name: str, mixes: Mapping[str, Arm]) -> bool:
    """Whether ``name`` is that of a mix, well written, and of none of these."""
    try:
        return Arm.parse(name).name not in mixes
    except SettingsError:
        return False


def _describe(layers: Layers, mistake: Mistake) -> str:
    """One line: where, what, and for an incomplete path after ``--set`` the whole one."""
    text = f"{layers.place(mistake.key)}: {mistake.message}"
    if mistake.unknown_key and layers.overridden(mistake.key):
        last = str(mistake.key[-1])
        paths = [path for path in _all_paths(layers.data) if path.endswith(f".{last}")]
        text += f". The whole path would be {' or '.join(paths)}" if paths else ""
    return text


def _all_paths(data: Mapping[str, Any]) -> list[str]:
    """Every key a sweep of this family may set, dotted."""
    paths = [path for path in leaf_paths(SweepSpec) if path not in ("settings", "search.settings")]
    try:
        paths += leaf_paths(load_family(str(data.get("family", DEFAULT_FAMILY))).Settings, "settings.")
    except SettingsError:  # The family is wrong too; that is another line of the message.
        return paths
    return paths
