"""Who else can write a file or directory: by its owner, its mode, its group, and its access control list."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import shlex
import stat
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ACCESS_LIST = "system.posix_acl_access"
"""Attribute of a file with its access control list on Linux: after four bytes, a kind, rights and an id per entry."""
OF_USER = 2
"""Kind of an entry with the rights of a user."""
OF_GROUP = 8
"""Kind of an entry with the rights of a group."""
OF_ALL = 16
"""Kind of the entry with the most rights that any user or group on the list may have."""
NO_LIST = (errno.ENODATA, errno.EOPNOTSUPP)
"""Errors that mean that a file has no list, or that its file system has none."""


def writable_by_others(path: Path) -> Path | None:
    """Return the first of a path and its parents that other users can write, or None."""
    return next(places_of_others(path), None)


def places_of_others(path: Path, *, teams: bool = True) -> Iterator[Path]:
    """Yield those of a path and its parents that other users can write, including their owners and other members of
    their groups unless ``teams`` is False.

    A group that has only this user does not count. In a directory with the sticky bit, such as ``/tmp``, others can add
    files but not replace those of this user, unless the directory is theirs.
    """
    below: os.stat_result | None = None
    for place in (path, *path.parents):
        status = place.stat()
        is_open = status.st_mode & 0o002
        is_open |= teams and status.st_mode & 0o020 and not _is_private_group(status.st_gid)
        is_open |= _lists_others(place, groups=teams)
        is_safe = status.st_mode & stat.S_ISVTX and below is not None and below.st_uid in (0, os.getuid())
        if (is_open and not is_safe) or (teams and is_of_another(status)):
            yield place
        below = status


def is_of_another(status: os.stat_result) -> bool:
    """Return True if a file or directory belongs to another user, who can write it in spite of its mode."""
    return status.st_uid not in (0, os.getuid(), _unknown_user())


def who_can_write_text(place: Path) -> str:
    """Return who else can write one of :func:`places_of_others`."""
    status = place.stat()
    if is_of_another(status):
        return f"{place} belongs to another user ({user_name(status.st_uid)})"
    return f"other users can write {place}"


def closing_text(place: Path, otherwise: str) -> str:
    """Return how to prevent what :func:`who_can_write_text` says, or otherwise avoid it."""
    return (
        otherwise
        if is_of_another(place.stat())
        else f"remove that permission ({closing_command(place)}), or {otherwise}"
    )


@cache
def _unknown_user() -> int | None:
    """Return the user that the system shows for every owner unknown in this container, root among them, or None if
    all are known."""
    try:
        user = int(Path("/proc/sys/kernel/overflowuid").read_text())
        lines = [[int(word) for word in line.split()] for line in Path("/proc/self/uid_map").read_text().splitlines()]
    except OSError:  # Not Linux.
        return None
    return None if any(first <= user < first + count for first, _, count in lines) else user


def sharing_text(place: Path) -> str:
    """Return who else can write a directory, such as "belongs to another user (ann)", or "" for a directory of this
    user or root alone.

    Libraries and programs open files there by their paths again and again, and those users could put links in their
    place. Only this project's own files are opened without following links of other users.
    """
    owner = place.stat().st_uid
    if owner not in (0, os.getuid()):
        return f"belongs to another user ({user_name(owner)})"
    return "can be written by other users" if next(places_of_others(place), None) == place else ""


def closing_command(place: Path, who: str = "go", change: str = "-w") -> str:
    """Return the command that removes other users' permission to write a place, quoted for a shell."""
    return f"chmod {who}{change} {shlex.quote(str(place))}"


def user_name(user: int) -> str:
    """Return the name of a user by id, or ``uid 1000`` for one that is not listed."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"uid {user}"


def _lists_others(path: Path, *, groups: bool) -> bool:
    """Return True if an access control list (``setfacl``) lets another user write, or another group with ``groups``.
    Their rights are not among those of the mode, which then has the most that anyone on the list may have."""
    if not hasattr(os, "getxattr"):  # Not Linux.
        return False
    try:
        content = os.getxattr(path, ACCESS_LIST)
    except OSError as error:
        if error.errno in NO_LIST:
            return False
        raise
    entries = list(struct.iter_unpack("<HHI", content[4:]))
    most = next((rights for kind, rights, _ in entries if kind == OF_ALL), 0o7)
    writers = [(kind, who) for kind, rights, who in entries if rights & most & 0o2]
    users = {who for kind, who in writers if kind == OF_USER} - {0, os.getuid()}
    others = [who for kind, who in writers if kind == OF_GROUP and not _is_private_group(who)]
    return bool(users or (groups and others))


def _is_private_group(group: int) -> bool:
    if group == 0:
        return True  # Members of root's group are administrators.
    try:
        entry = grp.getgrgid(group)
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return False
    return entry.gr_name == user and set(entry.gr_mem) <= {user}
