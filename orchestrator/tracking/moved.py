"""A store of our own that was moved or copied with its home directory writes where it lies now.

MLflow makes every local artifact location absolute when an experiment is made (3.17: relative paths are resolved, and
``mlflow-artifacts:`` asks for a server between), so that a copy would write into the original and look for files there.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from orchestrator.tracking.store import ARTIFACTS, DATABASE, TIMEOUT_S

LOCATIONS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)
"""Where MLflow's tables name a place of artifacts; what a version of MLflow does not have is passed over."""


def follow(database: Path, artifacts: Path) -> tuple[str, ...]:
    """Let every record name ``artifacts``, where our experiments lie in directories of their names, in one transaction.
    Returns the URIs of the former places, none where all is as it should be.

    Our own locations are told by their form, ``file:///.../artifacts/NAME`` for the experiment NAME; others stay.
    Raises ``sqlite3.Error``.
    """
    if not database.is_file():
        return ()
    here = artifacts.as_uri()
    with closing(sqlite3.connect(database, timeout=TIMEOUT_S, isolation_level=None)) as connection:
        if not _former(connection, here):
            return ()
        connection.execute("BEGIN IMMEDIATE")
        former = _former(connection, here)  # Again: another process may have been quicker.
        for table, column in LOCATIONS:
            if column in _columns(connection, table):
                for place in former:
                    connection.execute(
                        f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column}, 1, ?) = ?",
                        (here, len(place) + 1, len(place) + 1, f"{place}/"),
                    )
        connection.execute("COMMIT")
    return former


def _former(connection: sqlite3.Connection, here: str) -> tuple[str, ...]:
    """The places of artifacts that our experiments name, without the one that is right."""
    if not _columns(connection, "experiments"):
        return ()
    places = set()
    for name, location in connection.execute("SELECT name, artifact_location FROM experiments"):
        place, _, last = (location or "").rpartition("/")
        if last == name and place.startswith("file:") and place.endswith(f"/{ARTIFACTS}") and place != here:
            places.add(place)
    return tuple(sorted(places))


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}


def follow_home(home: Path) -> tuple[str, ...]:
    """:func:`follow` for the store in a home directory."""
    return follow(home / DATABASE, home / ARTIFACTS)
