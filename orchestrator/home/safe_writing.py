"""Writing in a home in which another user may put a link, hard link or pipe where this program writes next.

Writing through it would change a file elsewhere. So such an entry is replaced or refused, and never followed.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from pathlib import Path
from typing import BinaryIO, cast

from orchestrator.home.foreign_files import MOST_JOURNAL_BYTES, read_bytes
from orchestrator.system.files import is_directory, is_file, mode_of, opened_parent, remove_file, replace_whole

log = logging.getLogger(__name__)


def own_path(path: Path) -> Path:
    """Return a path to write in a home. Remove a link, pipe or device at that path, because it would redirect the
    content."""
    if mode_of(path) and not is_file(path) and not is_directory(path):
        remove_file(path)
    return path


def own_file(path: Path) -> Path:
    """Return the path of a file to write in a home. Remove a link, pipe or device at that path.

    Replace a hard link by a copy. Otherwise, writing would also change the file with the other name, for example in a
    home that was copied with ``cp -al``.

    Raises:
        ValueError: If the copy would have more than :data:`MOST_JOURNAL_BYTES`.
    """
    own_path(path)
    if path.exists() and path.stat().st_nlink > 1:
        replace_whole(path, read_bytes(path, MOST_JOURNAL_BYTES))
        log.warning(f"{path} was a hard link. It is now a copy, so the file with the other name does not change")
    return path


def open_to_append(path: Path) -> BinaryIO:
    """Open a file of a home for appending without a buffer. Replace a link or pipe by a file. Raises ``OSError`` if
    another user puts a link or pipe there at the same time."""
    return cast(BinaryIO, open(own_file(path), "ab", buffering=0, opener=open_plain))


def open_plain(path: str, flags: int) -> int:
    """Open a plain file for writing, as the ``opener`` of :func:`open`.

    Raises:
        OSError: For a link, hard link, pipe or device, which stays unchanged. Also if another user made a link in the
            path of its directory.
    """
    # Truncate only after the checks below: until then, the file may be another user's choice.
    unchanged = flags & ~os.O_TRUNC
    with opened_parent(Path(path)) as parent:
        # Without O_NONBLOCK, opening a pipe would wait for a reader.
        unlinked = unchanged | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(os.path.basename(path), unlinked, 0o666, dir_fd=parent)
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(descriptor)
        what = "A file with several names" if stat.S_ISREG(status.st_mode) else "Not a plain file"
        raise OSError(errno.EINVAL, what, str(path))
    if flags & os.O_TRUNC:
        os.ftruncate(descriptor, 0)
    return descriptor


def own_directory(root: Path, *parts: str) -> Path:
    """Return a directory below ``root``, which may not exist. Raises ``ValueError`` if a part of the path is a link."""
    directory = root
    for part in ("", *parts):
        directory = directory / part
        if directory.is_symlink():
            raise ValueError(f"{directory} is a link, which is not followed")
    return directory
