"""From a name or a file on the command line to a validated sweep: find, read, choose a profile, override, check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn

from orchestrator.errors import UserError, nearest, unknown
from orchestrator.space import hardware as machine
from orchestrator.space import strict_yaml
from orchestrator.space.hardware import Hardware
from orchestrator.space.layers import Layers, merge
from orchestrator.space.profiles import Choice, choose, needs_of
from orchestrator.space.spec import DEFAULT_FAMILY, NAME, SweepSpec
from orchestrator.space.validation import InvalidDataError, Key, Problem, dotted, leaf_paths, parse
from trainables.base import SettingsError, load_family

PACKAGE = "search_spaces"
SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class Space:
    """A search space as written: its values without ``profiles``, the profiles, and where each key stands."""

    name: str
    source: str
    base: dict[str, Any]
    profiles: dict[str, dict[str, Any]]
    places: dict[Key, str]


def names() -> list[str]:
    """The search spaces that come with the project."""
    return sorted(
        Path(entry.name).stem for entry in resources.files(PACKAGE).iterdir() if entry.name.endswith(SUFFIXES)
    )


def open_space(name_or_path: str, above: tuple[str, ...] = ()) -> Space:
    """Read a search space of the project by its name, or any YAML file by its path.

    ``like: OTHER`` in it lays its values over those of another space. Raises ``UserError``; ``above`` are the spaces
    that led here, none of which may be met again.
    """
    name, source, text = _read_file(Path(name_or_path)) if _is_path(name_or_path) else _read_named(name_or_path)
    if source in above:
        raise UserError(f"{source} is like itself: {' -> '.join([*above, source])}")
    document = strict_yaml.read(text, source)
    if not isinstance(document.data, dict):
        raise UserError(f"{source}: a search space is a mapping of keys to values, this is {_kind(document.data)}")
    places = {key: f"{source}, line {line}" for key, line in document.lines.items()}
    base: dict[str, Any] = {"name": name} | document.data
    profiles: dict[str, dict[str, Any]] = base.pop("profiles", None) or {}
    _check_profiles(source, places, base, profiles)
    if "like" not in base:
        return Space(str(base["name"]), source, base, profiles, places)
    other = base.pop("like")
    if not isinstance(other, str):
        raise UserError(f"{places['like',]}, like: must name a search space or a YAML file; got {other!r}")
    if _is_path(other):
        other = str(Path(source).parent / other)
    model = open_space(other, (*above, source))
    return Space(
        str(base["name"]),
        source,
        merge(model.base, base),
        merge(model.profiles, profiles),
        model.places | places,
    )


def load_space(
    name_or_path: str,
    profile: str | None = None,
    overrides: Sequence[str] = (),
    hardware: Hardware | None = None,
) -> SweepSpec:
    """The sweep a search space asks for, with a profile and ``key.path=value`` overrides applied, in this order.

    Without ``profile`` the largest one that ``hardware`` (default: this machine) can finish is taken. Raises
    ``UserError`` that lists everything wrong with the file or the overrides, each with its place.
    """
    space = open_space(name_or_path)
    layers = Layers(space.source, space.base, space.places)
    choice = _profile(space, profile, hardware)
    if choice is not None:
        written = {key: value for key, value in space.profiles[choice.name].items() if key != "needs"}
        layers.add_profile(choice.name, written)
        layers.data |= {"profile": choice.name, "profile_reason": choice.reason}
    layers.add_overrides(overrides)
    try:
        return parse(SweepSpec, layers.data)
    except InvalidDataError as error:
        raise UserError("\n".join(_describe(layers, problem) for problem in error.problems)) from error


def _profile(space: Space, asked: str | None, hardware: Hardware | None) -> Choice | None:
    if not space.profiles:
        if asked is None or asked == space.base.get("profile"):
            return None
        raise UserError(f"{space.source} has no profiles, so {asked!r} cannot be chosen")
    if asked is not None and asked not in space.profiles:
        raise unknown("profile", asked, space.profiles, where=space.source)
    return choose(space.source, space.profiles, asked, hardware or machine.detect())


def _check_profiles(source: str, places: Mapping[Key, str], base: Mapping[str, Any], profiles: Any) -> None:
    """Raise ``UserError`` unless ``profiles`` maps names to mappings, each with proper ``needs``."""

    def refuse(key: Key, message: str) -> NoReturn:
        raise UserError(f"{places.get(key, source)}, {dotted(key)}: {message}")

    if not isinstance(profiles, Mapping):
        refuse(("profiles",), f"must map the names of profiles to what they change; got {_kind(profiles)}")
    for key in ("profile", "profile_reason"):
        if profiles and key in base:
            refuse((key,), "is decided by the profiles; remove it")
    for name, profile in profiles.items():
        if not NAME.fullmatch(name):
            refuse(("profiles", name), "a name has lower-case letters, digits and underscores only")
        if not isinstance(profile, Mapping):
            refuse(("profiles", name), f"must map keys to values; got {_kind(profile)}")
        try:
            needs_of(profile)
        except InvalidDataError as error:
            for problem in error.problems:
                refuse(("profiles", name, "needs", *problem.key), problem.message)


def _describe(layers: Layers, problem: Problem) -> str:
    """One line: where, what, and for an incomplete path after ``--set`` the whole one."""
    text = f"{layers.place(problem.key)}: {problem.message}"
    if problem.unknown_key and layers.overridden(problem.key):
        last = str(problem.key[-1])
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


def _is_path(name_or_path: str) -> bool:
    return name_or_path.endswith(SUFFIXES) or "/" in name_or_path or "\\" in name_or_path


def _read_file(path: Path) -> tuple[str, str, str]:
    try:
        return path.stem, str(path), path.read_text(encoding="utf-8")
    except FileNotFoundError:
        beside = [str(path.parent / entry.name) for entry in _yaml_files(path.parent)]
        guess = nearest(str(path), beside)
        hint = f" Did you mean {guess!r}?" if guess else ""
        raise UserError(f"there is no file {str(path)!r}.{hint}") from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}: this is not readable as text in UTF-8: {error.reason} at byte {error.start}"
        ) from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error


def _yaml_files(directory: Path) -> Iterator[Path]:
    if directory.is_dir():
        yield from (entry for entry in directory.iterdir() if entry.suffix in SUFFIXES)


def _read_named(name: str) -> tuple[str, str, str]:
    known = names()
    if name not in known:
        raise unknown("search space", name, known)
    file = resources.files(PACKAGE) / f"{name}.yaml"
    return name, f"{PACKAGE}/{name}.yaml", file.read_text(encoding="utf-8")


def _kind(value: Any) -> str:
    if value is None:
        return "empty"
    return "a list" if isinstance(value, list) else "a single value"
