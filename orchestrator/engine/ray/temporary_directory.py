"""The temporary directory of Ray's sessions, whose path must be short enough for Unix sockets."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ray._common.utils import get_default_system_temp_dir

from orchestrator import environment
from orchestrator.errors import UserError

TMPDIR = "RAY_TMPDIR"
SYSTEM = Path("/tmp")
"""Temporary directory with a short name, for Unix sockets."""
LONGEST_SOCKET = 103 if sys.platform == "darwin" else 107
"""Maximum length in bytes of a Unix socket's path."""
IN_SESSION = len("/ray/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store")
"""Bytes that Ray appends to its temporary directory for a socket."""


def temporary_directory() -> Path:
    """Return the directory for Ray's sessions: Ray's default if it can be used, otherwise ``/tmp``.

    Raises:
        UserError: if neither can be used, or if ``RAY_TMPDIR`` names a directory that cannot be used.
    """
    chosen = usual_directory()
    why = _unusable(chosen)
    if not why:
        return chosen
    if TMPDIR in os.environ or _unusable(SYSTEM):
        remedy = f"set {TMPDIR} to another directory, such as {SYSTEM}"
        raise UserError(f"Ray cannot keep its sockets in {chosen}, {why}: {remedy}")
    return SYSTEM


def usual_directory() -> Path:
    """Return Ray's default temporary directory."""
    return Path(get_default_system_temp_dir())


def _unusable(directory: Path) -> str:
    """Return why Ray cannot use a temporary directory, or "" if it can."""
    length, room = len(os.fsencode(directory)), LONGEST_SOCKET - IN_SESSION
    if length > room:
        return f"whose path has {length} bytes (limit {room})"
    return "" if environment.is_writable(directory) else "which is missing or cannot be written"
