"""A record in MLflow made by another user: no traceback, no hang, and nothing outside the home is touched."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from mlflow.tracking._tracking_service.utils import _tracking_store_registry

from orchestrator.doctor.machine import files_of_home
from orchestrator.home.directories import DATABASE
from tests.copies import own_copy
from tests.home.hostile import Place, made
from tests.home.test_hostile import FORBIDDEN, in_time, told
from tests.record.hostile_database import CHANGES
from tests.site.browsing import get, opened

pytestmark = pytest.mark.slow
FILES = {"file": "nothing may touch this", "other": "nor this"}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A home with its record."""
    place = made(tmp_path_factory.mktemp("recorded"))
    told("sync", "--home", place.home.root)
    return place


def visit(home: Path, why: object) -> str:
    """Serve the pages of a home without MLflow's server, and return that of all sweeps, or the error."""
    shown = []

    def look(*_: object) -> int:
        [kept] = home.glob(".ui-*.url")
        shown.append(get(opened(kept.read_text().strip())))
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orchestrator.record.mlflow_server.serve", look)
        said = told("ui", "--home", home, "--port", 1 + random.Random(os.getpid()).randrange(20_000, 60_000), why=why)
    return "".join(shown) or said


def close_stores() -> None:
    """Close the databases that MLflow keeps open in this process."""
    for engine in SqlAlchemyStore._engine_map.values():
        engine.dispose()
    SqlAlchemyStore._engine_map.clear()
    _tracking_store_registry._get_store_with_resolved_uri.cache_clear()


def attacked(place: Place, kind: str, count: int, directory: Path, first: int = 0) -> None:
    """Change a record in ``count`` ways, each in a copy of the home, and use every command that reads it."""
    for number in range(first, first + count):
        root, chance = directory / f"{kind}-{number}", random.Random(f"{kind} {number}")
        home, victim, why = root / "home", root / "victim", (kind, number)
        own_copy(place.home.root, home)
        victim.mkdir()
        for name, text in FILES.items():
            (victim / name).write_text(text)
        with closing(sqlite3.connect(home / DATABASE)) as connection:
            for table, column in (("experiments", "artifact_location"), ("runs", "artifact_uri")):
                change = f"UPDATE {table} SET {column} = replace({column}, ?, ?)"
                connection.execute(change, (str(place.home.root), str(home)))
            connection.commit()
        CHANGES[kind](home / DATABASE, chance, victim)
        assert place.finished in told("sweeps", "--home", home, why=why)
        shown = visit(home, why)
        is_refused = "has the revision" in shown and "`sync --rebuild` makes a new one" in shown
        assert place.finished in shown or is_refused or not (home / DATABASE).is_file() or kind != "value", why
        with in_time():
            assert not FORBIDDEN.search(files_of_home(home).text), why
        told("sync", "--home", home, why=why)
        told("rm", place.begun, "--yes", "--home", home, why=why)
        told("sync", "--rebuild", "--home", home, why=why)
        close_stores()
        assert {path.name: path.read_text() for path in victim.iterdir()} == FILES, why
        assert {path.name for path in root.iterdir()} == {"home", "victim"}, why
        with suppress(FileNotFoundError):
            shutil.rmtree(root)


def test_the_revision_of_a_changed_record_is_named_without_control_characters(recorded: Place, tmp_path: Path) -> None:
    own_copy(recorded.home.root, tmp_path / "home")
    with closing(sqlite3.connect(tmp_path / "home" / DATABASE)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", ("\x1b]52;c;ZXZpbA==\a",))
        connection.commit()
    assert r"has the revision '\x1b]52;c;ZXZpbA==\x07', but" in files_of_home(tmp_path / "home").text


@pytest.mark.parametrize("kind", CHANGES)
def test_a_home_with_a_changed_record_is_shown_or_refused(kind: str, recorded: Place, tmp_path: Path) -> None:
    attacked(recorded, kind, 4, tmp_path)


@pytest.mark.night
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", CHANGES)
def test_a_home_with_a_record_changed_in_125_ways_is_shown_or_refused(
    kind: str, recorded: Place, tmp_path: Path
) -> None:
    attacked(recorded, kind, 125, tmp_path, first=4)
