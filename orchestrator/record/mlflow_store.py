"""Chooses, checks and creates the MLflow store of the record, limits how long its client waits, and translates its
errors."""

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
from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from orchestrator.home.directories import DATABASE
from orchestrator.home.foreign_database import open_database, schema_of
from orchestrator.home.foreign_files import checked_key
from orchestrator.home.safe_writing import own_directory, own_path
from orchestrator.record.store_uris import hide_secrets, shown_uri
from orchestrator.record.tracker import StoreError
from orchestrator.system.environment import scratch
from orchestrator.system.errors import UserError
from orchestrator.system.files import locked, write_whole
from orchestrator.system.permissions import foreign_link_text, hide_from_others, sharing_text
from orchestrator.system.reading_time import TooSlowError

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

URI_VARIABLE = "MLFLOW_TRACKING_URI"
"""Environment variable with the URI of the user's store."""
LEFTOVERS = ("-wal", "-shm", "-journal")
"""Endings of the files in which SQLite keeps changes that are not in the database yet."""
ARTIFACTS = "artifacts"
"""Name of the directory of MLflow's artifacts in a home."""
SQLITE = "sqlite:///"
"""Beginning of the URI of a database."""
QUIET = {"alembic": logging.WARNING, "mlflow.store.db.utils": logging.CRITICAL}
"""Levels of MLflow's loggers that report migrations, or errors that are also raised."""
RUNS_A_PAGE = 10_000
"""Runs in one answer of a store; MLflow allows at most 50,000."""
MOST_PAGES = 100
"""Maximum number of such answers: a broken server could name further ones without end."""
LONGEST_REASON = 400
"""Maximum number of characters of an error in a message."""
RUN_ID = re.compile(r"[0-9a-f]{32}")
"""Pattern of MLflow's ids of runs."""
REBUILD_REMEDY = (
    "If the file is damaged or from another version of MLflow, `sync --rebuild` makes a new one from the home"
)
"""Remedy for a database that cannot be used."""
CREDENTIALS = "~/.mlflow/credentials"
"""File from which MLflow reads the user's login to a server."""
DENIED = "PERMISSION_DENIED"
"""MLflow's code of an error if a login lacks a permission."""
REVISIONS = "alembic_version"
"""Table with the revision of a database. MLflow refuses revisions that are not its own."""
PROXIED = ("mlflow-artifacts", "http", "https")
"""Schemes of addresses to which MLflow sends this user's login."""
BUCKETS = ("s3", "gs", "wasbs")
"""Schemes of addresses in a cloud's store, whose host the creator of an experiment cannot choose."""
AZURE = (".dfs.core.windows.net", ".dfs.core.chinacloudapi.cn", ".dfs.core.usgovcloudapi.net")
"""Endings of the hosts of Azure's store."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Store:
    """A store of MLflow.

    Attributes:
        uri: Its tracking URI.
        database: Path of its SQLite database, or None if a server has the record.
        is_named: True if the user specified the database themselves. Then another user cannot have chosen it.
    """

    uri: str
    database: Path | None = None
    is_named: bool = field(default=False, compare=False)

    @property
    def shown(self) -> str:
        """The URI for messages: for a server, without user name, password and query."""
        return shown_uri(self.uri) if self.database is None else self.uri

    @property
    def artifacts(self) -> Path | None:
        """Directory of the artifacts, next to the database, or None if a server decides."""
        return None if self.database is None else self.database.parent / ARTIFACTS

    def files_of(self, experiment: str, run_id: str) -> Path | None:
        """Return the directory of a record's artifacts, which may not exist. Return None if a server decides.

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


def choose_store(home: Path, environment: Mapping[str, str] = os.environ) -> Store:
    """Return the store from ``MLFLOW_TRACKING_URI``, by default a database in ``home``.

    Raises:
        UserError: For a URI of another kind, a database that is a link (in a home), a named database behind another
            user's link, and a path that MLflow would change.
    """
    uri = environment.get(URI_VARIABLE, "").strip()
    if uri.startswith(("http://", "https://")):
        return Store(uri)
    if uri and not uri.startswith(SQLITE):
        raise UserError(
            f"{URI_VARIABLE} is {shown_uri(uri)!r}, which cannot store sweeps. Allowed: http(s)://host:port of an "
            f"MLflow server, sqlite:////absolute/path/{DATABASE}. Unset it to keep the record in the home."
        )
    database = Path(uri.removeprefix(SQLITE)) if uri else home / DATABASE
    if database.is_symlink() and not uri:
        raise UserError(
            f"{database} is a link, which is not followed: move the database there, or pass that directory as --home"
        )
    if uri and (text := foreign_link_text(database)):
        raise UserError(f"{text}: name another database in {URI_VARIABLE}, or a server")
    # Another user may replace the file by a link after the check above, so only its directory is resolved.
    path = database.resolve() if uri else database.parent.resolve() / database.name
    if {"%", "?"}.intersection(str(path)):
        raise UserError(f"MLflow cannot keep {path}: pass a --home without % and ? in its path")
    return Store(f"{SQLITE}{path}", path, is_named=bool(uri))


def check_store(store: Store) -> None:
    """Raise :class:`StoreError` unless the store responds. Before a server gets the user's login from a file, make that
    file readable only by this user."""
    if store.database is not None:
        _check_database(store, store.database)
        return
    hide_from_others(Path(CREDENTIALS).expanduser())
    from mlflow import MlflowClient  # Takes 2 s to import; only a server needs it.

    limit_client_waits()
    with store_errors(store):
        MlflowClient(store.uri).search_experiments(max_results=1)


def _check_database(store: Store, database: Path) -> None:
    check_owner(store)
    try:
        if not store.is_named and database.is_file() and database.stat().st_nlink > 1:
            # In a home that was copied with `cp -al`, for example. Write only a file that has no other name.
            raise ValueError(f"{database} is a hard link, so the file with the other name would also change")
        database.parent.mkdir(parents=True, exist_ok=True)
        with open_database(database, to_write=True) as connection:
            connection.execute("BEGIN IMMEDIATE")
            flaw = _revision_flaw(connection) if store.is_named else flaw_of_tables(connection)
    except (OSError, ValueError, sqlite3.Error) as error:
        raise StoreError(f"the MLflow store {store.shown}: {error}. {REBUILD_REMEDY}") from error
    if flaw:
        remedy = f"To keep it, run `mlflow db upgrade`, or install its version of MLflow ({URI_VARIABLE} names it)"
        raise StoreError(f"the MLflow store {store.shown} {flaw}. {remedy if store.is_named else REBUILD_REMEDY}")


def check_owner(store: Store) -> None:
    """Raise :class:`StoreError` for a database in a directory that another user owns or can write, or warn if the user
    named the database and so trusts the others.

    MLflow opens the database by its path again and again. Another user could put a link to another database there, or a
    journal that makes SQLite delete another file.
    """
    database = store.database
    if database is None or not database.parent.is_dir() or not (sharing := sharing_text(database.parent)):
        return
    if store.is_named:
        _warn_of_sharing(f"{database.parent} {sharing}")
        return
    raise StoreError(
        f"{database.parent} {sharing}, who could replace {database.name} while MLflow uses it. Record elsewhere: pass "
        f"--record jsonl, or set {URI_VARIABLE} to a database of yours or a server. If you trust them, set "
        f"{URI_VARIABLE}={SQLITE}{database}"
    )


@cache
def _warn_of_sharing(sharing: str) -> None:
    """Warn once that a database is shared."""
    log.warning(
        f"{sharing}, who could change the record there, or make SQLite delete files of yours. If you do not trust "
        f"them, set {URI_VARIABLE} to a server"
    )


def flaw_of_tables(connection: sqlite3.Connection) -> str:
    """Return how the tables of a database differ from those that the installed MLflow makes, such as "has tables that
    MLflow 3.10 does not make (extra)". Return an empty string if they are equal, or not made yet."""
    schema = schema_of(connection)
    if not schema:
        return ""
    with open_database(_template()) as template:
        expected = schema_of(template)
    if schema == expected:
        return _revision_flaw(connection)  # Only now: a view of another user could compute without end.
    others = schema - expected
    names = ", ".join(sorted({_shown(name) for name, _ in others or expected - schema})[:3])
    made = f"MLflow {version('mlflow')}"
    return f"has tables that {made} does not make ({names})" if others else f"lacks tables that {made} makes ({names})"


def _revision_flaw(connection: sqlite3.Connection) -> str:
    """Return how the revision of a database differs from that of the installed MLflow, which refuses others."""
    if (REVISIONS,) not in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
        return ""  # MLflow has not created its tables yet.
    query = f"SELECT version_num FROM {REVISIONS} LIMIT 3"
    with open_database(_template()) as template:
        expected, found = (sorted(str(row[0]) for row in one.execute(query)) for one in (template, connection))
    if found == expected:
        return ""
    shown = ", ".join(map(_shown, found)) or "none"
    return f"has the revision {shown}, but that of MLflow {version('mlflow')} is {', '.join(expected)}"


def _shown(name: str) -> str:
    """Return a name from a database for a message. Its author may have put control characters into it."""
    return f"{name if name.isprintable() else ascii(name):.80}"


def outside_files(store: Store) -> str:
    """Return why MLflow would look for the record's files outside the home. Return an empty string if it would not.

    For example, the home was moved or copied, or another user wrote the record or made links. Call :func:`check_store`
    before. Raises :class:`StoreError` if the store cannot be read.
    """
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
    walked = os.walk(store.artifacts)
    paths = (Path(directory, name) for directory, folders, files in walked for name in (*folders, *files))
    link = next((path for path in (store.artifacts, *paths) if path.is_symlink()), None)
    return "" if link is None else f"{link} is a link"


def address_flaw(store: Store, address: str) -> str:
    """Return why files must not be sent to an address from a server, or deleted there. Return an empty string if they
    may.

    The user who creates an experiment chooses the address of its files, also of the files of other users' records.
    MLflow would send this user's login to any host in the address, and write to any path on this machine.
    """
    parts = urlsplit(address)
    host = urlsplit(store.shown).netloc.lower()
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
    """Return the directory of artifacts that is ``levels`` above the directory in a URI. Return the text itself if it
    has another form."""
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
def store_errors(store: Store, experiment: str = "") -> Iterator[None]:
    """Turn errors of MLflow, databases and object stores into :class:`StoreError`, without passwords. If a server
    refuses to change the ``experiment``, the remedy names it."""
    try:
        yield
    except (StoreError, TooSlowError):
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        line = next((line for line in lines if "Error" in line), lines[0])  # SQLAlchemy's first line lacks the cause.
        cause = line.rpartition("Caused by ")[2]
        reason = hide_secrets(cause, "" if store.database else store.uri)[:LONGEST_REASON]
        remedy = REBUILD_REMEDY if store.database else _server_remedy(error, experiment)
        raise StoreError(f"the MLflow store {store.shown}: {type(error).__name__}: {reason}. {remedy}") from error


def _server_remedy(error: Exception, experiment: str) -> str:
    """Return what a user can do after an error of a server."""
    otherwise = f"unset {URI_VARIABLE} to keep the record in the home"
    # Its kind would have to be imported from MLflow, which takes 2 s, or from the library of an object store.
    status = getattr(getattr(error, "response", None), "status_code", None)
    if getattr(error, "error_code", "") != DENIED and status != HTTPStatus.FORBIDDEN:
        return f"Start it, or {otherwise}"
    if not experiment:
        return f"It gives your login no permission: ask its administrator for one, or {otherwise}"
    return (
        f"It gives your login no permission for the experiment {experiment}, which may belong to another user: ask its "
        f"owner for the permission MANAGE, start the sweep under another name (--set name=NAME), or {otherwise}"
    )


def all_runs(client: MlflowClient, experiments: Sequence[str], conditions: str, view: int = 1) -> list[Run]:
    """Return all runs of experiments that meet the conditions. ``view`` is MLflow's ``ViewType``, by default active
    runs.

    Raises :class:`StoreError` if a server names more than :data:`MOST_PAGES` pages of them.
    """
    page = client.search_runs(list(experiments), conditions, view, RUNS_A_PAGE)
    runs = list(page)
    pages = 1
    while page.token:
        if (pages := pages + 1) > MOST_PAGES:
            raise StoreError(f"the MLflow store has more than {MOST_PAGES} pages of records with {conditions}")
        page = client.search_runs(list(experiments), conditions, view, RUNS_A_PAGE, page_token=page.token)
        runs += page
    return runs


def limit_client_waits() -> None:
    """Silence MLflow's client and set short timeouts."""
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")


def make_database(database: Path) -> None:
    """Create a database if it is missing or empty, atomically, as a copy of :func:`_template`."""
    if _has_content(database):
        return  # This check needs no lock, because a read-only home does not allow one.
    database.parent.mkdir(parents=True, exist_ok=True)
    with locked(own_path(database.with_name(f".{database.name}.lock"))):
        if _has_content(database):
            return
        with tempfile.TemporaryDirectory(prefix=f".{database.name}-", dir=database.parent) as directory:
            aside = Path(directory, DATABASE)
            shutil.copyfile(_template(), aside)
            for leftover in LEFTOVERS:  # SQLite would write changes of the old database into the new one.
                database.with_name(f"{database.name}{leftover}").unlink(missing_ok=True)
            os.replace(aside, database)


def _template() -> Path:
    """Return an empty database of the installed MLflow.

    MLflow takes 4 to 7 s on a busy machine to create a database, and cannot use an incomplete database. So each machine
    creates a database once, in its scratch directory.
    """
    template = scratch(None) / f"mlflow-{version('mlflow')}.db"
    if not template.exists():
        from mlflow import MlflowClient

        hush()
        with tempfile.TemporaryDirectory(prefix=".mlflow-", dir=template.parent) as directory:
            MlflowClient(f"{SQLITE}{directory}/{DATABASE}").search_experiments(max_results=1)  # Makes the tables.
            write_whole(template, Path(directory, DATABASE).read_bytes())
    return template


def hush() -> None:
    """Silence MLflow's loggers. Call this after MLflow is imported, because the import sets their levels."""
    for name, level in QUIET.items():
        logging.getLogger(name).setLevel(level)


def _has_content(database: Path) -> bool:
    return database.exists() and database.stat().st_size > 0
