"""Opens a home's SQLite database without trusting it.

SQLite runs the expressions, triggers and views in the schema, which need not end. So callers compare the schema
(:func:`schema_of`) with the one that they expect before they read a row. To undo an interrupted change, SQLite reads a
journal next to the database. The journal can name any other file, which SQLite then deletes. MLflow's databases use
none of these.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from orchestrator.home.foreign_files import open_file
from orchestrator.system.files import is_file

TIMEOUT_S = 4.0
"""Seconds to wait for a database."""
BESIDE = ("-journal", "-wal", "-shm")
"""Suffixes of the files that SQLite reads next to a database."""
NAMES_A_FILE = bytes.fromhex("d9d505f920a163d7")
"""End of a journal that names another file (SQLite's file format, section 3)."""
DEFINITION_WORD = re.compile(r"\w+|[^\w\s\"`\[\]]")
"""Pattern of a word or a sign in a definition, without the quotes around names."""
OWN_TABLES = {
    "sqlite_sequence": "CREATE TABLE sqlite_sequence(name,seq)",
    "sqlite_stat1": "CREATE TABLE sqlite_stat1(tbl,idx,stat)",
    "sqlite_stat4": "CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)",
}
"""Definitions of the tables that SQLite itself makes, for example for ``ANALYZE``."""
LONGEST_VALUE = 1 << 18
"""Bytes of a value. An expression in the schema could compute a larger one in each row, or search in it for a time that
grows with the square of its length."""
LONGEST_PATTERN = 1000
"""Bytes of a pattern of LIKE or GLOB. SQLite cannot be stopped while it compares one value with one pattern."""
LONGEST_DEFINITION = 1 << 16
"""Bytes of a statement, also of a definition in the schema."""
LONGEST_QUERY_S = 5.0
"""Seconds for all queries of a connection."""

Schema = frozenset[tuple[str, str]]
"""Tables, indexes, views and triggers: the name of each, and the words of its definition."""


@contextmanager
def open_database(database: Path, *, to_write: bool = False) -> Iterator[sqlite3.Connection]:
    """Open a database. With ``to_write``, create it if it is missing.

    Raises:
        ValueError: If the database or a file next to it is not a plain file, or if SQLite would delete another file.
        sqlite3.Error: If SQLite cannot open the database.
    """
    for path in (database, *(database.with_name(f"{database.name}{suffix}") for suffix in BESIDE)):
        if (path.exists() or path.is_symlink()) and not is_file(path):
            raise ValueError(f"{path.name} is not a plain file")
    journal = database.with_name(f"{database.name}-journal")
    if is_file(journal) and _end(journal) == NAMES_A_FILE:
        raise ValueError(f"{journal.name} names another file, which SQLite would delete")
    address = f"{database.resolve().as_uri()}?mode={'rwc' if to_write else 'ro'}"
    with closing(sqlite3.connect(address, uri=True, timeout=TIMEOUT_S, isolation_level=None)) as connection:
        connection.text_factory = lambda text: text.decode(errors="replace")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, LONGEST_PATTERN)
        connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, LONGEST_DEFINITION)
        # SQLite stops a query if the handler returns True, so an endless view cannot hang this program.
        end = time.monotonic() + TIMEOUT_S + LONGEST_QUERY_S
        connection.set_progress_handler(lambda: time.monotonic() > end, 100)
        yield connection


def _end(path: Path) -> bytes:
    with open_file(path) as file:
        file.seek(-min(path.stat().st_size, len(NAMES_A_FILE)), 2)
        return file.read()


def schema_of(connection: sqlite3.Connection) -> Schema:
    """Return the schema of a database without :data:`OWN_TABLES`.

    The schema is a table that anyone can edit, so the name ``sqlite_...`` does not prove that SQLite made a trigger.
    """
    rows = [
        (str(name), str(sql))
        for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE sql NOT NULL")
    ]
    others = [(name, sql) for name, sql in rows if OWN_TABLES.get(name) != sql]
    # Words are sorted: MLflow writes the values of a constraint from a set, whose order differs between processes.
    return frozenset((name, " ".join(sorted(DEFINITION_WORD.findall(sql)))) for name, sql in others)
