"""MLflow store of the record: its choice, its check, and messages for its errors."""

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
from orchestrator.home.directories import scratch

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

VARIABLE = "MLFLOW_TRACKING_URI"
USERNAME, PASSWORD, TOKEN = "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"
DATABASE, ARTIFACTS = "mlflow.db", "artifacts"
FORM = "Write http(s)://host:port"
TIMEOUT_S = 4.0
"""Seconds to wait for a database."""
POSTGRESQL_PORT = 5432
NO_LOGIN, NO_PERMISSION = 401, 403
ROWS_A_PAGE = 1000
"""Maximum number of runs in a response from MLflow."""
LONGEST = 300
"""Maximum number of characters of an error in a message."""
UNTRUSTED = "certificate verify failed"
"""OpenSSL's message, at the end of a long text."""
OTHER_SCHEMA = "database schema"
"""MLflow's message for a database of another version."""


class StoreError(SweepError):
    """A store that could not be read or written. The message names the store, the reason and what to set."""


@dataclass(frozen=True)
class Store:
    """A tracking URI and, for the store of a home, the directory of its artifacts (None if the server decides)."""

    uri: str
    artifacts: Path | None

    @property
    def scheme(self) -> str:
        """Scheme such as ``sqlite``, ``http`` or ``postgresql``, without the driver's name."""
        return urlsplit(self.uri).scheme.split("+")[0]

    @property
    def database(self) -> Path:
        if self.artifacts is not None:
            return self.artifacts.parent / DATABASE
        from sqlalchemy.engine import make_url

        return Path(make_url(self.uri).database or "")

    @property
    def shown(self) -> str:
        """The URI without user name, password and query, for messages."""
        if self.artifacts is not None:
            return f"sqlite:///{self.database}"
        parts = urlsplit(self.uri)
        # urlunsplit would drop two of the four slashes of sqlite:////a/path.
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.scheme else self.uri

    def location_of(self, experiment: str) -> str | None:
        """Return the URI of a new experiment's artifacts, or None if a server decides. For SQLite, artifacts go
        next to the database file; MLflow itself would put them in the working directory."""
        place = self.artifacts
        if place is None and self.scheme == "sqlite":
            place = self.database.parent / ARTIFACTS
        return None if place is None else (place / experiment).as_uri()


def sqlite_uri(path: Path) -> str:
    """Return the URI of an SQLite database. Raises :class:`UserError` for a path that SQLAlchemy does not accept
    (before 2.1, any path with a question mark)."""
    plain = f"sqlite:///{path}"
    if not {"%", "?"}.intersection(plain):
        return plain
    from sqlalchemy.engine import make_url

    # MLflow creates the parent directory of the text. With the slashes quoted, that is the working directory.
    for uri in (plain, f"sqlite:///{quote(str(path), safe='')}"):
        if make_url(uri).database == str(path):
            return uri
    raise UserError(
        f"MLflow cannot keep a database in {path.parent}: name a --home without a question mark in its path"
    )


def choose(home: Path, environment: Mapping[str, str] = os.environ) -> Store:
    """Return the store in ``MLFLOW_TRACKING_URI``, by default SQLite and artifacts in ``home``. Raises
    :class:`UserError` for a text that is not a URI."""
    if uri := environment.get(VARIABLE, "").strip():
        try:
            urlsplit(uri)
        except ValueError as error:  # The text itself may contain a password.
            raise UserError(f"{VARIABLE} is not a valid URL: {error}. {FORM}") from error
        return Store(uri, None)
    home = home.resolve()
    return Store(sqlite_uri(home / DATABASE), home / ARTIFACTS)


def check(store: Store) -> None:
    """Raise :class:`StoreError` unless the store responds within seconds and accepts the login, or :class:`UserError`
    for an unsupported kind of URI."""
    if store.scheme in ("http", "https"):
        _check_server(store)
    elif store.scheme == "sqlite":
        _check_sqlite(store)
    elif store.scheme == "postgresql":
        _check_port(store, POSTGRESQL_PORT)
    else:
        raise UserError(
            f"{VARIABLE} is {store.shown!r}, which cannot store sweeps. Allowed: http(s)://host:port of an MLflow "
            f"server, sqlite:////absolute/path/{DATABASE}, postgresql://... Unset it to keep the record in the home."
        )


@contextmanager
def store_errors(store: Store) -> Iterator[None]:
    """Turn errors of MLflow, databases and object stores into :class:`StoreError`."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        raise StoreError(f"the MLflow store {store.shown}: {_reason(error, store)}") from error


def all_runs(client: MlflowClient, experiments: Sequence[str], conditions: str, view: int = 1) -> list[Run]:
    """Return all runs of experiments that meet the conditions, by default active runs (MLflow's ``ViewType``)."""
    from mlflow.utils import get_results_from_paginated_fn

    def page(most: int, token: str | None) -> Sequence[Run]:
        return client.search_runs(list(experiments), conditions, view, most, page_token=token)

    return list(get_results_from_paginated_fn(page, ROWS_A_PAGE))  # type: ignore[no-untyped-call]


def settle_client() -> None:
    """Silence MLflow's client and set timeouts of a few seconds."""
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")


def make_database(store: Store) -> None:
    """Create the database of a home if it has none, atomically.

    MLflow takes 6 s to create a database, and cannot use an incomplete one. So each machine creates it once, in its
    scratch directory, and copies it to every home.
    """
    if store.artifacts is None:
        return
    from mlflow import MlflowClient, __version__

    home = store.artifacts.parent
    home.mkdir(parents=True, exist_ok=True)
    template = scratch(None) / f"mlflow-{__version__}.db"
    with FileLock(home / f".{DATABASE}.lock"):
        database = home / DATABASE
        if database.exists() and database.stat().st_size:
            return
        if not template.exists():
            with tempfile.TemporaryDirectory(prefix=f".{template.name}-", dir=template.parent) as aside:
                MlflowClient(sqlite_uri(Path(aside, DATABASE))).search_experiments(max_results=1)  # Makes the tables.
                os.replace(f"{aside}/{DATABASE}", template)
        with tempfile.TemporaryDirectory(prefix=f".{DATABASE}-", dir=home) as aside:
            shutil.copyfile(template, f"{aside}/{DATABASE}")
            os.replace(f"{aside}/{DATABASE}", database)


def _check_server(store: Store) -> None:
    _check_port(store, 443 if store.scheme == "https" else 80)
    from mlflow import MlflowClient  # Takes 2 s to import; only a server needs it.

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
    """Point a home's database at the artifacts next to it, because MLflow stores absolute paths and homes may move."""
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
    """Return True if an experiment's artifacts are in a home, whatever the home's path."""
    return place.startswith("file:///") and place.endswith(f"/{ARTIFACTS}/{experiment}")


def _check_port(store: Store, port: int) -> None:
    parts = urlsplit(store.uri)
    try:
        address = (parts.hostname or "localhost", parts.port or port)
    except ValueError as error:
        raise UserError(f"{VARIABLE} is {store.shown!r}: {error}. {FORM}") from error
    try:
        with socket.create_connection(address, timeout=TIMEOUT_S):
            return
    except UnicodeError as error:
        raise UserError(f"{VARIABLE} is {store.shown!r}, which has no valid host. {FORM}") from error
    except OSError as error:
        raise StoreError(
            f"the MLflow store {store.shown} cannot be reached at {address[0]}:{address[1]}: {error}. Start it, or "
            f"unset {VARIABLE} to keep the record in the home."
        ) from error


def _reason(error: Exception, store: Store) -> str:
    """Return the remedy if the server refuses access, otherwise the cause. MLflow's messages begin with a URL, which is
    removed because it may contain a password."""
    status = _status(error)
    if status == NO_LOGIN:
        has_login = any(os.environ.get(name) for name in (USERNAME, PASSWORD, TOKEN))
        refusal = "rejects this user name or password" if has_login else "requires a login"
        return f"it {refusal}: set {USERNAME} and {PASSWORD} (or {TOKEN}) for an account on that server"
    if status == NO_PERMISSION:
        return (
            "you do not have permission to write there: ask for MANAGE on the experiment, or record under another "
            "name (--set name=...)"
        )
    if UNTRUSTED in str(error):
        cause = str(error)[str(error).index(UNTRUSTED) :].split("(")[0].strip()
        return (
            f"its certificate is not trusted here ({cause}): set MLFLOW_TRACKING_SERVER_CERT_PATH to the certificate "
            "of the authority that signed it"
        )
    lines = str(error).strip().splitlines() or [""]
    if OTHER_SCHEMA in lines[0]:
        remedy = _rebuilding(store) if store.artifacts else "upgrade it with `mlflow db upgrade`"
        return f"another version of MLflow made it ({lines[0].partition('(')[2].partition(')')[0]}): {remedy}"
    line = next((line for line in lines if "Error" in line), lines[0])  # SQLAlchemy's first line lacks the cause.
    reason = line.rpartition(" failed with exception ")[2]
    return f"{type(error).__name__}: {reason[:LONGEST]}"


def _rebuilding(store: Store) -> str:
    return f"`{command_line('sync', '--rebuild', '--home', store.database.parent)}` rebuilds it"


def _status(error: Exception) -> int | None:
    import requests
    from mlflow.exceptions import MlflowException

    if isinstance(error, requests.HTTPError) and error.response is not None:
        return error.response.status_code
    if isinstance(error, MlflowException):
        status: int = error.get_http_status_code()  # type: ignore[no-untyped-call]
        return status
    return None
