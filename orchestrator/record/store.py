"""MLflow store of the record: its choice, its check, and its errors."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from filelock import FileLock

from orchestrator.home.foreign_files import checked_key, own_directory
from orchestrator.system.environment import scratch
from orchestrator.system.errors import SweepError, UserError
from orchestrator.system.files import write_whole

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

VARIABLE = "MLFLOW_TRACKING_URI"
DATABASE, ARTIFACTS = "mlflow.db", "artifacts"
SQLITE = "sqlite:///"
TIMEOUT_S = 4.0
"""Seconds to wait for a database."""
RUNS_A_PAGE = 10_000
"""Runs in one answer of a store; MLflow allows at most 50,000."""
LONGEST = 400
"""Maximum number of characters of an error in a message."""
RUN_ID = re.compile(r"[0-9a-f]{32}")
"""Pattern of MLflow's ids of runs."""
REBUILD = "If the file is damaged or from another version of MLflow, `sync --rebuild` makes a new one from the home"
"""Remedy for a database."""
LOGIN = re.compile(r"//[^/\s]*@")
"""User name and password in a URL."""


class StoreError(SweepError):
    """A store that could not be read or written. The message names the store and the reason."""


@dataclass(frozen=True)
class Store:
    """A tracking URI and the path of its SQLite database, or None if a server has the record."""

    uri: str
    database: Path | None = None

    @property
    def shown(self) -> str:
        """The URI without user name and password, for messages."""
        return _without_login(self.uri)

    @property
    def artifacts(self) -> Path | None:
        """Directory of the artifacts, next to the database, or None if a server decides."""
        return None if self.database is None else self.database.parent / ARTIFACTS

    def files_of(self, experiment: str, run_id: str) -> Path | None:
        """Return the directory of a record's artifacts, which may not exist, or None if a server decides.

        The experiment and the id come from the database, which somebody else may have written. Raises
        :class:`StoreError` for a path that leads elsewhere.
        """
        if self.artifacts is None:
            return None
        try:
            if not RUN_ID.fullmatch(run_id):
                raise ValueError(f"{run_id!r:.80} is not the id of a record")
            return own_directory(self.artifacts, checked_key(experiment, "name"), run_id)
        except ValueError as error:
            raise StoreError(f"the MLflow store {self.shown} cannot be trusted: {error}. {REBUILD}") from error

    def location_of(self, experiment: str) -> str | None:
        """Return the URI of a new experiment's artifacts, or None if a server decides."""
        return None if self.artifacts is None else (self.artifacts / experiment).as_uri()


def choose(home: Path, environment: Mapping[str, str] = os.environ) -> Store:
    """Return the store in ``MLFLOW_TRACKING_URI``, by default a database in ``home``. Raises :class:`UserError` for a
    URI of another kind, and for a path that MLflow would change."""
    uri = environment.get(VARIABLE, "").strip()
    if uri.startswith(("http://", "https://")):
        return Store(uri)
    if uri and not uri.startswith(SQLITE):
        raise UserError(
            f"{VARIABLE} is {_without_login(uri)!r}, which cannot store sweeps. Allowed: http(s)://host:port of an "
            f"MLflow server, sqlite:////absolute/path/{DATABASE}. Unset it to keep the record in the home."
        )
    database = Path(uri.removeprefix(SQLITE)) if uri else home / DATABASE
    if database.is_symlink() and not uri:
        raise UserError(f"{database} is a link, which is not followed: move the database there, or name its --home")
    if {"%", "?"}.intersection(str(database.resolve())):
        raise UserError(f"MLflow cannot keep {database.resolve()}: name a --home without % and ? in its path")
    return Store(f"{SQLITE}{database.resolve()}", database.resolve())


def check(store: Store) -> None:
    """Raise :class:`StoreError` unless the store responds."""
    if store.database is not None:
        _check_database(store, store.database)
        return
    from mlflow import MlflowClient  # Takes 2 s to import; only a server needs it.

    settle_client()
    with store_errors(store):
        MlflowClient(store.uri).search_experiments(max_results=1)


def _check_database(store: Store, database: Path) -> None:
    try:
        database.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(database, timeout=TIMEOUT_S, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"the MLflow store {store.shown}: {error}. {REBUILD}") from error


def moved_from(store: Store) -> Path | None:
    """Return the directory where a home's artifacts were when they were recorded, if it was moved since and MLflow
    therefore does not find them. Otherwise return None. Call :func:`check` before."""
    if store.database is None or not store.database.is_file():
        return None
    with closing(sqlite3.connect(f"{store.database.as_uri()}?mode=ro", uri=True, timeout=TIMEOUT_S)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'experiments'").fetchone():
            return None  # MLflow has not created its tables yet.
        rows = connection.execute("SELECT name, artifact_location FROM experiments").fetchall()
    for name, location in rows:
        address = urlsplit(str(location))
        recorded = Path(unquote(address.path))
        is_ours = address.scheme == "file" and recorded.is_absolute() and recorded.parts[-2:] == (ARTIFACTS, name)
        if is_ours and recorded.as_uri() != store.location_of(name) and not recorded.exists():
            return recorded.parents[1]
    return None


@contextmanager
def store_errors(store: Store) -> Iterator[None]:
    """Turn errors of MLflow, databases and object stores into :class:`StoreError`, without passwords."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        line = next((line for line in lines if "Error" in line), lines[0])  # SQLAlchemy's first line lacks the cause.
        reason = _without_login(line.rpartition("Caused by ")[2])[:LONGEST]
        remedy = (
            f". {REBUILD}"
            if store.database
            else ". Start it, or unset MLFLOW_TRACKING_URI to keep the record in the home"
        )
        raise StoreError(f"the MLflow store {store.shown}: {type(error).__name__}: {reason}{remedy}") from error


def _without_login(text: str) -> str:
    return LOGIN.sub("//", text)


def all_runs(client: MlflowClient, experiments: Sequence[str], conditions: str, view: int = 1) -> list[Run]:
    """Return all runs of experiments that meet the conditions, by default active runs (MLflow's ``ViewType``)."""
    page = client.search_runs(list(experiments), conditions, view, RUNS_A_PAGE)
    runs = list(page)
    while page.token:
        page = client.search_runs(list(experiments), conditions, view, RUNS_A_PAGE, page_token=page.token)
        runs += page
    return runs


def settle_client() -> None:
    """Silence MLflow's client and set short timeouts."""
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")


def make_database(database: Path) -> None:
    """Create a database if it is missing, atomically.

    MLflow takes 4 to 7 s on a busy machine to create a database, and cannot use an incomplete one. So each machine
    creates it once, in its scratch directory, and copies it to every home.
    """
    from mlflow import MlflowClient, __version__

    if _has_content(database):
        return  # Without the lock, which a home that can only be read does not permit.
    database.parent.mkdir(parents=True, exist_ok=True)
    template = scratch(None) / f"mlflow-{__version__}.db"
    with FileLock(database.with_name(f".{database.name}.lock")):
        if _has_content(database):
            return
        with tempfile.TemporaryDirectory(prefix=f".{database.name}-", dir=database.parent) as place:
            aside = Path(place, DATABASE)
            if not template.exists():
                MlflowClient(f"{SQLITE}{aside}").search_experiments(max_results=1)  # Makes the tables.
                write_whole(template, aside.read_bytes())
            shutil.copyfile(template, aside)
            os.replace(aside, database)


def _has_content(database: Path) -> bool:
    return database.exists() and database.stat().st_size > 0
