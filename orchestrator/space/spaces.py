"""From a name or a file on the command line to a validated sweep: inherit, choose a profile, override, check.

``like: OTHER`` lets a file inherit from another one, that one perhaps from a third. The file farthest away is at the
bottom. Each file lays over it first its top level, then its own part of the chosen profile: what a nearer file says
wins over a farther one, and within one file a profile wins over the top level. A variant, which asks the same question
of another task, model or budget, is laid over the profile. The command line wins over all. Mappings are merged key by
key, but for recipes, variants and tuned values of another file: a file's own replace them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from typing import Any

from orchestrator.errors import UserError, nearest, unknown
from orchestrator.space import hardware as machine
from orchestrator.space.expected import expectations_of
from orchestrator.space.files import SpaceFile, read_space, source_of
from orchestrator.space.hardware import Hardware, Needs
from orchestrator.space.mistakes import InvalidDataError, Mistake, leaf_paths, parse
from orchestrator.space.overlays import Assignment, Origin, Values, merge
from orchestrator.space.spec import DEFAULT_FAMILY, SweepSpec
from trainables.base import SettingsError, load_family

CHOSEN_BY = {"profile": "--profile", "profile_reason": "--profile", "variant": "--variant"}
"""Keys of a resolved space that say what was chosen, and the options that choose it."""
WHOLE = ("recipes", "variants", "tuned")
"""Keys of a file that replace what it inherits."""
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
        return reduce(merge, [file.top.data for file in reversed(self.files)], {})

    @property
    def name(self) -> str:
        return str(self.top["name"])

    @property
    def profiles(self) -> dict[str, dict[str, Any]]:
        """The profiles of all files, those of the farthest file first."""
        return reduce(merge, [file.profiles for file in reversed(self.files)], {})

    def in_profile(self, asked: str | None, hardware: Hardware | None) -> Values:
        """The files' values with a profile, the nearest file on top: the one asked for or the largest that
        ``hardware`` (default: this machine) can finish. Raises ``UserError``."""
        profiles, chosen, reason = self.profiles, "", ""
        if not profiles and asked not in (None, self.top.get("profile")):
            raise UserError(f"{self.source} has no profiles, so {asked!r} cannot be chosen")
        if profiles:
            if asked is not None and asked not in profiles:
                raise unknown("profile", asked, profiles, where=self.source)
            chosen, reason = _choose(self.source, profiles, asked, hardware or machine.detect())
        values = Values({}, {(): Origin(self.source)})
        for file in reversed(self.files):
            laid = [file.top]
            if chosen in file.profiles:
                laid.append(file.values.overlay("profile", chosen).without("needs"))
            values = values.without(*(key for key in WHOLE for each in laid if key in each.data))
            for each in laid:
                values = values.under(each)
        if not chosen:
            return values
        origin = Origin("chosen for the hardware found" if asked is None else f"--profile {chosen}")
        said = {"profile": chosen, "profile_reason": reason}
        return values.under(Values(said, {(key,): origin for key in said}))

    @property
    def warning(self) -> str:
        """A sentence if the mixes are this file's own and the question is another's, else ``""``."""
        here = self.files[0]
        asker = next((file for file in self.files if "question" in file.top.data), here)
        if asker is here or here.top.data.get("mixes", asker.top.data.get("mixes")) == asker.top.data.get("mixes"):
            return ""
        return f"{self.source} compares mixes of its own and asks the question of {asker.source}: write `question:`"


def _choose(
    source: str, profiles: Mapping[str, Mapping[str, Any]], asked: str | None, hardware: Hardware
) -> tuple[str, str]:
    """The profile asked for, or the first (largest) whose needs ``hardware`` meets, with the reason in a few words.

    Raises ``UserError``.
    """
    needs = {name: parse(Needs, profile.get("needs") or {}) for name, profile in profiles.items()}
    if asked is not None:
        lacks = needs[asked].missing(hardware)
        return asked, "asked for" + (f", although {' and '.join(lacks)}" if lacks else "")
    passed_over: list[str] = []
    for name, each in needs.items():
        if each.asked:
            continue
        lacks = each.missing(hardware)
        if not lacks:
            found = f" ({hardware.gpu_name} found)" if each.gpu else ""
            return name, "; ".join([*passed_over, f"{name} is the largest this machine can finish{found}"])
        passed_over.append(f"not {name}, as {' and '.join(lacks)}")
    raise UserError(
        f"no profile of {source} fits this machine ({hardware}): {'; '.join(passed_over)}. "
        f"Choose one with --profile: {', '.join(profiles)}."
    )


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
        own, profiles = file.values.data, any(each.profiles for each in space.files[place:])
        if "profile" in own and (profiles or "profile_reason" not in own):  # That of a resolved space is kept.
            file.values.refuse(("profile",), "remove it: write values under profiles:, and choose with --profile NAME")
    return space


def variant_names(name_or_path: str, profile: str | None = None, hardware: Hardware | None = None) -> tuple[str, ...]:
    """The variants of a search space in a profile, chosen as :func:`load_space` does; none if it is one sweep.

    Raises ``UserError``.
    """
    return _variants(open_space(name_or_path).in_profile(profile, hardware))


def load_space(
    name_or_path: str,
    profile: str | None = None,
    overrides: Sequence[str | Assignment] = (),
    hardware: Hardware | None = None,
    variant: str | None = None,
) -> SweepSpec:
    """The sweep a search space asks for, with a profile and ``key.path=value`` overrides.

    ``variant`` names one of the space's variants. Raises ``UserError`` that lists everything wrong with the files or
    the overrides, each with its place.
    """
    values = _asked(name_or_path, profile, overrides, hardware, variant)
    for key, option in CHOSEN_BY.items():
        if values.overridden((key,)):  # A label without its values.
            values.refuse((key,), f"it says what was chosen; choose with {option} NAME")
    try:
        return parse(SweepSpec, values.data)
    except InvalidDataError as error:
        raise UserError("\n".join(_describe(values, mistake) for mistake in error.mistakes)) from error


def _asked(
    name_or_path: str,
    profile: str | None,
    overrides: Sequence[str | Assignment],
    hardware: Hardware | None,
    variant: str | None,
) -> Values:
    """All values that are asked for, as written. Raises ``UserError``."""
    space = open_space(name_or_path)
    expectations_of(space.files[0])  # What is wrong there is said at once.
    return _in_variant(space.in_profile(profile, hardware), variant).under_options(overrides)


def _variants(values: Values) -> tuple[str, ...]:
    return values.names("variant", SHARED)


def _in_variant(values: Values, asked: str | None) -> Values:
    """The values with one variant laid over them. Of several, one must be asked for. Raises ``UserError``."""
    names, source = _variants(values), str(values.origins[()])
    if not names and asked in (None, values.data.get("variant")):
        return values.without("variants")
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
    return values.without("variants").under(values.overlay("variant", asked)).under(named)


def _describe(values: Values, mistake: Mistake) -> str:
    """One line: where, what, and for an incomplete path the whole one."""
    text = f"{values.place(mistake.key)}: {mistake.message}"
    if not mistake.unknown_key:
        return text
    known = [path for path in leaf_paths(SweepSpec) if path not in ("settings", "search.settings")]
    with suppress(SettingsError):  # A wrong family is another line of the message.
        known += leaf_paths(load_family(str(values.data.get("family", DEFAULT_FAMILY))).Settings, "settings.")
    given, lasts = str(mistake.key[-1]), [path.rpartition(".")[2] for path in known]
    meant = nearest(given, lasts) if "Did you mean" not in text else None
    inside = f"{mistake.key[0]}." if len(mistake.key) > 1 else ""
    whole = [path for path in known if path.startswith(inside) and path.endswith((f".{given}", f".{meant}"))]
    return f"{text}. The whole path would be {' or '.join(whole)}" if whole else text
