"""Which MLflow store a sweep is recorded in, and whether it can be reached."""

from __future__ import annotations

import os
import socket
import sqlite3
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from filelock import FileLock

from orchestrator.errors import SweepError, UserError

VARIABLE = "MLFLOW_TRACKING_URI"
DATABASE, ARTIFACTS = "mlflow.db", "artifacts"
FORMER = "former-store"
"""How the directory's name begins that a store is moved into when it is made anew."""
TIMEOUT_S = 4.0
"""How long a store may take to answer before a sweep starts."""
PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}


@dataclass(frozen=True)
class Store:
    """A tracking URI and, for a store of our own, where artifacts lie (None: the server decides)."""

    uri: str
    artifacts: Path | None

    @property
    def shown(self) -> str:
        """The URI without user name and password."""
        return without_credentials(self.uri)


def choose(home: Path, environment: Mapping[str, str] = os.environ) -> Store:
    """The store named by ``MLFLOW_TRACKING_URI``, else SQLite and artifacts under ``home``."""
    if uri := environment.get(VARIABLE, "").strip():
        return Store(uri, None)
    home = home.resolve()
    return Store(f"sqlite:///{home / DATABASE}", home / ARTIFACTS)


def move_aside(chosen: Store) -> Path | None:
    """Move a store of our own out of the way, whole; where it lies then, None where there was none.

    Raises :class:`SweepError` where it cannot be moved, and leaves it as it was.
    """
    if chosen.artifacts is None:
        raise ValueError(f"{chosen.shown} is not a store of our own")
    home = chosen.artifacts.parent
    parts = [path for path in (home / DATABASE, home / f"{DATABASE}-journal", chosen.artifacts) if path.exists()]
    if not parts:
        return None
    aside = Path(tempfile.mkdtemp(prefix=f"{FORMER}-", dir=home))
    moved: list[Path] = []
    try:
        for part in parts:
            part.rename(aside / part.name)
            moved.append(part)
    except OSError as error:
        for part in moved:
            (aside / part.name).rename(part)
        aside.rmdir()
        raise SweepError(f"the store in {home} cannot be moved aside: {error}") from error
    return aside


@contextmanager
def alone(chosen: Store) -> Iterator[None]:
    """A block in which no other process of this home makes a store of our own: two that do it at once both fail. A
    server sees to it by itself."""
    if chosen.artifacts is None:
        yield
        return
    home = chosen.artifacts.parent
    home.mkdir(parents=True, exist_ok=True)
    with FileLock(home / f".{DATABASE}.lock"):
        yield


def without_credentials(uri: str) -> str:
    """A URI fit to be shown: user name, password and query left out."""
    parts = urlsplit(uri)
    host = parts.netloc.rpartition("@")[2]
    if not parts.scheme:
        return uri
    # sqlite:////a/path keeps its four slashes, which urlunsplit would take for an empty host.
    return f"{parts.scheme}://{host}{parts.path}"


def check(store: Store) -> None:
    """Raise :class:`SweepError` unless the store answers within a few seconds, :class:`UserError` for a bad URI."""
    scheme = urlsplit(store.uri).scheme.split("+")[0]
    if scheme in ("http", "https"):
        _check_server(store)
    elif scheme == "sqlite":
        _check_sqlite(store)
    elif scheme in PORTS:
        _check_port(store, PORTS[scheme])
    elif scheme != "databricks":
        raise UserError(
            f"{VARIABLE} is {store.shown!r}, which is no store for sweeps. Allowed: http(s)://host:port of an MLflow "
            f"server, sqlite:////absolute/path/{DATABASE}, {', '.join(f'{name}://' for name in PORTS)}, databricks."
        )


def _check_server(store: Store) -> None:
    parts = urlsplit(store.uri)
    health = urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/") + "/health", "", ""))
    try:
        with urllib.request.urlopen(health, timeout=TIMEOUT_S):
            return
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            return  # It is there and wants a login, which the client has.
        raise _unreachable(store, f"{health} answers {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        raise _unreachable(store, str(error.reason)) from error
    except (OSError, ValueError) as error:
        raise _unreachable(store, str(error)) from error


def _check_sqlite(store: Store) -> None:
    path = Path(urlsplit(store.uri).path[1:])
    if not path.is_absolute():
        raise UserError(f"{store.shown!r} is a relative path; write sqlite:////absolute/path/{DATABASE}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with sqlite3.connect(path, timeout=TIMEOUT_S) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.rollback()
        connection.close()
    except (OSError, sqlite3.Error) as error:
        raise _unreachable(store, str(error)) from error


def _check_port(store: Store, port: int) -> None:
    parts = urlsplit(store.uri)
    address = (parts.hostname or "localhost", parts.port or port)
    try:
        with socket.create_connection(address, timeout=TIMEOUT_S):
            return
    except OSError as error:
        raise _unreachable(store, f"{address[0]}:{address[1]}: {error}") from error


def _unreachable(store: Store, why: str) -> SweepError:
    return SweepError(
        f"the MLflow store {store.shown} cannot be reached: {why}. Start it, set {VARIABLE} to another one, or unset "
        f"{VARIABLE} to record in a file here."
    )
