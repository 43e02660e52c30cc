"""Other users who can write a file, because of its group or its access control list."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import struct
from functools import cache
from pathlib import Path

ACCESS_LIST = "system.posix_acl_access"
"""Attribute of a file with its access control list on Linux: after four bytes, a kind, rights and an id per entry."""
OF_USER = 2
"""Kind of an entry with the rights of a user."""
OF_GROUP = 8
"""Kind of an entry with the rights of a group."""
OF_ALL = 16
"""Kind of the entry (the mask) that limits the rights of every user and group on the list."""
NO_LIST = (errno.ENODATA, errno.EOPNOTSUPP)
"""Error numbers for a file without a list, and for a file system without lists."""


def is_private_group(group: int) -> bool:
    """Return True for a group that has only this user, or only administrators, as far as the system lists users.

    Many systems give every user a group of the same name.
    """
    if group == 0:
        return True  # Members of root's group are administrators.
    try:
        entry = grp.getgrgid(group)
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return False
    return entry.gr_name == user and set(entry.gr_mem) <= {user} and _users_of(group) <= {os.getuid()}


@cache
def _users_of(group: int) -> frozenset[int]:
    """Return the ids of the users whose main group this is. A group's own list of members lacks them."""
    return frozenset(entry.pw_uid for entry in pwd.getpwall() if entry.pw_gid == group)


def lists_others(path: Path, *, groups: bool) -> bool:
    """Return True if an access control list (``setfacl``) lets another user write or, with ``groups``, another group.

    With an access control list, the group bits of the mode show the mask, not the rights of individual users.
    """
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
    others = [who for kind, who in writers if kind == OF_GROUP and not is_private_group(who)]
    return bool(users or (groups and others))
