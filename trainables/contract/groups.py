"""Groups of users."""

from __future__ import annotations

import grp
import os
import pwd
from functools import cache


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
