"""Private lists in this user's configuration directory: their homes, and the code that they trust.

Another user may have written the files of a home, so the files cannot prove who owns it. These lists can.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from orchestrator.system.environment import private_directory
from orchestrator.system.permissions import (
    closing_command,
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
    """Append a JSON value to a list. Create the list if it is missing. Raises ``OSError`` if it cannot be written."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "ab", buffering=0) as file:
        file.write(f"{json.dumps(value)}\n".encode())  # A single write keeps the lines of two programs apart.


def list_flaw(path: Path) -> str:
    """Return why an existing list does not count, with a remedy. Return an empty string if it counts or is missing.

    Raises ``OSError`` if its directory cannot be opened.
    """
    if not path.exists():
        return ""
    status = path.stat()
    elsewhere = f"set {CONFIG_VARIABLE} to a directory of yours"
    if status.st_uid not in (0, os.getuid()):
        return f"{path} belongs to another user ({user_name(status.st_uid)}): {elsewhere}"
    if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_LIST:
        return f"{path} is not a file of at most {LARGEST_LIST} bytes: remove it"
    if place := writable_by_others(path):
        if is_of_another(place.stat()):
            return f"{who_can_write_text(place)}: {elsewhere}"
        return f"others can write {place}: `{closing_command(place)}`, or {elsewhere}"
    return ""
