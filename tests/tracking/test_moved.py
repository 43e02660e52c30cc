"""A store that was moved: every place of artifacts of ours follows, in one transaction, and nobody else's does."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from mlflow import MlflowClient

from orchestrator.store.files import Home
from orchestrator.tracking.base import DamagedStoreError
from orchestrator.tracking.mlflow_tracker import MlflowTracker
from orchestrator.tracking.moved import follow, follow_home
from orchestrator.tracking.opening import opened, opened_for_run
from orchestrator.tracking.outage import outages
from orchestrator.tracking.recorder import Recorder
from orchestrator.tracking.store import check, own
from tests.catalogue.fabricated import write_sweep
from tests.drive.sweeps import spec


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose store holds an experiment of ours and two of somebody else's."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home = tmp_path / "a home"
    home.mkdir()
    client = MlflowClient(own(home).uri)
    for name, location in (
        ("ours", (home / "artifacts" / "ours").as_uri()),
        ("theirs", (tmp_path / "elsewhere" / "theirs").as_uri()),
        ("bucket", "s3://bucket/artifacts/bucket"),
    ):
        client.create_run(client.create_experiment(name, location))
    return home


def places(home: Path) -> dict[str, tuple[str, str]]:
    """Where each experiment and its run keep their artifacts."""
    query = "SELECT e.name, artifact_location, artifact_uri FROM experiments e JOIN runs USING (experiment_id)"
    with sqlite3.connect(home / "mlflow.db") as store:
        return {name: (location, uri) for name, location, uri in store.execute(query)}


def test_ours_follow_and_others_stay(home: Path, tmp_path: Path) -> None:
    before = places(home)
    assert follow_home(home) == ()
    copy = tmp_path / "copy"
    shutil.copytree(home, copy)
    assert follow_home(copy) == ((home / "artifacts").as_uri(),)
    after = places(copy)
    assert after.pop("ours") == tuple(place.replace(home.as_uri(), copy.as_uri()) for place in before["ours"])
    assert after == {name: where for name, where in before.items() if name != "ours"}
    assert places(home) == before
    assert follow_home(copy) == ()


def test_nothing_changes_where_something_fails(home: Path, tmp_path: Path) -> None:
    before = places(home)
    with sqlite3.connect(home / "mlflow.db") as store:
        store.execute("CREATE TRIGGER full BEFORE UPDATE ON runs BEGIN SELECT RAISE(ABORT, 'disk full'); END")
    with pytest.raises(sqlite3.Error, match="disk full"):
        follow(home / "mlflow.db", tmp_path / "other" / "artifacts")
    assert places(home) == before


def test_a_home_without_a_store_or_with_an_empty_one_is_left_alone(tmp_path: Path) -> None:
    assert follow_home(tmp_path) == ()
    check(own(tmp_path))
    assert follow_home(tmp_path) == ()


def test_who_opens_a_moved_store_is_told(home: Path, tmp_path: Path) -> None:
    moved = home.rename(tmp_path / "moved")
    said: list[str] = []
    assert opened(moved, said.append) == own(moved)
    assert [(home / "artifacts").as_uri() in each for each in said] == [True]


def spoil(home: Path) -> None:
    """Overwrite all pages but the first, which checks look at."""
    path = home / "mlflow.db"
    content = path.read_bytes()
    path.write_bytes(content[:4096] + b"\xa5" * (len(content) - 4096))


def test_damage_met_only_when_it_is_read_stops_the_record_and_not_the_sweep(home: Path) -> None:
    spoil(home)
    tracker = MlflowTracker(own(home))
    sweep = write_sweep(Home(home), spec(), runs=[])
    recorder = Recorder(tracker, first_wait_s=0.01)
    recorder.begin(sweep)
    assert recorder.close(60) == 1
    assert recorder.damaged
    assert "`sync --rebuild` makes it anew" in recorder.warning


def test_a_damaged_store_is_no_reason_not_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    home = tmp_path
    (home / "mlflow.db").write_bytes(b"?" * 5000)
    with pytest.raises(DamagedStoreError, match="file is not a database"):
        opened(home, print)
    said: list[str] = []
    assert opened_for_run(home, said.append) == own(home)
    assert "goes on without a record" in said[0]


def ask(path: Path) -> None:
    """A query whose error reaches the caller beneath another one, as MLflow does it."""
    try:
        sqlite3.connect(path).execute("SELECT * FROM experiments")
    except sqlite3.DatabaseError as error:
        raise OSError("the store said so") from error


def test_what_sqlite_says_of_damage_is_told_from_other_errors(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_bytes(b"?" * 5000)
    with pytest.raises(DamagedStoreError, match="file is not a database"), outages():
        ask(tmp_path / "text.db")
    with pytest.raises(OSError, match="the store said so"), outages():
        ask(tmp_path / "empty.db")  # It lacks the table, which is no damage.
