"""Files and directories that are written whole or not at all, even after a crash.

Single files are written by the lab's functions. The lab may not import the orchestrator, and also writes checkpoints
and datasets.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainables.contract.files import flush as flush
from trainables.contract.files import replace_whole as replace_whole
from trainables.contract.files import write_whole as write_whole

ABANDONED_S = 3600.0
"""Age in seconds at which an incomplete directory counts as abandoned. Writing takes only seconds."""


def is_file(path: Path) -> bool:
    """Return True for a plain file, False for a link, pipe, device or directory, or if nothing is there."""
    return stat.S_ISREG(mode_of(path))


def is_directory(path: Path) -> bool:
    """Return True for a directory that is not a link."""
    return stat.S_ISDIR(mode_of(path))


def mode_of(path: Path) -> int:
    """Return the type and permissions of a path, without following links, or 0 if nothing is there."""
    try:
        return path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0


def entries(directory: Path) -> list[Path]:
    """Return the paths in a directory, sorted, and none if it is missing. Raises ``OSError`` if it cannot be read:
    ``Path.glob`` returns nothing then, as if it were empty."""
    try:
        return sorted(directory / name for name in os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []


def files_below(directory: Path) -> list[Path]:
    """Return the paths of all plain files below a directory, sorted. Raises ``OSError`` as :func:`entries`."""

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise error

    paths = [Path(parent, name) for parent, _, names in os.walk(directory, onerror=refuse) for name in names]
    return sorted(path for path in paths if is_file(path))


@contextmanager
def opened_directory(path: Path | str, dir_fd: int | None = None) -> Iterator[int]:
    """Yield a descriptor of a directory, for ``dir_fd``. Raises ``NotADirectoryError`` for a link. What is done there
    is done in this directory, also if somebody else puts a link in its place in the meantime."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def remove_abandoned(parent: Path, pattern: str) -> None:
    """Remove incomplete directories left by killed processes."""
    for path in parent.glob(pattern):
        if is_directory(path) and time.time() - path.stat().st_mtime > ABANDONED_S:
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """Yield a directory to fill, which is flushed and renamed to ``path`` on success. An existing ``path`` stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(path.parent, f".{path.name}-*")
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        yield aside
        for file in (*aside.rglob("*"), aside):
            flush(file)
        try:
            aside.rename(path)
        except OSError:
            if not path.is_dir():
                raise
        flush(path.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
