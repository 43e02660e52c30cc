"""The YAML files of search spaces: project files by name, other files by path."""

from __future__ import annotations

import codecs
import stat
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from orchestrator.environment import user_path
from orchestrator.errors import UserError, did_you_mean, unknown
from orchestrator.space import strict_yaml
from orchestrator.space.hardware import Needs
from orchestrator.space.overlays import Origin, Values

PACKAGE = "search_spaces"
SUFFIXES = (".yaml", ".yml")
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
SEPARATE = ("profiles", "like", "expects")
"""Keys of a file that are not values of a sweep."""


@dataclass(frozen=True)
class SpaceFile:
    """A file of a search space as written. ``like`` is the name or path of the space it inherits from, if any."""

    source: str
    values: Values
    like: str | None

    @property
    def top(self) -> Values:
        return self.values.without(*SEPARATE)

    @property
    def profiles(self) -> dict[str, dict[str, Any]]:
        return self.values.data.get("profiles") or {}

    @property
    def expects(self) -> Any:
        """Expected findings, as written (expected.py)."""
        return self.values.data.get("expects", [])


def names() -> list[str]:
    """Return the names of the project's search spaces."""
    return sorted(
        Path(entry.name).stem for entry in resources.files(PACKAGE).iterdir() if entry.name.endswith(SUFFIXES)
    )


def source_of(name_or_path: str) -> str:
    """Return the file of a name or a path, the same for every form of a path."""
    return str(user_path(name_or_path).resolve()) if is_path(name_or_path) else f"{PACKAGE}/{name_or_path}.yaml"


def read_space(name_or_path: str) -> SpaceFile:
    """Read a file and check that it is a mapping with valid profiles and ``like``. Raises ``UserError``.

    ``like`` may be a path relative to the file's directory. That directory is appended to ``sys.path``, so that modules
    of families and probes in it can be imported.
    """
    name, source, text = _read_file(user_path(name_or_path)) if is_path(name_or_path) else _read_named(name_or_path)
    if is_path(name_or_path) and (folder := str(Path(source).resolve().parent)) not in sys.path:
        sys.path.append(folder)
    document = strict_yaml.read(text, source)
    if not isinstance(document.data, dict):
        raise UserError(f"{source}: a search space must map keys to values, but this file is {_kind(document.data)}")
    named = Values({"name": name}, {("name",): Origin(source), (): Origin(source)})
    values = named.under(Values.of_file(source, document))
    like = values.data.get("like")
    if "like" in values.data and not isinstance(like, str):
        values.refuse(("like",), f"must name a search space or a YAML file; got {like!r}")
    if like is not None and is_path(like):
        like = str(Path(source).parent / user_path(like))
    for profile in values.names("profile", ()):
        values.read(Needs, "profiles", profile, "needs")  # Report mistakes in every profile.
    return SpaceFile(source, values, like)


def is_path(name_or_path: str) -> bool:
    """Return True for a file's path, False for the name of a project's search space."""
    return name_or_path.endswith(SUFFIXES) or "/" in name_or_path or "\\" in name_or_path


def _read_file(path: Path) -> tuple[str, str, str]:
    """Return name, source and text. Refuse pipes and devices before opening them, because they could block forever."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UserError(f"{path} is not a regular file: a search space is a YAML file")
        return path.stem, str(path), path.read_text(encoding="utf-8")
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
