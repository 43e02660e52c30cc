"""MLflow databases as another user might have made them: random changes of values, tables, pages and files."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tests.home.hostile import VALUES, torn

TABLES = ("experiments", "runs", "tags", "params", "metrics", "latest_metrics", "experiment_tags", "alembic_version")
NAMING = (
    *(("runs", "run_uuid"), ("runs", "artifact_uri"), ("runs", "name"), ("runs", "status"), ("runs", "start_time")),
    *(("runs", "lifecycle_stage"), ("runs", "experiment_id"), ("experiments", "name"), ("tags", "key")),
    *(("experiments", "artifact_location"), ("experiments", "experiment_id"), ("experiments", "lifecycle_stage")),
    *(("tags", "value"), ("params", "key"), ("params", "value"), ("alembic_version", "version_num")),
)
"""Columns that become paths, names or addresses."""
PLACES = (
    *("../../victim", "{victim}", "file://{victim}", "file://{home}/artifacts/../../victim", "file://[::1", "s3://x/y"),
    *("http://127.0.0.1:9/x", "runs:/x/y", "mlflow-artifacts:/x", "file:///%00", "dbfs:/x", "javascript:alert(1)"),
)
SCHEMAS = (
    "DROP TABLE {table}",
    "ALTER TABLE {table} RENAME TO other",
    "ALTER TABLE {table} ADD COLUMN surplus TEXT",
    "CREATE TABLE surplus (x TEXT CHECK (length(hex(zeroblob(100000000))) > 0))",
    "CREATE INDEX surplus ON runs (hex(zeroblob(9)))",
    "CREATE VIEW surplus AS SELECT * FROM {table}",
    "CREATE TRIGGER surplus AFTER INSERT ON runs BEGIN DELETE FROM tags; END",
    "CREATE TRIGGER surplus BEFORE UPDATE ON runs BEGIN INSERT INTO tags SELECT value, key, run_uuid FROM tags, "
    "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n); END",
    "CREATE VIRTUAL TABLE surplus USING fts4(x)",
)
ENDLESS = (
    "CREATE VIEW {table} AS SELECT * FROM other, "
    "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n)"
)
"""A view in the place of a table, with rows without end."""


def change_value(database: Path, chance: random.Random, victim: Path) -> None:
    """Set a random cell, or a whole column, to a value that was not meant."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        for _ in range(20):  # A value may be impossible there.
            if chance.random() < 0.7:
                table, column = chance.choice(NAMING)
            else:
                table = chance.choice(TABLES)
                column = chance.choice([row[1] for row in connection.execute(f"PRAGMA table_info({table})")])
            places = [place.format(victim=victim, home=database.parent) for place in PLACES]
            value = _storable(chance.choice((*VALUES, *places, *places, b"\xff\xfe\0", "x" * 5_000_000)))
            rows = "1" if chance.random() < 0.2 else f"rowid = (SELECT rowid FROM {table} ORDER BY random() LIMIT 1)"
            with suppress(sqlite3.Error):
                connection.execute(f"UPDATE {table} SET {column} = ? WHERE {rows}", (value,))
                connection.commit()
                return


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if isinstance(value, int) and abs(value) >= 2**63:
        return float(value)
    return value if isinstance(value, int | float | bytes | None) else str(value)


def change_schema(database: Path, chance: random.Random, victim: Path) -> None:
    """Remove, rename or add a table, column, index, view or trigger."""
    statement, table = chance.choice(SCHEMAS), chance.choice(TABLES)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA legacy_alter_table = ON")
        if chance.random() < 0.2:
            connection.execute(f"ALTER TABLE {table} RENAME TO other")
            statement = ENDLESS
        connection.execute(statement.format(table=table))
        connection.commit()


def change_pages(database: Path, chance: random.Random, victim: Path) -> None:
    """Cut the file, or overwrite pages or single bytes."""
    content = bytearray(database.read_bytes())
    if chance.random() < 0.3:
        database.write_bytes(torn(bytes(content), chance))
        return
    for _ in range(chance.choice((1, 1, 8))):
        first = chance.randrange(len(content) // 4096) * 4096
        page = chance.choice((bytes(4096), chance.randbytes(4096), bytes(content[:4096]), chance.randbytes(20)))
        content[first : first + len(page)] = page
    database.write_bytes(content)


def change_files(database: Path, chance: random.Random, victim: Path) -> None:
    """Put a link, pipe, directory or hostile journal in the place of the database or next to it."""
    place = database.with_name(database.name + chance.choice(("", "-journal", "-wal", "-shm")))
    lock = database.with_name(f".{database.name}.lock")
    kind = chance.choice(("link", "pipe", "directory", "noise", "journal", "lock", "artifacts"))
    if kind == "journal":
        leave_journal(database, victim / "file")
    elif kind == "lock":
        lock.unlink(missing_ok=True)
        database.unlink()
        lock.symlink_to(victim / "file")
    elif kind == "artifacts":
        folders = [path for path in database.parent.glob("artifacts/**/*") if path.is_dir()]
        folder = chance.choice(folders)
        shutil.rmtree(folder)
        folder.symlink_to(victim)
    else:
        place.unlink(missing_ok=True)
        if kind == "link":
            place.symlink_to(victim / "file")
        elif kind == "pipe":
            os.mkfifo(place)
        elif kind == "directory":
            place.mkdir()
        else:
            place.write_bytes(chance.randbytes(5000))


MAGIC = bytes.fromhex("d9d505f920a163d7")


def leave_journal(database: Path, named: Path) -> None:
    """Leave a journal of an interrupted change that names a file, as if the change had included another database."""
    content, page = database.read_bytes(), 4096
    numbers = (1, 0, len(content) // page, 512, page)
    header = (MAGIC + b"".join(number.to_bytes(4, "big") for number in numbers)).ljust(512, b"\0")
    checksum = sum(content[place] for place in range(page - 200, 0, -200))
    record = (1).to_bytes(4, "big") + content[:page] + (checksum & 0xFFFFFFFF).to_bytes(4, "big")
    name = bytes(named)
    end = (2**30 // page + 1).to_bytes(4, "big") + name + len(name).to_bytes(4, "big") + sum(name).to_bytes(4, "big")
    database.with_name(f"{database.name}-journal").write_bytes(header + record + end + MAGIC)


CHANGES: dict[str, Callable[[Path, random.Random, Path], None]] = {
    "value": change_value,
    "schema": change_schema,
    "pages": change_pages,
    "files": change_files,
}
