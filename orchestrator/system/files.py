"""Writes files and directories whole or not at all, even if there is a crash.

A home, or the directory of a file that a user names, may belong to another user, who can change it at the same time. So
:func:`opened_parent` opens the directory of a file. ``trainables``, which may not import the orchestrator, has simpler
functions for files in private directories.
"""

from __future__ import annotations

import errno
import fcntl
import math
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from orchestrator.system.permissions import MOST_LINKS, is_of_another, sharing_text, user_name
from trainables.contract.files import flush as flush
from trainables.contract.files import write_whole as write_by_path

DESCRIPTORS = Path("/proc/self/fd")
"""Directory with a link to each file and directory that this process has opened."""
FILLED_DIRECTORY = "whole"
"""Name of a directory that is being filled, in a hidden directory."""
TOKEN_BYTES = 8
"""Number of random bytes in the name of a hidden directory."""
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
    """Return the paths in a directory, sorted. A missing directory has none.

    Raises ``OSError`` if the directory cannot be read. ``Path.glob`` would return nothing, as if it were empty.
    """
    try:
        return sorted(directory / name for name in os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []


def files_below(directory: Path) -> list[Path]:
    """Return the paths of all plain files below a directory, sorted. Raises ``OSError`` if a directory cannot be
    read."""

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError | NotADirectoryError):
            raise error

    paths = [Path(parent, name) for parent, _, names in os.walk(directory, onerror=refuse) for name in names]
    return sorted(path for path in paths if is_file(path))


@contextmanager
def opened_directory(path: Path | str, dir_fd: int | None = None) -> Iterator[int]:
    """Yield a descriptor of a directory, for use as ``dir_fd``.

    If another user replaces the directory by a link during the block, the descriptor still refers to the directory.

    Args:
        path: The directory: a path, or a name in the directory of ``dir_fd``.
        dir_fd: Descriptor of the directory that contains it.

    Raises:
        NotADirectoryError: For a link.
        OSError: If the directory cannot be opened, or if its path contains another user's link.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    if dir_fd is None:
        with opened_parent(Path(path)) as parent:
            try:
                descriptor = os.open(Path(path).name, flags, dir_fd=parent)
            except OSError as error:
                error.filename = str(path)
                raise
    else:
        descriptor = os.open(path, flags, dir_fd=dir_fd)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def opened_parent(path: Path, *, make: bool = False, mode: int = 0o777) -> Iterator[int]:
    """Yield a descriptor of the directory that contains a path, for ``dir_fd``.

    Links in the path are followed only if this user or root made them. Otherwise, another user who owns a directory in
    the path could replace it by a link to a directory of this user, even during the call.

    Args:
        path: The path.
        make: Whether to create missing directories.
        mode: Mode of the directories that are created.

    Raises:
        OSError: If the directory cannot be opened, or if its path contains another user's link.
    """
    descriptor = _opened(path.absolute().parent, mode if make else None)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _opened(directory: Path, mode: int | None) -> int:
    """Return a descriptor of a directory, which the caller closes. Follow no link of another user in its path. Create
    missing directories, unless ``mode`` is None."""
    if not hasattr(os, "O_PATH"):  # Only Linux can open a link itself.
        if mode is not None:
            directory.mkdir(mode, parents=True, exist_ok=True)
        return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    # Open one part of the path after the other, so that nobody can swap a part that was already checked.
    parts = list(directory.parts[:0:-1])  # Reversed, so that pop() returns the next part.
    links = 0
    # Invariant: at the start of each step, `here` is the only open descriptor. If a step fails, the handler closes it.
    here = os.open("/", os.O_PATH | os.O_CLOEXEC)
    try:
        while parts:
            below = _opened_part(parts.pop(), here, mode)
            here, above = below, here  # From here on, the handler closes the new descriptor, and `above` is ours.
            status = os.fstat(below)
            if not stat.S_ISLNK(status.st_mode):
                os.close(above)  # A directory: continue from it.
                continue
            links += 1
            if status.st_uid not in (0, os.getuid()) or links > MOST_LINKS:
                os.close(above)  # The handler closes the descriptor of the link.
                raise OSError(errno.ELOOP, "The path has a link of another user, which is not followed", str(directory))
            target = Path(os.readlink("", dir_fd=below))
            os.close(below)
            here = above  # A relative target begins in the directory that contains the link.
            if target.is_absolute():
                here = os.open("/", os.O_PATH | os.O_CLOEXEC)
                os.close(above)
            parts += [part for part in reversed(target.parts) if part != "/"]
        return here
    except BaseException:  # An interruption must not leave the descriptor open either.
        os.close(here)
        raise


def _opened_part(name: str, above: int, mode: int | None) -> int:
    """Return a descriptor of a directory or link in an opened directory, as :func:`_opened` does."""
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=above)
    except FileNotFoundError:
        if mode is None:
            raise
    with suppress(FileExistsError):  # Another process may make it at the same time.
        os.mkdir(name, mode, dir_fd=above)
    return os.open(name, flags, dir_fd=above)


def replace_whole(path: Path, content: str | bytes) -> None:
    """Replace a file, link or pipe of a home atomically by a file with this content. Create its directory if it is
    missing. Raises ``OSError`` with the path, also if the path contains another user's link."""
    aside = f".{path.name}-{secrets.token_hex(8)}"
    try:
        with opened_parent(path, make=True) as parent:
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


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace a file that the user has named atomically. A device, such as ``/dev/stdout``, is written in place.

    A link of this user or of root is kept, and its target is replaced. Raises ``OSError`` with the path, also if it is
    another user's pipe or device, or contains another user's link, whenever it was made.
    """
    if not hasattr(os, "O_PATH"):  # Only Linux can open a link itself.
        write_by_path(path, content)
        return
    for _ in range(MOST_LINKS):
        with opened_parent(path) as parent, _opened_entry(path.name, parent) as entry:
            # What is looked at is what is used: another user may exchange the name for another entry at any time.
            if entry is None or stat.S_ISREG((status := os.fstat(entry)).st_mode):
                break
            # Links in /proc lead to what a process has opened. Those have no path, and no user can change them.
            in_proc = os.fstat(parent).st_dev == os.stat("/proc/self").st_dev
            if stat.S_ISLNK(status.st_mode) and not in_proc:
                if is_of_another(status):
                    raise PermissionError(errno.EPERM, "It is a link of another user, which is not followed", str(path))
                path = path.parent / os.readlink("", dir_fd=entry)
                continue
            if not in_proc and is_of_another(status):  # What is written into a pipe, its owner reads.
                raise PermissionError(errno.EPERM, "It is a pipe or device of another user", str(path))
            device = path.name if in_proc else DESCRIPTORS / str(entry)
            flags = os.O_WRONLY | os.O_CLOEXEC | (os.O_TRUNC if in_proc else 0)
            with open(os.open(device, flags, dir_fd=parent), "wb") as file:
                file.write(content if isinstance(content, bytes) else content.encode())
            return
    else:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    replace_whole(path, content)  # If another user puts a link there in the meantime, it is replaced, too.


@contextmanager
def _opened_entry(name: str, above: int) -> Iterator[int | None]:
    """Yield a descriptor of an entry of an opened directory (of the link itself, if it is a link), or None if the
    directory lacks the entry."""
    try:
        entry = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    except FileNotFoundError:
        yield None
        return
    try:
        yield entry
    finally:
        os.close(entry)


def remove_file(path: Path) -> None:
    """Remove a file of a home if it exists. Raises ``OSError`` if the path contains another user's link."""
    with suppress(FileNotFoundError, NotADirectoryError), opened_parent(path) as parent:
        os.unlink(path.name, dir_fd=parent)


def remove_tree(path: Path) -> None:
    """Remove a directory of a home with all its content, as far as possible. Do nothing if the path contains another
    user's link."""
    with suppress(OSError), opened_parent(path) as parent:
        shutil.rmtree(path.name, ignore_errors=True, dir_fd=parent)


def remove_abandoned(parent: Path, prefix: str) -> None:
    """Remove the directories that killed processes left in the middle of :func:`hidden_directory`.

    A user may have other hidden directories with this prefix, such as backups. So the whole name and the content must
    be those of such a directory. In a directory that other users can write, remove nothing: they could give such a name
    to any directory of this user there.
    """
    names = re.compile(f"{re.escape(prefix)}[0-9a-f]{{{2 * TOKEN_BYTES}}}")
    remove_old_directories(parent, names, frozenset({FILLED_DIRECTORY}))


def remove_old_directories(parent: Path, names: re.Pattern[str], content: frozenset[str] | None = None) -> None:
    """Remove the directories with such names that are older than :data:`ABANDONED_S` and have nothing but ``content``
    (by default, any content)."""
    if parent.is_dir() and sharing_text(parent):
        return
    try:
        chosen = sorted(filter(names.fullmatch, os.listdir(parent)))  # A home may have thousands of runs.
    except (FileNotFoundError, NotADirectoryError, PermissionError):  # The directory can be written, but not listed.
        return
    for path in (parent / name for name in chosen):
        if not is_directory(path):
            continue
        is_old = time.time() - path.stat().st_mtime > ABANDONED_S
        if is_old and (content is None or content.issuperset(os.listdir(path))):
            remove_tree(path)


class HiddenDirectory(NamedTuple):
    """A private directory next to a path, while it is filled.

    Attributes:
        path: The directory, reached through its descriptor. It stays this directory even if another user renames it.
        shown: The directory's path for messages.
        descriptor: Descriptor of the directory.
        parent: Descriptor of the directory that contains it.
    """

    path: Path
    shown: Path
    descriptor: int
    parent: int


@contextmanager
def hidden_directory(path: Path, prefix: str) -> Iterator[HiddenDirectory]:
    """Make a directory that only this user can open, next to ``path`` as :func:`opened_parent` finds it. Remove it
    after the block. Raises ``OSError`` if another user puts a directory in its place at once."""
    with opened_parent(path, make=True) as parent:
        aside = f"{prefix}{secrets.token_hex(TOKEN_BYTES)}"
        os.mkdir(aside, 0o700, dir_fd=parent)
        with opened_directory(aside, parent) as opened:
            shown = path.with_name(aside)
            if is_of_another(status := os.fstat(opened)):
                replaced = f"It was replaced by a directory of another user ({user_name(status.st_uid)})"
                raise OSError(errno.EPERM, replaced, str(shown))
            if os.listdir(opened):  # Another user can rename a directory of this user.
                raise OSError(errno.EPERM, "It was replaced by another directory", str(shown))
            through = DESCRIPTORS / str(opened)
            try:
                # Only Linux has directories among the descriptors.
                yield HiddenDirectory(through if through.is_dir() else shown, shown, opened, parent)
            finally:
                _remove_opened(aside, opened, parent)


def _remove_opened(name: str, opened: int, parent: int) -> None:
    """Remove an opened directory, which was made with this name in another opened directory.

    Empty it through its descriptor: by now, another user may have given the name to another directory of this user.
    """
    for entry in os.listdir(opened):
        try:
            os.unlink(entry, dir_fd=opened)
        except OSError:  # A directory.
            shutil.rmtree(entry, ignore_errors=True, dir_fd=opened)
    with suppress(OSError):
        os.rmdir(name, dir_fd=parent)  # Does nothing to a directory that is not empty.


@contextmanager
def whole_directory(path: Path, *, must_be_new: bool = False) -> Iterator[Path]:
    """Yield a directory to fill, which is flushed and renamed to ``path`` on success. An existing ``path`` stays. With
    ``must_be_new``, raise ``OSError`` if there is one.

    It is made in a :func:`hidden_directory`. The yielded path leads through a descriptor of the hidden directory, so
    files are written there even if another user replaces it by a link in the meantime.
    """
    remove_abandoned(path.parent, f".{path.name}-")
    with hidden_directory(path, f".{path.name}-") as hidden:
        os.mkdir(FILLED_DIRECTORY, 0o700, dir_fd=hidden.descriptor)
        yield from _filled(hidden)
        try:
            os.rename(FILLED_DIRECTORY, path.name, src_dir_fd=hidden.descriptor, dst_dir_fd=hidden.parent)
        except OSError:
            if must_be_new or not is_directory(path):  # Otherwise another process was first, and its directory stays.
                raise
        with opened_directory(".", hidden.parent) as directory:
            os.fsync(directory)


def _filled(hidden: HiddenDirectory) -> Iterator[Path]:
    """Yield the path of the directory in a hidden one, and flush what was written there. Errors contain the path of the
    hidden directory instead of its descriptor."""
    directory = hidden.path / FILLED_DIRECTORY
    try:
        yield directory
        for file in (*directory.rglob("*"), directory):
            flush(file)
    except OSError as error:
        if isinstance(error.filename, str) and Path(error.filename).is_relative_to(directory):
            error.filename = str(hidden.shown / Path(error.filename).relative_to(hidden.path / FILLED_DIRECTORY))
        raise


@contextmanager
def locked(path: Path, wait_s: float = math.inf) -> Iterator[None]:
    """Hold the lock of a file of a home during the block. Create the file if it is missing.

    Raises ``TimeoutError`` if another process holds the lock for ``wait_s`` seconds.
    """
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
        # If the file was removed in the meantime, the next process makes a new one, so this lock excludes nobody.
        if os.fstat(descriptor).st_nlink > 0:
            return descriptor
    except BlockingIOError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None
