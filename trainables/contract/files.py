"""Files that are written whole or not at all, even after a crash."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from pathlib import Path

MOST_LINKS = 40
"""Links on the way to a file, as in Linux."""


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace a file atomically: ``path`` has either all of the old content or all of the new.

    A device or link, such as ``/dev/stdout``, is kept and written in place. Raises ``OSError`` with the path. Python
    itself omits the path when a write fails. Raises ``PermissionError`` for a link that another user made, because they
    chose the file that would be overwritten. Also for another user's pipe or device: they would read the content.
    """
    _check_owner(path)
    if path.is_symlink() or (path.exists() and not path.is_file()):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    else:
        replace_whole(path, content)


def _check_owner(path: Path) -> None:
    """Raise ``PermissionError`` if a path is a link, pipe or device of another user, or leads to one."""
    # In a container that does not know the user root, its files have the owner of "/".
    own = {0, os.getuid(), os.lstat("/").st_uid}
    for _ in range(MOST_LINKS):
        if not os.path.lexists(path) or path.is_relative_to("/proc"):  # A process owns what it has opened.
            return
        status = path.lstat()
        if status.st_uid not in own and not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            is_link = stat.S_ISLNK(status.st_mode)
            kind = "link of another user, which is not followed" if is_link else "pipe or device of another user"
            raise PermissionError(errno.EPERM, f"It is a {kind}", str(path))
        if not stat.S_ISLNK(status.st_mode):
            return
        path = path.parent / os.readlink(path)


def replace_whole(path: Path, content: str | bytes) -> None:
    """Replace a file, link or pipe atomically by a file with this content.

    A link is never followed, not even a link that another user creates during the call. Raises ``OSError`` with the
    path.
    """
    aside = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_bytes(content if isinstance(content, bytes) else content.encode())
        flush(aside)
        os.replace(aside, path)
        flush(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, error.filename or str(path)) from error
    finally:
        aside.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Wait until a file, or the entries of a directory, are on disk. Otherwise a power failure could lose them."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
