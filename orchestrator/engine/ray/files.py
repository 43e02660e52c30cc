"""Ray's files on this machine: its temporary directory, and the token that protects its ports."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ray._private.authentication.authentication_token_generator import generate_new_authentication_token

from orchestrator import environment
from orchestrator.errors import UserError

LONGEST = 107 - len("/ray/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store")
"""Maximum length in bytes of a temporary directory's path. Ray appends these bytes to it for a socket, and Linux limits
the path of a socket to 107 bytes."""
TOKEN, TOKEN_PATH = "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
"""Environment variables that specify a token, so that Ray does not write one."""


def temporary_directory() -> Path:
    """Return the directory for Ray's sessions: ``RAY_TMPDIR``, or ``/tmp``. Raises :class:`UserError` if Ray cannot use
    it."""
    directory = Path(os.environ.get("RAY_TMPDIR") or "/tmp")
    if len(os.fsencode(directory)) > LONGEST or not environment.is_writable(directory):
        raise UserError(
            f"Ray cannot keep its sockets in {directory}: set RAY_TMPDIR to a directory that can be written, with a "
            f"path of at most {LONGEST} bytes"
        )
    return directory


def token_file() -> Path:
    """Return the file of Ray's token."""
    return Path(os.environ.get(TOKEN_PATH) or Path.home() / ".ray" / "auth_token")


def protect_token(*, missing: bool) -> None:
    """Make the token that protects Ray's ports readable only by this user. With ``missing``, write a token if there is
    none, because Ray would write it readable by all users of the machine. Raises :class:`UserError` if it cannot."""
    environment.settle_user()
    token = token_file()
    missing &= os.environ.get("RAY_AUTH_MODE", "token").lower() == "token"
    if missing and not any(map(os.environ.get, (TOKEN, TOKEN_PATH))) and not token.exists():
        try:
            token.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):  # Another sweep may write it at the same time.
                descriptor = os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with open(descriptor, "w", encoding="ascii") as file:
                    file.write(generate_new_authentication_token())
        except OSError as error:
            why = f"Ray's token cannot be written to {token} ({error.strerror})"
            raise UserError(f"{why}: set HOME to a directory that can be written") from error
    with suppress(OSError):  # The file may be missing, or a mounted secret.
        token.chmod(0o600)
