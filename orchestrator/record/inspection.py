"""Lists the parts of a home's record that MLflow does not make, without trusting the database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from orchestrator.home.foreign_database import open_database, schema_of
from orchestrator.record.mlflow_store import flaw_of_tables
from orchestrator.system.files import is_file

RECORD_ID = "[0-9a-f]" * 32
"""SQLite pattern of the ids that MLflow gives to runs."""
MOST_RECORDS = 100
"""Maximum number of records that are named."""


def foreign_records(database: Path) -> list[str]:
    """Return a phrase for each record whose id could lead out of the home, or why no record was read.

    Rows are read only if the schema is the one that MLflow makes. Otherwise SQLite could compute without end, in a
    generated column, for example.
    """
    return list(_odd_records(database))


def _odd_records(database: Path) -> Iterator[str]:
    if not is_file(database):
        return
    try:
        with open_database(database) as connection:
            if not schema_of(connection):
                return  # MLflow has not created its tables yet.
            if flaw := flaw_of_tables(connection):
                yield f"{database} {flaw}, so its records were not read; `sync --rebuild` makes a new one"
                return
            odd = connection.execute("SELECT run_uuid FROM runs WHERE run_uuid NOT GLOB ?", (RECORD_ID,))
            yield from (
                f"{database} has a record with the id {run_id!r:.80}" for (run_id,) in odd.fetchmany(MOST_RECORDS)
            )
    except ModuleNotFoundError:
        yield f"{database} was not read, because MLflow is not installed"
    except (sqlite3.Error, ValueError) as error:
        yield f"{database} cannot be read ({error}); `sync --rebuild` makes a new one"
