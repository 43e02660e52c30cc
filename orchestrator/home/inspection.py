"""Lists the parts of a home that this program does not write. They are never read or followed."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

from orchestrator.home.directories import DATABASE, LINES, Home
from orchestrator.home.foreign_database import open_database
from orchestrator.home.foreign_files import KEY_PATTERN, SWEEP_NAME_PATTERN, is_hole
from orchestrator.system.files import is_directory, is_file

RECORD_ID = "[0-9a-f]" * 32
"""SQLite pattern of the ids that MLflow gives to runs."""


def foreign_things(home: Home) -> list[str]:
    """Return a phrase for each link, pipe and device in a home, and for each name that could lead out of it."""
    return [*_odd_files(home), *_odd_names(home), *_odd_records(home.root / DATABASE)]


def _odd_files(home: Home) -> Iterator[str]:
    for name in ("runs", "sweeps", "claims", "artifacts", DATABASE, LINES):
        if (home.root / name).is_symlink():
            yield f"{home.root / name} is a link"
    for top in ("runs", "sweeps", "claims", "artifacts"):
        for folder, folders, files in os.walk(home.root / top):
            for path in (Path(folder, name) for name in sorted((*folders, *files))):
                mode = (status := path.lstat()).st_mode
                if stat.S_ISLNK(mode):
                    yield f"{path} is a link"
                elif not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                    yield f"{path} is a pipe, socket or device"
                elif is_hole(status):
                    yield f"{path} has {status.st_size} bytes, almost all of them empty"


def _odd_names(home: Home) -> Iterator[str]:
    for folder, pattern in ((home.root / "sweeps", SWEEP_NAME_PATTERN), (home.runs, KEY_PATTERN)):
        for path in sorted(folder.iterdir()) if is_directory(folder) else ():
            if not path.name.startswith(".") and is_directory(path) and not pattern.fullmatch(path.name):
                yield f"{str(path)!r} has a name that no {folder.name.removesuffix('s')} has"


def _odd_records(database: Path) -> Iterator[str]:
    if not is_file(database):
        return
    try:
        with open_database(database) as connection:
            views = connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchmany(100)
            yield from (f"{database} has a view {name!r:.80}, which MLflow does not make" for (name,) in views)
            if not views:  # A view with the name of a table could be endless.
                known = connection.execute("SELECT run_uuid FROM runs WHERE run_uuid NOT GLOB ?", (RECORD_ID,))
                yield from (f"{database} has a record with the id {run_id!r:.80}" for (run_id,) in known.fetchmany(100))
    except (sqlite3.Error, ValueError) as error:
        yield f"{database} cannot be read ({error}); `sync --rebuild` makes a new one"
