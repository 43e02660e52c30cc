"""Finding and reading the YAML files of search spaces: the project's own by name, any other by its path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn

from orchestrator.errors import UserError, nearest, unknown
from orchestrator.space import strict_yaml
from orchestrator.space.layers import Origin
from orchestrator.space.profiles import needs_of
from orchestrator.space.validation import NAME, InvalidDataError, Key, dotted

PACKAGE = "search_spaces"
SUFFIXES = (".yaml", ".yml")
PROFILE_KEYS = ("profile", "profile_reason")
"""What a resolved space says of the profile it was made with. Where there are profiles, the choice says it."""


@dataclass(frozen=True)
class SpaceFile:
    """One file of a search space: its ``top`` level without what follows, and its profiles, as written.

    ``source`` names the file in messages. ``like`` is the name or path of the space it inherits from, None without one.
    ``expects`` says what the space is expected to show (expected.py). ``lines`` has the line of every key.
    """

    source: str
    top: dict[str, Any]
    profiles: dict[str, dict[str, Any]]
    like: str | None
    lines: dict[Key, int]
    expects: Any = ()

    @property
    def top_origins(self) -> dict[Key, Origin]:
        """The origin of every key of the top level."""
        named = {("name",): Origin(self.source)}  # A space without a name has that of its file.
        return named | {
            key: Origin(self.source, line)
            for key, line in self.lines.items()
            if key and key[0] not in ("profiles", "like", "expects")
        }

    def profile_origins(self, profile: str) -> dict[Key, Origin]:
        """The origin of every key inside a profile."""
        top = ("profiles", profile)
        return {
            key[2:]: Origin(self.source, line, profile)
            for key, line in self.lines.items()
            if key[:2] == top and key != top
        }

    def refuse(self, key: Key, message: str) -> NoReturn:
        """Raise ``UserError`` with the line of ``key``."""
        place = f"{self.source}, line {self.lines[key]}" if key in self.lines else self.source
        raise UserError(f"{place}, {dotted(key)}: {message}")


def names() -> list[str]:
    """The search spaces that come with the project."""
    return sorted(
        Path(entry.name).stem for entry in resources.files(PACKAGE).iterdir() if entry.name.endswith(SUFFIXES)
    )


def source_of(name_or_path: str) -> str:
    """The file that a name or a path means, the same however a path is written."""
    return str(Path(name_or_path).resolve()) if is_path(name_or_path) else f"{PACKAGE}/{name_or_path}.yaml"


def read_space(name_or_path: str) -> SpaceFile:
    """Read one file and check its form: a mapping, profiles that are mappings with proper needs, ``like`` a name.

    A path after ``like`` is taken from the file's own directory. Raises ``UserError``.
    """
    name, source, text = _read_file(Path(name_or_path)) if is_path(name_or_path) else _read_named(name_or_path)
    document = strict_yaml.read(text, source)
    if not isinstance(document.data, dict):
        raise UserError(f"{source}: a search space is a mapping of keys to values, this is {_kind(document.data)}")
    top: dict[str, Any] = {"name": name} | document.data
    profiles, like = top.pop("profiles", None) or {}, top.pop("like", None)
    expects = top.pop("expects", [])
    file = SpaceFile(source, top, profiles, like, document.lines, expects)
    _check_profiles(file, profiles)
    if ("like",) in file.lines and not isinstance(like, str):
        file.refuse(("like",), f"must name a search space or a YAML file; got {like!r}")
    if like is not None and is_path(like):
        like = str(Path(source).parent / like)
    return replace(file, like=like)


def _check_profiles(file: SpaceFile, profiles: Any) -> None:
    """Raise ``UserError`` unless ``profiles`` maps names to mappings, each with proper ``needs``."""
    if not isinstance(profiles, Mapping):
        file.refuse(("profiles",), f"must map the names of profiles to what they change; got {_kind(profiles)}")
    for name, profile in profiles.items():
        if not NAME.fullmatch(name):
            file.refuse(("profiles", name), "a name has lower-case letters, digits and underscores only")
        if not isinstance(profile, Mapping):
            file.refuse(("profiles", name), f"must map keys to values; got {_kind(profile)}")
        try:
            needs_of(profile)
        except InvalidDataError as error:
            for mistake in error.mistakes:
                file.refuse(("profiles", name, "needs", *mistake.key), mistake.message)


def is_path(name_or_path: str) -> bool:
    """True for the path of a file, False for the name of a search space of the project."""
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
