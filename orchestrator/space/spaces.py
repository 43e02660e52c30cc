"""From a name or file on the command line to a validated sweep: inherit, choose a profile, override, check.

``like: OTHER`` lets a file inherit from another file, which may inherit from a third. Nearer files override farther
files, and within a file the chosen profile overrides the top level. A variant, which asks the same question of another
task, model or budget, overrides the profile. The command line overrides everything. Mappings are merged key by key,
except that the recipes, variants and tuned values of a file replace the inherited ones.
"""

from __future__ import annotations

import codecs
import os
import re
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, reduce
from importlib import resources
from pathlib import Path
from typing import Any

from orchestrator.home.foreign_files import MOST_SPACE_BYTES
from orchestrator.home.trusted_code import UntrustedCodeError, check_script, import_named, is_in_sweep, named_code
from orchestrator.space import strict_yaml
from orchestrator.space.expectations import expectations_of
from orchestrator.space.overlays import Assignment, Origin, Values, merge
from orchestrator.space.parsing import NAME, InvalidDataError, Key, Mistake, explain, leaf_paths, parse, unknown_key
from orchestrator.space.profiles import Needs, choose_profile
from orchestrator.space.spec import SweepSpec
from orchestrator.space.written_spec import DEFAULT_FAMILY, SCRIPT
from orchestrator.system import hardware as machine
from orchestrator.system.did_you_mean import did_you_mean, nearest, unknown
from orchestrator.system.environment import user_path
from orchestrator.system.errors import UserError
from orchestrator.system.hardware import Hardware
from trainables.base import SettingsError
from trainables.contract.user_code import offer
from trainables.families import load_family, refresh
from trainables.script.options import ScriptOptions

PACKAGE = "search_spaces"
SUFFIXES = (".yaml", ".yml")
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
SEPARATE = ("profiles", "like", "expects")
"""Keys of a file that are not values of a sweep."""
MERGED = ("like", "profiles", "variants")
"""Keys of a file whose values are merged later over the values at its top level."""
CHOSEN_BY = {"profile": "--profile", "profile_reason": "--profile", "variant": "--variant"}
"""Keys of a resolved space that record a choice, and the options for it."""
WHOLE = ("recipes", "variants", "tuned")
"""Keys of a file that replace inherited values."""
SHARED = ("name", "question", "family", "script", *CHOSEN_BY, "along", "variants")
"""Keys that all variants of a search space share."""


@dataclass(frozen=True)
class Space:
    """A search space as written: its file and the files it inherits from, nearest first."""

    files: tuple[Values, ...]

    @property
    def source(self) -> str:
        """The requested file."""
        return self.files[0].source

    @property
    def top(self) -> dict[str, Any]:
        """Top level of all files, without profiles."""
        return reduce(merge, [file.without(*SEPARATE).data for file in reversed(self.files)], {})

    @property
    def name(self) -> str:
        return str(self.top["name"])

    @property
    def profiles(self) -> dict[str, dict[str, Any]]:
        """Profiles of all files, farthest file first."""
        return reduce(merge, [file.data.get("profiles") or {} for file in reversed(self.files)], {})

    def in_profile(self, requested: str | None, hardware: Hardware | None) -> Values:
        """Return the values of all files under the requested profile, by default the first that fits ``hardware``.

        ``hardware`` is by default this machine's. Raises ``UserError`` if there is no such profile, or none that fits.
        """
        profiles = self.profiles
        profile = ""
        reason = ""
        if not profiles and requested not in (None, self.top.get("profile")):
            raise UserError(f"{self.source} has no profiles, so {requested!r} cannot be chosen")
        if profiles:
            if requested is not None and requested not in profiles:
                raise unknown("profile", requested, profiles, where=self.source)
            profile, reason = choose_profile(self.source, profiles, requested, hardware or machine.detect())
        values = Values({}, {(): Origin(self.source)})
        # The farthest file first, so that nearer files override it.
        for file in reversed(self.files):
            overlays = [file.without(*SEPARATE)]
            if profile in file.names("profile", ()):
                overlays.append(file.overlay("profile", profile).without("needs"))
            # These keys replace inherited ones. Merged recipes, for example, would answer another question.
            values = values.without(*(key for key in WHOLE for overlay in overlays if key in overlay.data))
            values = reduce(Values.under, overlays, values)
        if not profile:
            return values
        origin = Origin("chosen for the hardware found" if requested is None else f"--profile {profile}")
        choice = {"profile": profile, "profile_reason": reason}
        return values.under(Values(choice, {(key,): origin for key in choice}))

    @property
    def warning(self) -> str:
        """Warning about the file, or an empty string.

        It warns if the file has new mixes but inherits its question, or if the working directory has a file with the
        name of a shipped space.
        """
        here = self.files[0]
        if here.source.startswith(f"{PACKAGE}/") and (file := _file_here(Path(here.source).stem)):
            return f"this is the shipped search space; for the file {file} in this directory, write {file}"
        asker = next((file for file in self.files if "question" in file.data), here)
        if asker is here or here.data.get("mixes", asker.data.get("mixes")) == asker.data.get("mixes"):
            return ""
        return f"{self.source} changes the mixes but inherits the question of {asker.source}: write `question:`"


def names() -> list[str]:
    """Return the names of the project's search spaces."""
    files = [Path(entry.name) for entry in resources.files(PACKAGE).iterdir()]
    return sorted(file.stem for file in files if file.suffix in SUFFIXES)


def source_of(name_or_path: str) -> str:
    """Return the file of a name or a path. All spellings of a path give the same result."""
    return str(user_path(name_or_path).resolve()) if is_path(name_or_path) else f"{PACKAGE}/{name_or_path}.yaml"


def is_path(name_or_path: str) -> bool:
    """Return True for a file's path, False for the name of a project's search space."""
    return name_or_path.endswith(SUFFIXES) or "/" in name_or_path or "\\" in name_or_path


def open_space(name_or_path: str) -> Space:
    """Read a project's search space by name, or a YAML file by path, with all inherited files. Raises ``UserError``.

    Modules of families and probes are then found in the folders of these files, first in the folder of the nearest
    file.
    """
    files: dict[str, Values] = {}
    folders: list[str] = []
    following: str | None = name_or_path
    while following is not None:
        if (source := source_of(following)) in files:
            chain = " -> ".join([*(file.source for file in files.values()), files[source].source])
            raise UserError(f"the `like` of {files[source].source} leads back to the same file: {chain}")
        file = files[source] = read_space(following)
        if is_path(following) and not is_in_sweep(Path(source).parent):
            folders.append(str(Path(source).parent))
        following = file.data.get("like")
        if following is not None and is_path(following):
            following = str(Path(file.source).parent / user_path(following))
    for file in files.values():
        if "profile" in file.data and "profile_reason" not in file.data:  # A resolved space has both.
            file.refuse(("profile",), "remove it: write values under profiles:, and choose with --profile NAME")
    offer(folders)
    return Space(tuple(files.values()))


def read_space(name_or_path: str) -> Values:
    """Read a file and check that it is a mapping with valid profiles and ``like``. Raises ``UserError``.

    ``like`` may be a path relative to the file's directory.
    """
    name, source, text = _read_file(user_path(name_or_path)) if is_path(name_or_path) else _read_named(name_or_path)
    document = strict_yaml.read(text, source)
    if is_path(name_or_path):
        _check_code(Path(os.path.abspath(source)), document.data)
    if not isinstance(document.data, dict):
        kinds = {list: "a list", type(None): "empty"}
        kind = kinds.get(type(document.data), "a single value")
        raise UserError(f"{source}: a search space must map keys to values, but this file is {kind}")
    named = Values({"name": name}, {("name",): Origin(source), (): Origin(source)})
    values = named.under(_values_of(text, source))
    if is_path(name_or_path) and is_in_sweep(Path(os.path.abspath(source)).parent):
        values = _without_places(values)
    if "like" in values.data and not isinstance(values.data["like"], str):
        values.refuse(("like",), f"must name a search space or a YAML file; got {values.data['like']!r}")
    for profile in values.names("profile", ()):
        values.read(Needs, "profiles", profile, "needs")  # Report mistakes in every profile.
    return values


def _without_places(values: Values) -> Values:
    """Return the values of a sweep's file without the directory of training data.

    Otherwise another user's home could point us to training data that they planted.
    """
    resources = values.data.get("resources")
    if not isinstance(resources, Mapping) or resources.get("scratch") is None:
        return values
    key = ("resources", "scratch")
    return values.under(Values({"resources": {"scratch": None}}, {key: Origin(values.source)}))


@lru_cache(maxsize=64)  # Every variant begins with the same text, which may have thousands of keys.
def _values_of(text: str, source: str) -> Values:
    """Return the values of the text of a file that contains a mapping."""
    return Values.of_file(source, strict_yaml.read(text, source))


def _check_code(path: Path, data: object) -> None:
    """Check the code that a file names.

    The file of a sweep in a home is data, also through a link to it. It may only name code that every reader of the
    home may import. Raises ``UserError`` for other code, and for values that would be merged after this check.
    """
    place = next((one for one in (path, path.resolve()) if is_in_sweep(one.parent)), None)
    if place is None:
        return
    values = data if isinstance(data, dict) else {}
    for key in MERGED:  # A sweep writes its values with its profile and variant already merged.
        if key in values:
            raise UserError(f"{path} is the file of a sweep, which cannot have `{key}`: copy it out of the home")
    try:
        check_script(values)
        import_named(named_code(values), place.parents[min(2, len(place.parents) - 1)])
    except UntrustedCodeError as error:
        raise UserError(f"{path}: {error}") from error


def _read_file(path: Path) -> tuple[str, str, str]:
    """Return name, source and text of a file. Raises ``UserError`` if it cannot be read, is too large, or is a pipe or
    device.

    Opening a pipe or device could block forever, so check before opening it.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UserError(f"{path} is not a regular file: a search space is a YAML file")
        with path.open("rb") as file:  # The number of bytes that are read is limited, because the file may grow.
            content = file.read(MOST_SPACE_BYTES + 1)
        if len(content) > MOST_SPACE_BYTES:
            raise UserError(f"{path} has more than {MOST_SPACE_BYTES:,} bytes, so it is not a search space")
        # A file from another system may end its lines in another way.
        return path.stem, str(path), content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        if path.is_symlink():
            raise UserError(f"{path} is a link to {path.readlink()}, which does not exist") from None
        near = [str(file) for file in path.parent.glob("*") if file.suffix in SUFFIXES]
        raise UserError(f"there is no file {str(path)!r}.{did_you_mean(str(path), near)}") from None
    except UnicodeDecodeError as error:
        where = "it is in UTF-16" if error.object.startswith(UTF_16) else f"{error.reason} at byte {error.start}"
        raise UserError(f"{path} is not UTF-8 text ({where}): save it as UTF-8") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error


def _file_here(name: str) -> str:
    """Return the YAML file of this name in the working directory, or an empty string if there is none."""
    return next((f"{name}{suffix}" for suffix in SUFFIXES if Path(f"{name}{suffix}").is_file()), "")


def _read_named(name: str) -> tuple[str, str, str]:
    known = names()
    if name not in known and (here := _file_here(name)):
        raise UserError(f"no shipped search space is called {name!r}, but the file {here} is here: name it as {here}")
    if name not in known:
        raise unknown("search space", name, known)
    file = resources.files(PACKAGE) / f"{name}.yaml"
    return name, f"{PACKAGE}/{name}.yaml", file.read_text(encoding="utf-8")


def variant_names(name_or_path: str, profile: str | None = None, hardware: Hardware | None = None) -> tuple[str, ...]:
    """Return the names of a space's variants in a profile, by default the first that fits. Raises ``UserError``."""
    return open_space(name_or_path).in_profile(profile, hardware).names("variant", SHARED)


def load_space(
    name_or_path: str,
    profile: str | None = None,
    overrides: Sequence[str | Assignment] = (),
    hardware: Hardware | None = None,
    variant: str | None = None,
) -> SweepSpec:
    """Return a sweep with profile, ``key.path=value`` overrides and variant. Raises ``UserError`` with all mistakes."""
    values = _placed(written(name_or_path, profile, overrides, hardware, variant))
    for key, option in CHOSEN_BY.items():
        if values.is_set(key):  # The profile's label alone would change, not its values.
            values.refuse((key,), f"cannot be set here: choose it with {option} NAME")
    for key in ("like", "expects", "profiles", "variants"):
        if values.is_set(key):
            values.refuse((key,), "can be set only in a file")
    try:
        refresh(str(values.data.get("family", DEFAULT_FAMILY)))
        return parse(SweepSpec, values.data).with_code()
    except SettingsError as error:
        raise UserError(_describe(values, Mistake(("family",), explain(error)))) from error
    except InvalidDataError as error:
        raise UserError("\n".join(_describe(values, mistake) for mistake in error.mistakes)) from error


def _placed(values: Values) -> Values:
    """Return values with an absolute directory of the script.

    A relative directory is relative to the folder of the file that contains it. Without one, the directory is the
    folder of the file with ``script:``.
    """
    script = values.data.get("script")
    if not isinstance(script, Mapping):
        return values
    given = script.get("directory") or "."
    if not isinstance(given, str):
        return values
    key = next(key for key in (("script", "directory"), ("script",), ()) if key in values.origins)
    origin = values.origins[key]
    folder = Path(origin.source).parent if origin.sets is None else Path.cwd()
    directory = (folder / user_path(given)).resolve()
    return values.under(Values({"script": {"directory": str(directory)}}, {("script", "directory"): origin}))


def written(
    name_or_path: str,
    profile: str | None = None,
    overrides: Sequence[str | Assignment] = (),
    hardware: Hardware | None = None,
    variant: str | None = None,
) -> Values:
    """Return all values of a sweep as written, before defaults. Arguments are those of :func:`load_space`. Raises
    ``UserError``."""
    space = open_space(name_or_path)
    expectations_of(space.files[0])  # Report mistakes in `expects` now, not after the sweep.
    return _in_variant(space.in_profile(profile, hardware), variant).under_options(overrides)


def _in_variant(values: Values, requested: str | None) -> Values:
    """Return the values under the requested variant, which is required if there are several. Raises ``UserError``."""
    names = values.names("variant", SHARED)
    source = values.source
    if not names and requested in (None, values.data.get("variant")):
        return values.without("variants")
    if not names:
        raise UserError(f"{source} has no variants, so {requested!r} cannot be chosen")
    if requested is None:
        raise UserError(
            f"{source} has several variants, each a separate sweep: choose one with --variant ({', '.join(names)})"
        )
    if requested not in names:
        raise unknown("variant", requested, names, where=source)
    label = Values({"variant": requested}, {("variant",): values.origins["variants", requested]})
    return values.without("variants").under(values.overlay("variant", requested)).under(label)


def _describe(values: Values, mistake: Mistake) -> str:
    """Return a mistake in one line: its place, its message and, for an unknown key, the likely key."""
    message = mistake.message
    name = values.data.get("name")
    if mistake.key == ("name",) and name == Path(values.source).stem:
        plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
        plain = plain if NAME.fullmatch(plain) else f"space_{plain}".strip("_")
        message += f", which is the file's name: rename the file, or write `name: {plain}` in it"
    if mistake.allowed is not None and (paths := _meant(values, mistake.key, mistake.allowed)):
        message = unknown_key(mistake.allowed, f" Did you mean {' or '.join(paths)}?")
    return f"{values.place(mistake.key)}: {message}"


def _meant(values: Values, key: Key, allowed: Sequence[str]) -> list[str]:
    """Return the full paths that an unknown key may stand for. Return an empty list if a neighboring key is nearer."""
    known = [path for path in leaf_paths(SweepSpec) if path not in ("settings", "search.settings")]
    if "script" in values.data:
        known += leaf_paths(ScriptOptions, "script.")
    with suppress(SettingsError):  # An unknown family is reported in another line.
        family = load_family(str(values.data.get("family", SCRIPT if "script" in values.data else DEFAULT_FAMILY)))
        known += leaf_paths(family.Settings, "settings.")
        if key == (family.size_axis,):
            return ["sizes"]
    given = str(key[-1])
    paths = {path: path.rpartition(".")[2] for path in known if "." in path}
    if nearest(given, allowed) and given not in paths.values():
        return []
    value = values.data.get(given) if len(key) == 1 else None
    while isinstance(value, Mapping) and len(value) == 1:  # In `training.steps`, the last part is the setting.
        [(given, value)] = value.items()
    meant = nearest(given, paths.values())
    return [path for path, last in paths.items() if last == meant]
