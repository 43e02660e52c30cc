"""Ray's files on this machine: its temporary directory, and the token that protects its ports."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from ray._common.utils import get_default_system_temp_dir
from ray._private.authentication.authentication_token_generator import generate_new_authentication_token

from orchestrator import environment
from orchestrator.errors import UserError

TMPDIR = "RAY_TMPDIR"
SYSTEM = Path("/tmp")
"""Temporary directory with a short name, for Unix sockets."""
LONGEST_SOCKET = 103 if sys.platform == "darwin" else 107
"""Maximum length in bytes of a Unix socket's path."""
IN_SESSION = len("/ray/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store")
"""Bytes that Ray appends to its temporary directory for a socket."""
TOKEN, TOKEN_PATH = "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
"""Environment variables that specify a token, so that Ray does not write one."""


def temporary_directory() -> Path:
    """Return the directory for Ray's sessions: Ray's default if it can be used, otherwise ``/tmp``.

    Raises:
        UserError: if neither can be used, or if ``RAY_TMPDIR`` names a directory that cannot be used.
    """
    chosen = Path(get_default_system_temp_dir())
    if not (why := _unusable(chosen)):
        return chosen
    if TMPDIR in os.environ or _unusable(SYSTEM):
        remedy = f"set {TMPDIR} to another directory, such as {SYSTEM}"
        raise UserError(f"Ray cannot keep its sockets in {chosen}, {why}: {remedy}")
    return SYSTEM


def _unusable(directory: Path) -> str:
    """Return why Ray cannot use a temporary directory, or "" if it can."""
    length, room = len(os.fsencode(directory)), LONGEST_SOCKET - IN_SESSION
    if length > room:
        return f"whose path has {length} bytes (limit {room})"
    return "" if environment.is_writable(directory) else "which is missing or cannot be written"


def token_file() -> Path:
    """Return the file of Ray's token. It is in a private directory if Ray's default cannot be created."""
    if given := os.environ.get(TOKEN_PATH):
        return Path(given)
    usual = Path.home() / ".ray" / "auth_token"
    if usual.exists() or environment.is_writable(Path.home()):
        return usual
    return environment.private_directory() / "ray_auth_token"


def protect_token(*, missing: bool) -> None:
    """Make the token that protects Ray's ports readable only by this user. With ``missing``, write a token if there is
    none, because Ray would write it readable by all users of the machine."""
    environment.settle_user()
    token = token_file()
    missing &= os.environ.get("RAY_AUTH_MODE", "token").lower() == "token"
    with suppress(OSError):  # The file may be a mounted secret. Ray reports other errors.
        if missing and not any(map(os.environ.get, (TOKEN, TOKEN_PATH))) and not token.exists():
            token.parent.mkdir(parents=True, exist_ok=True)
            with open(os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
                file.write(generate_new_authentication_token())
        token.chmod(0o600)
        if token.parent == environment.private_directory():
            os.environ[TOKEN_PATH] = str(token)  # Otherwise Ray looks in the home directory.
