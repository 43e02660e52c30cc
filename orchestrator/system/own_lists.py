"""Private lists in this user's configuration directory: their homes, and the code that they trust.

Another user may have written the files of a home, so the files cannot prove who owns it. These lists can.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any

from orchestrator.system.environment import private_directory
from orchestrator.system.files import opened_parent
from orchestrator.system.permissions import (
    MOST_LINKS,
    closing_command,
    foreign_link_text,
    is_of_another,
    user_name,
    who_can_write_text,
    writable_by_others,
)

CONFIG_VARIABLE = "XDG_CONFIG_HOME"
"""Environment variable with the directory of all programs' settings, by default ``~/.config``."""
LARGEST_LIST = 16 << 20
"""Largest list that is read."""


def own_list(name: str) -> Path:
    """Return the path of one of this user's lists. It may not exist."""
    given = os.environ.get(CONFIG_VARIABLE, "")
    return (Path(given) if os.path.isabs(given) else _home() / ".config") / "orchestrator" / name


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # Containers may run under user ids without an entry in the user list, and without HOME.
        return private_directory()


def read_list(path: Path) -> list[Any]:
    """Return the values of a list, one JSON value per line. Return none if another user could write the list."""
    try:
        if not path.is_file() or list_flaw(path):
            return []
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # This user cannot read it, so it proves nothing.
        return []
    values = []
    for line in lines:
        try:
            values.append(json.loads(line))
        except (ValueError, RecursionError):
            continue
    return values


def add_to_list(path: Path, value: object) -> None:
    """Append a JSON value to a list, which is created if it is missing. Raises ``OSError``, also for a list that does
    not count (:func:`list_flaw`): another user could choose which file of this user would be changed."""
    if flaw := list_flaw(path):
        raise PermissionError(errno.EPERM, flaw, str(path))
    for _ in range(MOST_LINKS):
        if not path.is_symlink():
            break
        path = path.parent / os.readlink(path)  # A link of this user, who may keep all settings in one directory.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with opened_parent(path, make=True, mode=0o700) as parent:
        descriptor = os.open(path.name, flags, 0o600, dir_fd=parent)
    with os.fdopen(descriptor, "ab", buffering=0) as file:
        file.write(f"{json.dumps(value)}\n".encode())  # A single write keeps the lines of two programs apart.


def list_flaw(path: Path) -> str:
    """Return why a list does not count, with a remedy. Return an empty string for a list that counts, or that is
    missing and can be made. Raises ``OSError`` if its directory cannot be opened."""
    elsewhere = f"name a directory of yours in {CONFIG_VARIABLE}"
    if text := foreign_link_text(path):
        return f"{text}: {elsewhere}"
    if not path.exists():
        above = next(place for place in path.absolute().parents if place.exists())
        return f"{who_can_write_text(above)}: {elsewhere}" if is_of_another(above.stat()) else ""
    status = path.stat()
    if status.st_uid not in (0, os.getuid()):
        return f"{path} belongs to another user ({user_name(status.st_uid)}): {elsewhere}"
    if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_LIST:
        return f"{path} is not a file of at most {LARGEST_LIST} bytes: remove it"
    if place := writable_by_others(path):
        if is_of_another(place.stat()):
            return f"{who_can_write_text(place)}: {elsewhere}"
        return f"others can write {place}: `{closing_command(place)}`, or {elsewhere}"
    return ""
