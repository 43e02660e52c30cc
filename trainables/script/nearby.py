"""Hash of the programs and settings in a script's directory and in the project around it.

A script's key covers the files that we know to be its code (:mod:`trainables.script.code`). It may use others, whose
names it computes or its environment decides. So a change of any other program or settings there gets a warning, and the
runs still count.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path

from trainables.contract.file_hashes import DIGITS
from trainables.contract.programs import CODE_SUFFIXES
from trainables.script.project import project_of

SETTINGS = (".cfg", ".conf", ".env", ".ini", ".toml", ".yaml", ".yml")
"""Suffixes, in lower case, of settings. JSON files are more often results."""
SPACE = re.compile(rb"^(family|script)\s*:", re.MULTILINE)
"""Pattern of a key that every search space has, unless it is like another."""
OF_SPACE = re.compile(rb"^(mixes|question)\s*:", re.MULTILINE)
"""Pattern of a key that a search space has, and few settings of programs."""
LIKE = re.compile(rb"^like\s*:", re.MULTILINE)
"""Pattern of a key of a search space that is like another."""
WITH_LIKE = re.compile(
    rb"^(family|mixes|profiles|question|script|search|seeds|settings|sizes|target|variants)\s*:", re.MULTILINE
)
"""Pattern of another key of such a search space, whose changes are not those of code."""
RECIPES = frozenset({"CMakeLists.txt", "Makefile", "Snakefile", "justfile"})
"""Files that say how programs are built and started."""
PRODUCTS = frozenset(
    {
        *("__pycache__", "lightning_logs", "mlruns", "multirun", "node_modules", "outputs", "site-packages"),
        *("wandb", "work_dirs"),
        *(".cache", ".direnv", ".eggs", ".git", ".hg", ".hypothesis", ".idea", ".ipynb_checkpoints", ".mypy_cache"),
        *(".nox", ".pixi", ".pytest_cache", ".ruff_cache", ".svn", ".tox", ".venv", ".vscode"),
    }
)
"""Directories of installed packages, caches and tools. Some of these tools keep copies of programs for each run."""
ENVIRONMENT = "pyvenv.cfg"
"""File in the directory of a Python environment."""
OF_ENVIRONMENT = frozenset({"bin", "include", "lib", "lib64", "share"})
"""Directories of such an environment."""
BEGINNINGS = (b"#!", b"\x7fELF")
"""Beginnings of programs that Linux starts."""
HOME_PARTS = frozenset({".id", "sweeps"})
"""Files and directories in the directory of a home."""
MOST_FILES = 2_000
"""Maximum number of files that are hashed in the directory, and in the rest of its project."""
MOST_DIRECTORIES = 20_000
"""Maximum number of directories that are searched in each of the two."""
CLOCK_S = 60.0
"""Seconds by which the clock of a file system may be ahead."""
MOST_OTHERS = 20_000
"""Maximum number of files with other suffixes, in each of the two, whose permissions and beginnings are read."""
MOST_BYTES = 1 << 20
"""Maximum size of a program that is hashed."""
MOST_SETTINGS_BYTES = 1 << 18
"""Maximum size of settings that are hashed."""


def hash_nearby(directory: str) -> str:
    """Return the hash of the programs and settings in a directory and the project around it, or an empty string if
    there are none.

    Files that cannot be read are omitted, and so are those beyond the limits, which hold for the directory and for the
    rest of its project.
    """
    project = project_of(Path(directory))
    digest = hashlib.sha256()
    count = 0
    for path, status in _programs(directory):
        try:
            content = _hash_of(path, (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
        except OSError:
            continue
        if not content:
            continue
        digest.update(os.fsencode(os.path.relpath(path, project)) + f"\0{content}\0".encode())
        count += 1
    return digest.hexdigest()[:DIGITS] if count else ""


def changed_program(directory: str, since: float, known: Collection[str] = ()) -> str:
    """Return the path of the file that :func:`hash_nearby` covers and that was written last, relative to the directory.

    Args:
        directory: The directory.
        since: Time in seconds of the epoch. If no file was written since, return an empty string. Times in the future
            do not count.
        known: Paths of other files, relative to the directory.
    """
    times = ((status.st_mtime, os.path.relpath(path, directory)) for path, status in _programs(directory))
    end = time.time() + CLOCK_S
    since_then = ((written, path) for written, path in times if since < written < end and path not in known)
    _, path = max(since_then, default=(0.0, ""))
    return path


def _programs(directory: str) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the programs and settings in a directory, then those in the rest of its project, each with its state."""
    here = Path(os.path.abspath(directory))
    seen: set[tuple[int, int]] = set()
    for top in dict.fromkeys((here, project_of(here))):
        yield from islice(_usable(_paths(top, seen)), MOST_FILES)


def _usable(paths: Iterable[Path]) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the plain files of usual size."""
    for path in paths:
        with suppress(OSError):
            status = path.stat()
            most = MOST_SETTINGS_BYTES if _is_settings(path.name) else MOST_BYTES
            if stat.S_ISREG(status.st_mode) and status.st_size <= most and _is_code(path, status):
                yield path, status


def _is_code(path: Path, status: os.stat_result) -> bool:
    """Return True for settings and programs. With an unknown suffix, a program is executable and begins as one, because
    some file systems make all files executable."""
    if _is_settings(path.name) or _is_program(path.name):
        return True
    if not status.st_mode & stat.S_IXUSR:
        return False
    if not path.suffix:
        return True
    with path.open("rb") as file:
        return file.read(max(map(len, BEGINNINGS))).startswith(BEGINNINGS)


def _paths(top: Path, seen: set[tuple[int, int]]) -> Iterator[Path]:
    """Yield the paths below a directory that may be code: all with no suffix, or one of programs or settings, and some
    others. Those of fewer directories come first, in an order that is the same everywhere.

    Args:
        top: The directory.
        seen: Devices and inodes of directories to skip. Those that were searched are added.
    """
    waiting = deque([top])
    links: deque[Path] = deque()
    others = 0
    for _ in range(MOST_DIRECTORIES):
        if not (waiting or links):
            return
        # Links come last, so that a directory of the project has its own path. They often lead to large data.
        place = (waiting or links).popleft()
        try:
            status = place.stat()
            if (identity := (status.st_dev, status.st_ino)) in seen:
                continue
            with os.scandir(place) as entries:
                below = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        names = {entry.name for entry in below}
        if place != top and names >= HOME_PARTS:
            continue
        seen.add(identity)
        skipped = PRODUCTS | OF_ENVIRONMENT if ENVIRONMENT in names else PRODUCTS
        for entry in below:
            if entry.is_dir():
                if entry.name not in skipped:
                    (links if entry.is_symlink() else waiting).append(place / entry.name)
            elif _has_name_of_code(entry.name) or (others := others + 1) <= MOST_OTHERS:
                yield place / entry.name


def _has_name_of_code(name: str) -> bool:
    """Return True for the name of a program, of settings, or of a file without a suffix, which may be a program."""
    return _is_program(name) or _is_settings(name) or not Path(name).suffix


def _is_settings(name: str) -> bool:
    return name.lower().endswith(SETTINGS) and name != ENVIRONMENT


def _is_program(name: str) -> bool:
    return Path(name).suffix.lower() in CODE_SUFFIXES or name in RECIPES


def hash_of_mixed(before: str, after: str) -> str:
    """Return the hash for a run that ended after the programs had changed. The run may have begun before that, so its
    hash is neither of the two."""
    return hashlib.sha256(f"{before} {after}".encode()).hexdigest()[:DIGITS]


@lru_cache(maxsize=4 * MOST_FILES)
def _hash_of(path: Path, state: tuple[int, ...]) -> str:
    """Return the hash of a file, or an empty string for a search space. ``state`` changes with the file, which is then
    read again."""
    content = path.read_bytes()
    is_yaml = path.suffix.lower() in (".yaml", ".yml")
    return "" if is_yaml and _is_space(content) else hashlib.sha256(content).hexdigest()


def _is_space(content: bytes) -> bool:
    """Return True for a search space, by its keys."""
    pairs = ((SPACE, OF_SPACE), (LIKE, WITH_LIKE))
    return any(all(key.search(content) is not None for key in pair) for pair in pairs)
