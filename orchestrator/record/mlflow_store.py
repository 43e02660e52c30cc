"""MLflow store of the record: its choice, its check, and its errors."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from orchestrator.home.directories import DATABASE
from orchestrator.home.foreign_database import Schema, open_database, schema_of
from orchestrator.home.foreign_files import checked_key
from orchestrator.home.safe_writing import own_directory, own_path
from orchestrator.record.tracker import StoreError
from orchestrator.system.environment import scratch
from orchestrator.system.errors import UserError
from orchestrator.system.files import locked, write_whole
from orchestrator.system.permissions import sharing_text

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

URI_VARIABLE = "MLFLOW_TRACKING_URI"
LEFTOVERS = ("-wal", "-shm", "-journal")
"""Endings of the files in which SQLite keeps changes that a database does not have yet."""
ARTIFACTS = "artifacts"
"""Name of the directory of MLflow's artifacts in a home."""
SQLITE = "sqlite:///"
QUIET = {"alembic": logging.WARNING, "mlflow.store.db.utils": logging.CRITICAL}
"""Loggers of MLflow that report migrations, or errors that are also raised."""
RUNS_A_PAGE = 10_000
"""Runs in one answer of a store; MLflow allows at most 50,000."""
LONGEST_REASON = 400
"""Maximum number of characters of an error in a message."""
RUN_ID = re.compile(r"[0-9a-f]{32}")
"""Pattern of MLflow's ids of runs."""
REBUILD_REMEDY = (
    "If the file is damaged or from another version of MLflow, `sync --rebuild` makes a new one from the home"
)
"""Remedy for a database."""
PROXIED = ("mlflow-artifacts", "http", "https")
"""Schemes of addresses at which MLflow signs in with this user's login."""
BUCKETS = ("s3", "gs", "wasbs")
"""Schemes of addresses in a cloud's store, whose host the creator of an experiment cannot choose."""
AZURE = (".dfs.core.windows.net", ".dfs.core.chinacloudapi.cn", ".dfs.core.usgovcloudapi.net")
"""Ends of the hosts of Azure's store."""
LOGIN = re.compile(r"//[^/\s]*@")
"""User name and password in a URL."""


@dataclass(frozen=True)
class Store:
    """A tracking URI and the path of its SQLite database, or None if a server has the record. ``is_named`` is True if
    the user named the database, so it is not another user's."""

    uri: str
    database: Path | None = None
    is_named: bool = field(default=False, compare=False)

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

        The experiment and the id come from the database, which another user may have written. Raises
        :class:`StoreError` for a path that leads elsewhere.
        """
        if self.artifacts is None:
            return None
        try:
            if not RUN_ID.fullmatch(run_id):
                raise ValueError(f"{run_id!r:.80} is not the id of a record")
            return own_directory(self.artifacts, checked_key(experiment, "name"), run_id)
        except ValueError as error:
            raise StoreError(f"the MLflow store {self.shown} cannot be trusted: {error}. {REBUILD_REMEDY}") from error

    def location_of(self, experiment: str) -> str | None:
        """Return the URI of a new experiment's artifacts, or None if a server decides."""
        return None if self.artifacts is None else (self.artifacts / experiment).as_uri()


def choose(home: Path, environment: Mapping[str, str] = os.environ) -> Store:
    """Return the store in ``MLFLOW_TRACKING_URI``, by default a database in ``home``. Raises :class:`UserError` for a
    URI of another kind, and for a path that MLflow would change."""
    uri = environment.get(URI_VARIABLE, "").strip()
    if uri.startswith(("http://", "https://")):
        return Store(uri)
    if uri and not uri.startswith(SQLITE):
        raise UserError(
            f"{URI_VARIABLE} is {_without_login(uri)!r}, which cannot store sweeps. Allowed: http(s)://host:port of an "
            f"MLflow server, sqlite:////absolute/path/{DATABASE}. Unset it to keep the record in the home."
        )
    database = Path(uri.removeprefix(SQLITE)) if uri else home / DATABASE
    if database.is_symlink() and not uri:
        raise UserError(f"{database} is a link, which is not followed: move the database there, or name its --home")
    # Another user may put a link in the place of the file after the line above, so only its directory is resolved.
    place = database.resolve() if uri else database.parent.resolve() / database.name
    if {"%", "?"}.intersection(str(place)):
        raise UserError(f"MLflow cannot keep {place}: name a --home without % and ? in its path")
    return Store(f"{SQLITE}{place}", place, is_named=bool(uri))


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
    check_owner(store)
    try:
        if not store.is_named and database.is_file() and database.stat().st_nlink > 1:
            # In a home that was copied with `cp -al`, for example. Only a file of its own is written.
            raise ValueError(f"{database} is a hard link, so the file with the other name would also change")
        database.parent.mkdir(parents=True, exist_ok=True)
        with open_database(database, to_write=True) as connection:
            connection.execute("BEGIN IMMEDIATE")
            schema = schema_of(connection)
    except (OSError, ValueError, sqlite3.Error) as error:
        raise StoreError(f"the MLflow store {store.shown}: {error}. {REBUILD_REMEDY}") from error
    if schema and not store.is_named and (others := schema ^ _expected_schema()):
        names = ", ".join(sorted({name for name, _ in others})[:3])
        raise StoreError(
            f"the MLflow store {store.shown} has other tables than those of MLflow {version('mlflow')} ({names}). "
            f"{REBUILD_REMEDY}"
        )


def check_owner(store: Store) -> None:
    """Raise :class:`StoreError` for a database in a directory that another user owns or can write. MLflow opens it by
    its path again and again, and they could put a link to another database there, or a journal for which SQLite deletes
    another file."""
    database = store.database
    if database is None or store.is_named or not database.parent.is_dir():
        return
    if not (words := sharing_text(database.parent)):
        return
    raise StoreError(
        f"{database.parent} {words}, who could replace {database.name} while MLflow uses it. Record elsewhere: "
        f"--record jsonl, or {URI_VARIABLE} with a database of yours or a server. If you trust them, "
        f"{URI_VARIABLE}={SQLITE}{database}"
    )


def _expected_schema() -> Schema:
    with open_database(_template()) as connection:
        return schema_of(connection)


def outside_files(store: Store) -> str:
    """Return why MLflow would look for the record's files outside the home, or "". For example, the home was moved or
    copied, or another user wrote the record or made links. Call :func:`check` before. Raises :class:`StoreError`."""
    if store.database is None or store.artifacts is None or store.is_named or not store.database.is_file():
        return ""
    with store_errors(store), open_database(store.database) as connection:
        if not schema_of(connection):
            return ""  # MLflow has not created its tables yet.
        rows = connection.execute(
            "SELECT artifact_location, 1 FROM experiments WHERE experiment_id IN (SELECT experiment_id FROM runs) "
            "UNION SELECT artifact_uri, 3 FROM runs"
        )
        folders = {_artifacts_of(str(location), levels) for location, levels in rows}
    for folder in sorted(folders):
        if not _is_same(folder, store.artifacts):
            return f"the record names files in {folder.removesuffix(f'/{ARTIFACTS}')}, outside this home"
    links = (Path(place, name) for place, *names in os.walk(store.artifacts) for name in (*names[0], *names[1]))
    link = next((path for path in (store.artifacts, *links) if path.is_symlink()), None)
    return "" if link is None else f"{link} is a link"


def address_flaw(store: Store, address: str) -> str:
    """Return why files must not be sent to or deleted at an address that a server gives, or "".

    The user who creates an experiment chooses where its files are, including those of other users' records. MLflow
    would send this user's login to any host named there, and write to any path on this machine.
    """
    parts = urlsplit(address)
    host = urlsplit(store.uri).netloc.rpartition("@")[2].lower()
    if parts.scheme in ("", "file"):
        return "is a path on this machine"
    if parts.scheme in PROXIED:
        is_own = parts.netloc.lower() == host or (not parts.netloc and parts.scheme == "mlflow-artifacts")
        return "" if is_own else f"is not on {host}, and would be sent your login"
    if parts.scheme == "abfss":
        is_own = (parts.hostname or "").endswith(AZURE) and not {"\\", " "}.intersection(parts.netloc)
        return "" if is_own else "is not in Azure's store, and would be sent your login"
    return "" if parts.scheme in BUCKETS else f"has the scheme {parts.scheme!r}, which is not used"


def _artifacts_of(location: str, levels: int) -> str:
    """Return the directory of artifacts that is ``levels`` above the directory in a URI, or the whole text if it has
    another form."""
    path = Path(unquote(location.removeprefix("file://")))
    inner = path.parts[-levels:]
    is_usual = location.startswith("file:///") and ".." not in inner and len(path.parts) > levels + 1
    folder = path.parents[levels - 1] if is_usual else path
    return str(folder) if is_usual and folder.name == ARTIFACTS else location[:LONGEST_REASON]


def _is_same(folder: str, artifacts: Path) -> bool:
    try:
        return Path(folder) == artifacts or os.path.samefile(folder, artifacts)
    except (OSError, ValueError):
        return False


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
        reason = _without_login(line.rpartition("Caused by ")[2])[:LONGEST_REASON]
        remedy = (
            f". {REBUILD_REMEDY}"
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
    """Create a database if it is missing or empty, atomically, as a copy of :func:`_template`."""
    if _has_content(database):
        return  # Without the lock, which a home that can only be read does not permit.
    database.parent.mkdir(parents=True, exist_ok=True)
    with locked(own_path(database.with_name(f".{database.name}.lock"))):
        if _has_content(database):
            return
        with tempfile.TemporaryDirectory(prefix=f".{database.name}-", dir=database.parent) as place:
            aside = Path(place, DATABASE)
            shutil.copyfile(_template(), aside)
            for leftover in LEFTOVERS:  # SQLite would write the changes of another database into the new one.
                database.with_name(f"{database.name}{leftover}").unlink(missing_ok=True)
            os.replace(aside, database)


def _template() -> Path:
    """Return an empty database of the installed MLflow.

    MLflow takes 4 to 7 s on a busy machine to create a database, and cannot use an incomplete one. So each machine
    creates it once, in its scratch directory.
    """
    template = scratch(None) / f"mlflow-{version('mlflow')}.db"
    if not template.exists():
        from mlflow import MlflowClient

        hush()
        with tempfile.TemporaryDirectory(prefix=".mlflow-", dir=template.parent) as place:
            MlflowClient(f"{SQLITE}{place}/{DATABASE}").search_experiments(max_results=1)  # Makes the tables.
            write_whole(template, Path(place, DATABASE).read_bytes())
    return template


def hush() -> None:
    """Silence MLflow's loggers, after it was imported."""
    for name, level in QUIET.items():
        logging.getLogger(name).setLevel(level)


def _has_content(database: Path) -> bool:
    return database.exists() and database.stat().st_size > 0
