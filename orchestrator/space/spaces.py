"""From a name or a file on the command line to a validated sweep: inherit, choose a profile, override, check.

``like: OTHER`` lets a file inherit from another one, that one perhaps from a third. The file farthest away is at the
bottom. Each file lays over it first its top level, then its own part of the chosen profile: what a nearer file says
wins over a farther one, and within one file a profile wins over the top level. A variant, which asks the same question
of another task, model or budget, is laid over the profile. The command line wins over all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from orchestrator.errors import UserError, nearest, unknown
from orchestrator.space import hardware as machine
from orchestrator.space import strict_yaml
from orchestrator.space.files import MOST_OVERLAYS, SpaceFile, read_space, source_of
from orchestrator.space.hardware import Hardware
from orchestrator.space.overlays import Assignment, Origin, Values, merge
from orchestrator.space.profiles import choose, suit
from orchestrator.space.settings import flatten
from orchestrator.space.spec import DEFAULT_FAMILY, SweepSpec
from orchestrator.space.validation import InvalidDataError, Key, Mistake, dotted, leaf_paths, parse
from trainables.base import SettingsError, load_family
from trainables.contract.arms import Arm

CHOSEN_BY = {"profile": "--profile", "profile_reason": "--profile", "variant": "--variant"}
"""Keys of a resolved space that say what was chosen, and the options that choose it."""
PROFILE_KEYS = ("profile", "profile_reason")
SHARED = ("name", "question", "family", *CHOSEN_BY, "along", "variants")
"""Keys that say what a search space asks; its variants share them."""


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
            merged = merge(merged, file.top.data)
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

    def in_profile(self, asked: str | None, hardware: Hardware | None) -> Values:
        """The files' values with a profile, the nearest file on top: the one asked for or the largest that
        ``hardware`` (default: this machine) can finish. Raises ``UserError``."""
        profiles, chosen, reason = self.profiles, "", ""
        if not profiles and asked not in (None, self.top.get("profile")):
            raise UserError(f"{self.source} has no profiles, so {asked!r} cannot be chosen")
        if profiles:
            if asked is not None and asked not in profiles:
                raise unknown("profile", asked, profiles, where=self.source)
            chosen, reason = choose(self.source, profiles, asked, hardware or machine.detect())
        values = Values({}, {(): Origin(self.source)})
        for file in reversed(self.files):
            values = values.under(file.top)
            if chosen in file.profiles:
                values = values.under(file.values.overlay("profile", chosen).without(("needs",)))
        if not chosen:
            return values
        origin = Origin("chosen for the hardware found" if asked is None else f"--profile {chosen}")
        said = {"profile": chosen, "profile_reason": reason}
        return values.under(Values(said, {(key,): origin for key in said}))


@dataclass(frozen=True)
class Resolved:
    """A validated sweep with the values it was made from.

    ``left_out`` are inherited keys that mean nothing in this space, with the places they are written at.
    """

    spec: SweepSpec
    values: Values
    left_out: Mapping[Key, Origin] = field(default_factory=dict)

    @property
    def warning(self) -> str:
        """A sentence if the question is another space's and the mixes are not, else ``""``."""
        here = str(self.values.origins[()])
        asked, mixes = (self.values.origins[(key,)] for key in ("question", "mixes"))
        if mixes.source != here or asked.source == here or asked.sets is not None:
            return ""
        return f"{here} compares mixes of its own and asks the question of {asked.source}: write `question:`"


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
        own = file.values.data
        if any(each.profiles for each in space.files[place:]):
            for key in PROFILE_KEYS:
                if key in own:
                    file.values.refuse((key,), "is decided by the profiles; remove it, and choose with --profile NAME")
        if "profile" in own and "profile_reason" not in own:
            hint = "it says what a resolved space was made with; write what differs under profiles: NAME:"
            file.values.refuse(("profile",), f"{hint}, and choose with --profile NAME")
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
    """The variants of a search space in a profile, chosen as :func:`resolve_space` does; none if it is one sweep.

    Raises ``UserError``.
    """
    return _variants(open_space(name_or_path).in_profile(profile, hardware))


def resolve_space(
    name_or_path: str,
    profile: str | None = None,
    overrides: Sequence[str | Assignment] = (),
    hardware: Hardware | None = None,
    variant: str | None = None,
) -> Resolved:
    """The sweep a search space asks for, with a profile and ``key.path=value`` overrides, and each value's origin.

    ``variant`` names one of the space's variants. An inherited ``tuned:`` entry for a mix that this space does not
    have is left out. Raises ``UserError`` that lists everything wrong with the files or the overrides, each with its
    place.
    """
    space = open_space(name_or_path)
    values = _in_variant(space.in_profile(profile, hardware), variant).under_options(overrides)
    values = suit(values, lambda: hardware or machine.detect())
    for key, option in CHOSEN_BY.items():
        if values.overridden((key,)):  # A label without its values.
            values.refuse((key,), f"it says what was chosen; choose with {option} NAME")
    try:
        left_out = _tuned_for_other_mixes(values, space.source)
        values = values.without(*left_out)
        return Resolved(parse(SweepSpec, values.data), values, left_out)
    except InvalidDataError as error:
        raise UserError("\n".join(_describe(values, mistake) for mistake in error.mistakes)) from error


def _variants(values: Values) -> tuple[str, ...]:
    return values.names("variant", SHARED, MOST_OVERLAYS)


def _in_variant(values: Values, asked: str | None) -> Values:
    """The values with one variant laid over them. Of several, one must be asked for. Raises ``UserError``."""
    names, source = _variants(values), str(values.origins[()])
    if not names and asked in (None, values.data.get("variant")):
        return values
    if not names:
        raise UserError(f"{source} has no variants, so {asked!r} cannot be chosen")
    if asked is None:
        raise UserError(
            f"{source} asks several variants, each a sweep of its own: give one of them with --variant "
            f"({', '.join(names)})"
        )
    if asked not in names:
        raise unknown("variant", asked, names, where=source)
    named = Values({"variant": asked}, {("variant",): values.origins["variants", asked]})
    return values.without(("variants",)).under(values.overlay("variant", asked)).under(named)


def _tuned_for_other_mixes(values: Values, source: str) -> dict[Key, Origin]:
    """Inherited ``tuned:`` entries for mixes that the space does not have. An entry that the space's own file or the
    command line says anything about is none of them: it is refused, as is a mix in another order."""
    tuned = values.data.get("tuned")
    inherited: list[Key] = [
        ("tuned", name)
        for name in (tuned if isinstance(tuned, Mapping) else ())
        if all(each.sets is None and each.source != source for each in values.written_by(("tuned", name)))
    ]
    if not inherited:
        return {}
    mixes = parse(SweepSpec, values.without(*inherited).data).mix_named
    return {key: values.origins[key] for key in inherited if _is_other_mix(str(key[1]), mixes)}


def _is_other_mix(name: str, mixes: Mapping[str, Arm]) -> bool:
    """True if ``name`` is that of a mix, well written, and of none of these."""
    try:
        return Arm.parse(name).name not in mixes
    except SettingsError:
        return False


def _describe(values: Values, mistake: Mistake) -> str:
    """One line: where, what, and for an incomplete path after ``--set`` the whole one."""
    text = f"{values.place(mistake.key)}: {mistake.message}"
    if not mistake.unknown_key or not values.overridden(mistake.key):
        return text
    known = [path for path in leaf_paths(SweepSpec) if path not in ("settings", "search.settings")]
    with suppress(SettingsError):  # A wrong family is another line of the message.
        known += leaf_paths(load_family(str(values.data.get("family", DEFAULT_FAMILY))).Settings, "settings.")
    given, lasts = str(mistake.key[-1]), [path.rpartition(".")[2] for path in known]
    meant = nearest(given, lasts) if "Did you mean" not in text else None
    whole = [path for path in known if path.endswith((f".{given}", f".{meant}"))]
    return f"{text}. The whole path would be {' or '.join(whole)}" if whole else text


WIDEST = 48
"""Comments stand in one column, but for those after lines longer than this."""


def with_origins(resolved: Resolved) -> str:
    """YAML that resolves to this very sweep, each value with its origin: a file's line, an option or ``default``.

    Inherited keys that were left out follow as comments.
    """
    text = resolved.spec.to_yaml()
    comments = {line: _origin_of(resolved.values, key) for key, line in strict_yaml.last_lines(text).items()}
    lines = text.rstrip("\n").split("\n")
    column = max((len(line) for line in lines if len(line) <= WIDEST), default=0)
    for number, said in comments.items():
        lines[number - 1] = f"{lines[number - 1]:<{column}}  {_comment(said)}"
    for key, origin in resolved.left_out.items():
        lines.append(_comment(f"left out, as this space has no such mix: {dotted(key)}, {origin}"))
    return "\n".join([*lines, ""])


def _origin_of(values: Values, key: Key) -> str:
    """The origin of a value in words; of several, if its parts were written at several places."""
    path = dotted(key)
    # By path, as a path may be written dotted or nested; without entries of lists.
    origins = {dotted(each): origin for each, origin in values.origins.items() if each and isinstance(each[-1], str)}
    parts = [each for each in flatten(values.data) if each == path or each.startswith(f"{path}.")]
    if not parts and path in origins:  # An empty mapping was written.
        parts = [path]
    elif not parts and path.startswith("recipes."):  # A recipe that is not written stems from the lists it varies.
        parts = ["recipes.vary"]
    return "; ".join(dict.fromkeys(str(origins[each]) for each in parts)) or "default"


def _comment(text: str) -> str:
    """One line that YAML takes for a comment, whatever was typed on the command line."""
    return "# " + "".join(each if each.isprintable() else " " for each in text)
