"""The token that protects Ray's ports on this machine."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from ray._private.authentication.authentication_token_generator import generate_new_authentication_token

from orchestrator import environment

TOKEN, TOKEN_PATH = "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
"""Environment variables that specify a token, so that Ray does not write one."""


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
