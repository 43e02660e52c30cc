"""Access to the pages. As with Jupyter, only a browser that has opened the address with the token may read them.

All secrets are new at each start, so that an old address or cookie is useless to a program that takes the port later.
Browsers send cookies to every port of a host. So the cookie is limited to a secret folder of the address, and the
browser does not send it to another user's server on another port.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs

from orchestrator.system.errors import UserError

COOKIE = "orchestrator"
"""Name of the cookie."""
PARAMETER = "token"
"""Parameter of the first address that contains the token."""


def _secret() -> str:
    return secrets.token_hex(16)


@dataclass(frozen=True)
class Access:
    """The secrets of one server: the token in its printed address, and the folder and cookie after the first visit."""

    token: str = field(default_factory=_secret)
    folder: str = field(default_factory=_secret)
    cookie: str = field(default_factory=_secret)

    @property
    def root(self) -> str:
        """Path of the page of all sweeps."""
        return f"/{self.folder}/"

    @property
    def set_cookie(self) -> str:
        """Value of the header that stores the cookie, which no script can read."""
        return f"{COOKIE}={self.cookie}; Path={self.root}; HttpOnly; SameSite=Lax"

    def is_first_visit(self, path: str, query: str) -> bool:
        """Return True for the address with the token."""
        given = parse_qs(query).get(PARAMETER, [])
        return path == "/" and len(given) == 1 and _same(given[0], self.token)

    def inside(self, path: str, cookies: str) -> str | None:
        """Return the part of a path below :attr:`root`. Return None if the path is elsewhere, or if the request lacks
        the cookie."""
        folder, slash, rest = path.removeprefix("/").partition("/")
        # Programs at other ports of this host may set any cookies, even with this name.
        pairs = [pair.strip().partition("=") for pair in cookies.split(";")]
        is_known = any(_same(value, self.cookie) for name, _, value in pairs if name == COOKIE)
        return rest if slash and _same(folder, self.folder) and is_known else None


def _same(given: str, secret: str) -> bool:
    """Compare in constant time, so that response times do not reveal the secret."""
    return hmac.compare_digest(given.encode(errors="surrogateescape"), secret.encode())


@contextmanager
def kept_address(home: Path, port: int, address: str) -> Iterator[Path]:
    """Store a server's address, which contains the token, in a file of the home that only this user can read. Remove
    the file after the block. Raises :class:`UserError` if the file cannot be written."""
    path = home / f".ui-{port}.url"
    try:
        path.unlink(missing_ok=True)  # An earlier server was killed, or another user left a file or link here.
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:
            file.write(f"{address}\n")
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror}): choose a --home that can be written") from error
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
