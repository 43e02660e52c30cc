"""What every test begins with."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

# The models and matrices of these tests are small. Threads make nothing of them faster; beside other tests they wait
# for one another, and burn the processor meanwhile. It must be said before torch and numpy are imported, and programs
# that tests start inherit it; a stack's own threads are set by its worker all the same.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell lets what it starts in the background ignore Ctrl-C, and so would every program of a test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """As many threads as at first, where a sweep in this process has set as many as its stacks asked for."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def one_migration(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow makes its tables by forty migrations, once for every home. Here it does so once a process; the files of
    other homes begin as copies of the first. What programs of their own make is made as ever."""
    if mlflow := sys.modules.get("mlflow.store.db.utils"):
        made = tmp_path_factory.getbasetemp() / "migrated.db"
        monkeypatch.setattr(mlflow, "_initialize_tables", _copying(mlflow._initialize_tables, made))


def _copying(migrate: Callable[[Any], None], made: Path) -> Callable[[Any], None]:
    def initialize(engine: Any) -> None:
        if engine.dialect.name != "sqlite":
            migrate(engine)
            return
        with engine.connect() as connection:
            database: sqlite3.Connection = connection.connection.driver_connection
            if made.exists():
                with sqlite3.connect(made) as template:
                    template.backup(database)
                return
        migrate(engine)
        with engine.connect() as connection, sqlite3.connect(made) as template:
            connection.connection.driver_connection.backup(template)

    return initialize
