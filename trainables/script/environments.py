"""The Python environments that a script may use, and what is installed in them."""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from trainables.script.project import folders_above

MARKS = ("pyvenv.cfg", "conda-meta")
"""An environment contains at least one of these."""
USUAL_NAMES = (".venv", "venv")
"""Names of the directories of environments in a project."""
VARIABLES = ("VIRTUAL_ENV", "CONDA_PREFIX")
"""Variables with the directory of an activated environment."""
OF_PYENV = "versions/*"
"""Pattern of the environments of pyenv, seen from its own directory."""
PACKAGES = ("lib/python*/site-packages", "lib/python*/dist-packages", "lib/python*")
"""Patterns of the folders of an environment's modules. The last one has a file for each module of Python itself."""
MOST_PATH_FILES = 100
"""Maximum number of files with folders of Python's search path that are read in an environment."""
MOST_PATH_BYTES = 1 << 18
"""Maximum number of bytes of such a file that are read."""
NO_FOLDER = re.compile(r"import\s|#")
"""A line that begins like this names no folder."""
MAPPING = re.compile(r"^MAPPING[^=]*=\s*(\{.*\})\s*$", re.MULTILINE)
"""Pattern of the folders of packages in the files that setuptools writes for an editable project."""


def usual_environments(directory: Path, variables: Mapping[str, str]) -> list[Path]:
    """Return the directories of the Python environments that a script may use if its command names none.

    They are those that are activated, that of the first Python in ``PATH``, and those with a usual name in the script's
    directory or a folder above it, up to that of its project.

    Args:
        directory: The script's directory.
        variables: Environment variables of the script.
    """
    paths = [folder / name for folder in (directory, *folders_above(directory)) for name in USUAL_NAMES]
    paths += [Path(variables[name]) for name in VARIABLES if variables.get(name)]
    programs = (shutil.which(name, path=variables.get("PATH")) for name in ("python", "python3"))
    for program in map(Path, filter(None, programs)):
        paths += [program, *program.parent.parent.glob(OF_PYENV)]
    return environments_among(paths)


def environments_among(paths: Iterable[Path]) -> list[Path]:
    """Return the Python environments that paths lead to. A path may be an environment, or a program in its ``bin``.

    Links are not resolved, because the Python of an environment usually is one.
    """
    places = (place for path in paths for place in (path, path.parent.parent))
    return [place for place in dict.fromkeys(places) if is_environment(place)]


def is_environment(path: Path) -> bool:
    """Return True for the directory of a Python environment."""
    with suppress(OSError, ValueError):  # Such as a word that is too long, or has a null character.
        return any((path / mark).exists() for mark in MARKS) or (path / "bin" / "python3").exists()
    return False


def editable_folders(environments: Iterable[Path]) -> list[Path]:
    """Return the folders of projects that are installed in these environments so that they can be edited."""
    folders = [folder for environment in environments for folder in _added_folders(environment)]
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


def _added_folders(environment: Path) -> Iterator[Path]:
    for pattern in PACKAGES[:2]:
        for file in sorted(environment.glob(f"{pattern}/*.pth"))[:MOST_PATH_FILES]:
            lines = filter(None, map(str.strip, _read(file).splitlines()))
            places = (file.parent / line for line in lines if not NO_FOLDER.match(line))
            yield from (Path(os.path.normpath(place)) for place in places)
        for file in sorted(environment.glob(f"{pattern}/__editable___*_finder.py"))[:MOST_PATH_FILES]:
            if (match := MAPPING.search(_read(file))) is not None:
                with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
                    mapping = ast.literal_eval(match[1])
                    yield from (Path(path).parents[str(name).count(".")] for name, path in dict(mapping).items())


def _read(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(MOST_PATH_BYTES).decode(errors="replace")
    except OSError:  # Python ignores it, too.
        return ""


def installed_names(environments: Iterable[Path]) -> set[str]:
    """Return the names of the modules that are installed in these environments, or in Python itself. Without
    environments, take that of this process."""
    names = {*sys.stdlib_module_names}
    for environment in list(environments) or [Path(sys.prefix)]:
        for pattern in PACKAGES:
            for folder in environment.glob(pattern):
                names |= _names_in(folder)
    return names


def _names_in(folder: Path) -> set[str]:
    with suppress(OSError):
        return {name.partition(".")[0] for name in os.listdir(folder)}
    return set()
