"""Which MLflow store a sweep is recorded in, and whether it can be reached."""

from __future__ import annotations

import os
import socket
import sqlite3
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from filelock import FileLock

from orchestrator.errors import SweepError, UserError
from orchestrator.tracking.base import DamagedStoreError
from orchestrator.tracking.outage import damage_words

VARIABLE = "MLFLOW_TRACKING_URI"
DATABASE, ARTIFACTS = "mlflow.db", "artifacts"
BESIDE = ("-journal", "-wal", "-shm")
"""What SQLite keeps beside a database that is open, or was when its process died."""
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

    def location_of(self, experiment: str) -> str | None:
        """The URI where a new experiment's artifacts lie: for an SQLite file beside it, as MLflow's own choice would be
        the working directory; None where a server decides."""
        parts, place = urlsplit(self.uri), self.artifacts
        if place is None and parts.scheme.split("+")[0] == "sqlite":
            place = Path(parts.path[1:]).parent / ARTIFACTS
        return None if place is None else (place / experiment).as_uri()

    @property
    def shown(self) -> str:
        """The URI without user name and password."""
        return without_credentials(self.uri)


def choose(home: Path, environment: Mapping[str, str] = os.environ) -> Store:
    """The store named by ``MLFLOW_TRACKING_URI``, else SQLite and artifacts under ``home``."""
    if uri := environment.get(VARIABLE, "").strip():
        return Store(uri, None)
    return own(home)


def own(home: Path) -> Store:
    """SQLite and artifacts under ``home``."""
    home = home.resolve()
    return Store(f"sqlite:///{home / DATABASE}", home / ARTIFACTS)


def replace(chosen: Store, new: Store) -> Path | None:
    """Put a new store of our own in the place of another one, which is moved into a directory beside it, whole; where
    that lies, None where there was none. The new one must know its later place already.

    Raises :class:`SweepError` where a file cannot be moved, and leaves both as they were.
    """
    home, made = _place(chosen), _place(new)
    former = [home / name for name in (DATABASE, *(f"{DATABASE}{end}" for end in BESIDE), ARTIFACTS)]
    there = [path for path in former if path.exists()]
    aside = Path(tempfile.mkdtemp(prefix=f"{FORMER}-", dir=home))
    moves = [(path, aside / path.name) for path in there]
    moves += [(made / name, home / name) for name in (DATABASE, ARTIFACTS) if (made / name).exists()]
    done: list[tuple[Path, Path]] = []
    try:
        for source, target in moves:
            source.rename(target)
            done.append((source, target))
    except OSError as error:
        for source, target in reversed(done):
            target.rename(source)
        aside.rmdir()
        raise SweepError(f"the store in {home} cannot be moved aside: {error}") from error
    if there:
        return aside
    aside.rmdir()
    return None


def _place(own: Store) -> Path:
    if own.artifacts is None:
        raise ValueError(f"{own.shown} is not a store of our own")
    return own.artifacts.parent


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
    """Raise :class:`SweepError` unless the store answers within a few seconds (:class:`DamagedStoreError` where its
    file is damaged), :class:`UserError` for a bad URI."""
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


def check_database(store: Store) -> None:
    """Raise as :func:`check` does where the store is an SQLite file."""
    if urlsplit(store.uri).scheme.split("+")[0] == "sqlite":
        _check_sqlite(store)


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
        with closing(sqlite3.connect(path, timeout=TIMEOUT_S, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")  # From here on nobody else writes.
            why = _flaw(connection, path, store.artifacts)
            connection.execute("ROLLBACK")
    except sqlite3.DatabaseError as error:
        if not (why := damage_words(error)):
            raise _unreachable(store, str(error)) from error
    except (OSError, sqlite3.Error) as error:
        raise _unreachable(store, str(error)) from error
    if why:
        raise _damaged(store, why)


def _flaw(connection: sqlite3.Connection, path: Path, artifacts: Path | None) -> str:
    """What is wrong with a database as far as that is seen without reading it whole, ``""`` where nothing is."""
    size = path.stat().st_size
    if size == 0:
        left = artifacts is not None and artifacts.is_dir() and any(artifacts.iterdir())
        return "it is empty, and artifacts of former records lie beside it" if left else ""
    (pages,), (page_bytes,) = (connection.execute(f"PRAGMA {each}").fetchone() for each in ("page_count", "page_size"))
    with path.open("rb") as file:
        said = int.from_bytes(file.read(32)[28:])  # https://www.sqlite.org/fileformat2.html, 1.3.7
    if size < max(pages, said) * page_bytes:
        return f"it is cut off after {size} of {max(pages, said) * page_bytes} bytes"
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return ""


def _check_port(store: Store, port: int) -> None:
    parts = urlsplit(store.uri)
    address = (parts.hostname or "localhost", parts.port or port)
    try:
        with socket.create_connection(address, timeout=TIMEOUT_S):
            return
    except OSError as error:
        raise _unreachable(store, f"{address[0]}:{address[1]}: {error}") from error


def _damaged(store: Store, why: str) -> DamagedStoreError:
    own = store.artifacts is not None
    remedy = "`sync --rebuild` makes it anew from the journals" if own else "restore it, or let MLflow make a new one"
    return DamagedStoreError(f"the MLflow store {store.shown} is damaged: {why}; {remedy}.")


def _unreachable(store: Store, why: str) -> SweepError:
    return SweepError(
        f"the MLflow store {store.shown} cannot be reached: {why}. Start it, set {VARIABLE} to another one, or unset "
        f"{VARIABLE} to record in a file here."
    )
