"""Files and directories that are written whole or not at all, even after a crash.

To write files that a user names, use the functions of ``trainables``: it also writes checkpoints and datasets, and may
not import the orchestrator. A home may belong to another user, who can change it at the same time, so
:func:`opened_parent` finds the directory of its files.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trainables.contract.files import flush as flush
from trainables.contract.files import write_whole as write_whole

MOST_LINKS = 40
"""Links on the way to a directory, as in Linux."""
DESCRIPTORS = Path("/proc/self/fd")
"""Links to the files and directories that this process has opened."""
FILLED_DIRECTORY = "whole"
"""Name of a directory that is being filled, in a hidden one."""
LOCK_POLL_S = 0.05
"""Seconds between attempts to lock a file."""
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
    """Yield a descriptor of a directory, for ``dir_fd``. Raises ``NotADirectoryError`` for a link. The descriptor
    stays that of this directory even if another user replaces it by a link in the meantime."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def opened_parent(path: Path) -> Iterator[int]:
    """Yield a descriptor of the directory that contains a path, for ``dir_fd``.

    Links in the path are followed only if this user or root made them. Otherwise, another user who owns a directory in
    the path could replace it by a link to a directory of this user, even during the call. Raises ``OSError``.
    """
    descriptor = _opened(path.absolute().parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _opened(directory: Path) -> int:
    if not hasattr(os, "O_PATH"):  # Only Linux can open a link itself.
        return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    parts = list(directory.parts[:0:-1])  # The next one last.
    links = 0
    here = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        while parts:
            below = os.open(parts.pop(), os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            here, above = below, here
            status = os.fstat(below)
            if not stat.S_ISLNK(status.st_mode):
                os.close(above)
                continue
            links += 1
            if status.st_uid not in (0, os.getuid()) or links > MOST_LINKS:
                os.close(above)
                raise OSError(errno.ELOOP, "The path has a link of another user, which is not followed", str(directory))
            target = Path(os.readlink("", dir_fd=below))
            os.close(below)
            here = above
            if target.is_absolute():
                here = os.open("/", os.O_PATH | os.O_CLOEXEC)
                os.close(above)
            parts += [part for part in reversed(target.parts) if part != "/"]
        return here
    except BaseException:  # An interruption must not leave the descriptor open either.
        os.close(here)
        raise


def replace_whole(path: Path, content: str | bytes) -> None:
    """Replace a file, link or pipe of a home atomically by a file with this content, in the directory that
    :func:`opened_parent` finds. Raises ``OSError`` with the path."""
    aside = f".{path.name}-{secrets.token_hex(8)}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with opened_parent(path) as parent:
            try:
                descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=parent)
                with open(descriptor, "wb") as file:
                    file.write(content if isinstance(content, bytes) else content.encode())
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(aside, path.name, src_dir_fd=parent, dst_dir_fd=parent)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(aside, dir_fd=parent)
            with opened_directory(".", parent) as directory:
                os.fsync(directory)
    except OSError as error:
        raise OSError(error.errno, error.strerror, error.filename or str(path)) from error


def remove_file(path: Path) -> None:
    """Remove a file of a home if it is there, in the directory that :func:`opened_parent` finds."""
    with suppress(FileNotFoundError, NotADirectoryError), opened_parent(path) as parent:
        os.unlink(path.name, dir_fd=parent)


def remove_tree(path: Path) -> None:
    """Remove a directory of a home with everything in it, as far as possible, in the directory that
    :func:`opened_parent` finds."""
    with suppress(OSError), opened_parent(path) as parent:
        shutil.rmtree(path.name, ignore_errors=True, dir_fd=parent)


def remove_abandoned(parent: Path, pattern: str) -> None:
    """Remove incomplete directories left by killed processes."""
    for path in parent.glob(pattern):
        if is_directory(path) and time.time() - path.stat().st_mtime > ABANDONED_S:
            remove_tree(path)


@contextmanager
def whole_directory(path: Path) -> Iterator[Path]:
    """Yield a directory to fill, which is flushed and renamed to ``path`` on success. An existing ``path`` stays.

    It is made in a hidden directory, next to ``path`` as :func:`opened_parent` finds it. The yielded path leads through
    a descriptor of the hidden directory, so files are written there even if another user replaces it by a link in the
    meantime.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_abandoned(path.parent, f".{path.name}-*")
    with opened_parent(path) as parent:
        aside = f".{path.name}-{secrets.token_hex(8)}"
        os.mkdir(aside, 0o700, dir_fd=parent)
        try:
            with opened_directory(aside, parent) as opened:
                os.mkdir(FILLED_DIRECTORY, 0o700, dir_fd=opened)
                yield from _filled(opened, path.with_name(aside))
                try:
                    os.rename(FILLED_DIRECTORY, path.name, src_dir_fd=opened, dst_dir_fd=parent)
                except OSError:
                    if not is_directory(path):
                        raise
            with opened_directory(".", parent) as directory:
                os.fsync(directory)
        finally:
            shutil.rmtree(aside, ignore_errors=True, dir_fd=parent)


def _filled(opened: int, aside: Path) -> Iterator[Path]:
    """Yield the path of the directory in an opened one, and flush what was written there. Errors name ``aside``."""
    through = DESCRIPTORS / str(opened) / FILLED_DIRECTORY
    directory = through if through.is_dir() else aside / FILLED_DIRECTORY  # Only Linux has directories among them.
    try:
        yield directory
        for file in (*directory.rglob("*"), directory):
            flush(file)
    except OSError as error:
        if isinstance(error.filename, str) and Path(error.filename).is_relative_to(through):
            error.filename = str(aside / Path(error.filename).relative_to(through))
        raise


@contextmanager
def locked(path: Path, wait_s: float = math.inf) -> Iterator[None]:
    """Hold the lock of a file of a home, which is created if it is missing, in the directory that
    :func:`opened_parent` finds. Raises ``TimeoutError`` if another process holds it for ``wait_s`` seconds."""
    end = time.monotonic() + wait_s
    while (descriptor := _try_lock(path)) is None:
        if time.monotonic() >= end:
            raise TimeoutError(f"{path} is locked by another process")
        time.sleep(LOCK_POLL_S)
    try:
        yield
    finally:
        os.close(descriptor)


def _try_lock(path: Path) -> int | None:
    """Return the descriptor of a locked file, or None if another process holds its lock."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with opened_parent(path) as parent:
        descriptor = os.open(path.name, flags, 0o666, dir_fd=parent)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_nlink > 0:  # Otherwise it was removed meanwhile, and guards nothing.
            return descriptor
    except BlockingIOError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None
