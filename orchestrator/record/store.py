"""The MLflow store that holds the record: which one, if it answers, and its errors in words."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from filelock import FileLock

from orchestrator.commands import command_line
from orchestrator.errors import SweepError, UserError
from orchestrator.home.files import scratch

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

VARIABLE = "MLFLOW_TRACKING_URI"
USERNAME, PASSWORD, TOKEN = "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"
DATABASE, ARTIFACTS = "mlflow.db", "artifacts"
TIMEOUT_S = 4.0
"""Longest wait for a database to answer."""
POSTGRESQL_PORT = 5432
NO_LOGIN, NO_PERMISSION = 401, 403
ROWS_A_PAGE = 1000
"""Most runs that MLflow answers at once."""
LONGEST = 300
"""Most characters of an error that a message repeats."""
UNTRUSTED = "certificate verify failed"
"""Words of OpenSSL, at the end of a text that is longer than a message."""
OTHER_SCHEMA = "database schema"
"""Words of MLflow when another version of it has made a database."""


class StoreError(SweepError):
    """The store could not be read or written. The message names the store, the reason and what to set."""


@dataclass(frozen=True)
class Store:
    """A tracking URI and, for the store of a home, the directory of its artifacts (None: the server decides)."""

    uri: str
    artifacts: Path | None

    @property
    def scheme(self) -> str:
        """``sqlite``, ``http``, ``postgresql``, ... without a driver's name."""
        return urlsplit(self.uri).scheme.split("+")[0]

    @property
    def database(self) -> Path:
        """The file of an SQLite store."""
        return sqlite_path(self.uri) if self.artifacts is None else self.artifacts.parent / DATABASE

    @property
    def shown(self) -> str:
        """The URI without user name, password and query, fit to be printed."""
        if self.artifacts is not None:
            return f"sqlite:///{self.database}"
        parts = urlsplit(self.uri)
        # sqlite:////a/path keeps its four slashes, which urlunsplit would take for an empty host.
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.scheme else self.uri

    def location_of(self, experiment: str) -> str | None:
        """URI of a new experiment's artifacts; None if a server decides. An SQLite file has them in its own directory:
        MLflow would choose the working directory."""
        place = self.artifacts
        if place is None and self.scheme == "sqlite":
            place = self.database.parent / ARTIFACTS
        return None if place is None else (place / experiment).as_uri()


def sqlite_uri(path: Path) -> str:
    """Return the URI of an SQLite database, such that MLflow opens this very file.

    Raises :class:`UserError` for a path that SQLAlchemy cannot be given (before 2.1, one with a question mark).
    """
    plain = f"sqlite:///{path}"
    if not {"%", "?"}.intersection(plain):  # All others stand for themselves.
        return plain
    from sqlalchemy.engine import make_url

    # Quoted whole, slashes too: MLflow makes the parent directory of the text as it stands, which then is this one.
    for uri in (plain, f"sqlite:///{quote(str(path), safe='')}"):
        if make_url(uri).database == str(path):
            return uri
    raise UserError(
        f"MLflow cannot keep a database in {path.parent}: name a --home without a question mark in its path"
    )


def sqlite_path(uri: str) -> Path:
    """Return the file that a URI of SQLite names."""
    from sqlalchemy.engine import make_url

    return Path(make_url(uri).database or "")


def choose(home: Path, environment: Mapping[str, str] = os.environ) -> Store:
    """The store named by ``MLFLOW_TRACKING_URI``, else SQLite and artifacts in ``home``."""
    if uri := environment.get(VARIABLE, "").strip():
        return Store(uri, None)
    home = home.resolve()
    return Store(sqlite_uri(home / DATABASE), home / ARTIFACTS)


def opened(home: Path) -> Store:
    """The store of a home, checked. Raises as :func:`check`."""
    store = choose(home)
    check(store)
    return store


def check(store: Store) -> None:
    """Raise :class:`StoreError` unless the store answers within seconds and accepts the login, :class:`UserError` for
    an URI of another kind."""
    if store.scheme in ("http", "https"):
        _check_server(store)
    elif store.scheme == "sqlite":
        _check_sqlite(store)
    elif store.scheme == "postgresql":
        _check_port(store, POSTGRESQL_PORT)
    else:
        raise UserError(
            f"{VARIABLE} is {store.shown!r}, which cannot hold sweeps. Allowed: http(s)://host:port of an MLflow "
            f"server, sqlite:////absolute/path/{DATABASE}, postgresql://... Unset it to keep the record in the home."
        )


@contextmanager
def store_errors(store: Store) -> Iterator[None]:
    """Turn what MLflow raises, and what it lets through from databases and object stores, into :class:`StoreError`."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(f"the MLflow store {store.shown}: {_words(error, store)}") from error


def all_runs(client: MlflowClient, experiments: Sequence[str], conditions: str, view: int = 1) -> list[Run]:
    """The runs of these experiments that meet the conditions, of all of MLflow's pages; active ones, unless ``view`` is
    another of MLflow's ``ViewType``."""
    from mlflow.utils import get_results_from_paginated_fn

    def page(most: int, token: str | None) -> Sequence[Run]:
        return client.search_runs(list(experiments), conditions, view, most, page_token=token)

    return list(get_results_from_paginated_fn(page, ROWS_A_PAGE))  # type: ignore[no-untyped-call]


def settle_client() -> None:
    """Let MLflow's client give up within seconds, print no lines of its own, and send no usage statistics."""
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")


def make_database(store: Store) -> None:
    """Make the database of a home that has none, whole or not at all.

    MLflow takes 6 s to make one, and cannot use one that a kill left half made. So each machine makes it once, in its
    scratch directory, and every home gets a copy.
    """
    if store.artifacts is None:
        return
    from mlflow import MlflowClient, __version__

    home = store.artifacts.parent
    home.mkdir(parents=True, exist_ok=True)
    pattern = scratch(None) / f"mlflow-{__version__}.db"
    with FileLock(home / f".{DATABASE}.lock"):
        database = home / DATABASE
        if database.exists() and database.stat().st_size:
            return
        if not pattern.exists():
            with tempfile.TemporaryDirectory(prefix=f".{pattern.name}-", dir=pattern.parent) as aside:
                MlflowClient(sqlite_uri(Path(aside, DATABASE))).search_experiments(max_results=1)  # Makes the tables.
                os.replace(f"{aside}/{DATABASE}", pattern)
        with tempfile.TemporaryDirectory(prefix=f".{DATABASE}-", dir=home) as aside:
            shutil.copyfile(pattern, f"{aside}/{DATABASE}")
            os.replace(f"{aside}/{DATABASE}", database)


def _check_server(store: Store) -> None:
    _check_port(store, 443 if store.scheme == "https" else 80)
    from mlflow import MlflowClient  # 2 s, and needed here for a server alone.

    settle_client()
    with store_errors(store):
        MlflowClient(store.uri).search_experiments(max_results=1)


def _check_sqlite(store: Store) -> None:
    path = store.database
    if not path.is_absolute():
        raise UserError(f"{store.shown!r} is a relative path; write sqlite:////absolute/path/{DATABASE}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=TIMEOUT_S, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            if store.artifacts is not None:
                _address_artifacts(store, connection)
            connection.execute("COMMIT")
    except (OSError, sqlite3.Error) as error:
        remedy = f" If the file is damaged, {_rebuilding(store)}." if store.artifacts else ""
        raise StoreError(f"the MLflow store {store.shown}: {error}.{remedy}") from error


def _address_artifacts(store: Store, connection: sqlite3.Connection) -> None:
    """Have the database of a home find its artifacts beside itself. MLflow keeps absolute locations, which are those of
    another path when the home was moved, copied, or is mounted elsewhere."""
    tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE name IN ('experiments', 'runs')").fetchone()
    if tables[0] < 2:
        return
    for name, place in connection.execute("SELECT name, artifact_location FROM experiments").fetchall():
        here = store.location_of(name)
        if place == here or not is_in_home(name, place):
            continue
        connection.execute("UPDATE experiments SET artifact_location = ? WHERE name = ?", (here, name))
        connection.execute(
            "UPDATE runs SET artifact_uri = ? || substr(artifact_uri, ?) WHERE substr(artifact_uri, 1, ?) = ?",
            (f"{here}/", len(place) + 2, len(place) + 1, f"{place}/"),
        )


def is_in_home(experiment: str, place: str) -> bool:
    """True if an experiment's artifacts are in a home, by whatever path it was known."""
    return place.startswith("file:///") and place.endswith(f"/{ARTIFACTS}/{experiment}")


def _check_port(store: Store, port: int) -> None:
    parts = urlsplit(store.uri)
    try:
        address = (parts.hostname or "localhost", parts.port or port)
    except ValueError as error:
        raise UserError(f"{VARIABLE} is {store.shown!r}: {error}. Write http(s)://host:port") from error
    try:
        with socket.create_connection(address, timeout=TIMEOUT_S):
            return
    except OSError as error:
        raise StoreError(
            f"the MLflow store {store.shown} cannot be reached at {address[0]}:{address[1]}: {error}. Start it, or "
            f"unset {VARIABLE} to keep the record in the home."
        ) from error


def _words(error: Exception, store: Store) -> str:
    """An error in words: what to set if the server refuses, else the line of its cause, without the URL that MLflow
    puts first: it may hold a password."""
    status = _status(error)
    if status == NO_LOGIN:
        given = any(os.environ.get(each) for each in (USERNAME, PASSWORD, TOKEN))
        said = "refuses this user name or password" if given else "asks for a login"
        return f"it {said}: set {USERNAME} and {PASSWORD} (or {TOKEN}) to those of an account there"
    if status == NO_PERMISSION:
        return (
            "this user may not write there: ask for the permission MANAGE on the experiment, or record under another "
            "name (--set name=...)"
        )
    if UNTRUSTED in str(error):
        cause = str(error)[str(error).index(UNTRUSTED) :].split("(")[0].strip()
        return (
            f"its certificate is not trusted here ({cause}): set MLFLOW_TRACKING_SERVER_CERT_PATH to the file of the "
            "authority that signed it"
        )
    lines = str(error).strip().splitlines() or [""]
    if OTHER_SCHEMA in lines[0]:
        remedy = _rebuilding(store) if store.artifacts else "upgrade it with `mlflow db upgrade`"
        return f"another version of MLflow made it ({lines[0].partition('(')[2].partition(')')[0]}): {remedy}"
    line = next((each for each in lines if "Error" in each), lines[0])  # SQLAlchemy's first line names no cause.
    _, found, reason = line.partition(" failed with exception ")
    return f"{type(error).__name__}: {(reason if found else line)[:LONGEST]}"


def _rebuilding(store: Store) -> str:
    """Return the words for the command that makes the database of a home again."""
    return f"`{command_line('sync', '--rebuild', '--home', store.database.parent)}` makes it again"


def _status(error: Exception) -> int | None:
    """HTTP status of a server's answer, or None."""
    import requests
    from mlflow.exceptions import MlflowException

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return error.response.status_code
    if isinstance(error, MlflowException):
        status: int = error.get_http_status_code()  # type: ignore[no-untyped-call]
        return status
    return None
