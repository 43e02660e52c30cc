"""Finds the other users who can write a file or directory, by its owner, mode, group and access control list."""

from __future__ import annotations

import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from trainables.contract.other_writers import is_private_group, lists_others

MOST_LINKS = 40
"""Links on the way to a file, as in Linux."""


def writable_by_others(path: Path) -> Path | None:
    """Return the first of a path and its parents that other users can write, or None if only this user and root can."""
    return next(places_of_others(path), None)


def places_of_others(path: Path, *, teams: bool = True) -> Iterator[Path]:
    """Yield each directory on the path that another user can write, and the path itself if another user can write it.
    That includes another owner and, unless ``teams`` is False, other members of the group.

    A group that has only this user does not count. In a directory with the sticky bit, such as ``/tmp``, others can add
    files. They cannot replace this user's files, unless the directory belongs to them.
    """
    # In a directory with the sticky bit, the owner of the entry below decides whether others can replace it.
    below: os.stat_result | None = None
    for place in (path, *path.parents):
        status = place.stat()
        is_open = status.st_mode & 0o002
        is_open |= teams and status.st_mode & 0o020 and not is_private_group(status.st_gid)
        is_open |= lists_others(place, groups=teams)
        is_sticky = status.st_mode & stat.S_ISVTX and not is_of_another(status)
        is_safe = is_sticky and below is not None and below.st_uid in (0, os.getuid())
        if (is_open and not is_safe) or (teams and is_of_another(status)):
            yield place
        below = status


def is_of_another(status: os.stat_result) -> bool:
    """Return True if a file or directory belongs to another user. They can write it whatever its mode is."""
    return status.st_uid not in (0, os.getuid(), _unknown_user())


def foreign_link(path: Path) -> Path | None:
    """Return the first link of another user on the way to a path, which may be missing. Return None if there is none.

    Links of this user and of root are followed.
    """
    path = path.absolute()
    for _ in range(MOST_LINKS):
        for place in reversed((path, *path.parents)):
            try:
                status = place.lstat()
            except (FileNotFoundError, NotADirectoryError):
                return None
            if stat.S_ISLNK(status.st_mode):
                if is_of_another(status):
                    return place
                path = place.parent / os.readlink(place) / path.relative_to(place)
                break
        else:
            return None
    return None  # A circle, which nothing opens.


def foreign_link_text(path: Path) -> str:
    """Return whose :func:`foreign_link` is on the way to a path. Return an empty string if there is none."""
    link = foreign_link(path)
    if link is None:
        return ""
    return f"{link} is a link of another user ({user_name(link.lstat().st_uid)}), which is not followed"


def exchange_text(path: Path) -> str:
    """Return who else could put another directory in the place of an existing one, such as "other users can write
    /scratch". Return an empty string if nobody could.

    They could rename a private directory if they can write a directory above it that has no sticky bit.
    """
    if text := foreign_link_text(path):
        return text
    # The path as it is named counts, and where its links lead.
    place = writable_by_others(path.absolute()) or writable_by_others(path.resolve())
    return "" if place is None else who_can_write_text(place)


def who_can_write_text(place: Path) -> str:
    """Return a sentence that says who else can write a file or directory from :func:`places_of_others`."""
    status = place.stat()
    if is_of_another(status):
        return f"{place} belongs to another user ({user_name(status.st_uid)})"
    return f"other users can write {place}"


def closing_text(place: Path, otherwise: str) -> str:
    """Return how to remove other users' permission to write a file or directory, or what to do ``otherwise``."""
    return (
        otherwise
        if is_of_another(place.stat())
        else f"remove that permission ({closing_command(place)}), or {otherwise}"
    )


@cache
def _unknown_user() -> int | None:
    """Return the user id that the system shows for every owner that this container does not know, if root is one of
    them.

    Return None if the container knows all users, or if it has its own root, who owns "/". Directories of unknown owners
    may then belong to anyone outside the container.
    """
    try:
        user = int(Path("/proc/sys/kernel/overflowuid").read_text())
        lines = [[int(word) for word in line.split()] for line in Path("/proc/self/uid_map").read_text().splitlines()]
    except OSError:  # Not Linux.
        return None
    is_known = any(first <= user < first + count for first, _, count in lines)
    return None if is_known or os.stat("/").st_uid != user else user


def sharing_text(place: Path) -> str:
    """Return who else can write a directory, such as "belongs to another user (ann)". Return an empty string if only
    this user and root can.

    Libraries and programs open files in the directory by their paths again and again, and those users could replace the
    files by links. This program opens only its own files without following other users' links.
    """
    owner = place.stat().st_uid
    if owner not in (0, os.getuid()):
        return f"belongs to another user ({user_name(owner)})"
    return "can be written by other users" if next(places_of_others(place), None) == place else ""


def hide_from_others(file: Path) -> None:
    """Make a file with a secret readable only by this user, if it exists."""
    with suppress(OSError):  # The file may be missing, or a mounted secret.
        file.chmod(0o600)


def closing_command(place: Path, who: str = "go", change: str = "-w") -> str:
    """Return the shell command that removes other users' permission to write a file or directory."""
    return f"chmod {who}{change} {shlex.quote(str(place))}"


def user_name(user: int) -> str:
    """Return the name of a user by id, or ``uid 1000`` if the user list does not contain the id."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"uid {user}"
