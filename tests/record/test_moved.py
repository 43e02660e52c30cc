"""Records of files outside a home, which somebody moved, copied or wrote: `ui` says so, and does not show them."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.home.directories import DATABASE
from orchestrator.record.mlflow_store import choose_store, outside_files
from tests.cli.program import Program, separate
from tests.copies import own_copy
from tests.sweep.sweeps import run_here, spec


@pytest.fixture(scope="module", name="home")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("place") / "a home"
    run_here(spec(sizes=[8, 16], search={"method": "grid"}), home, record="mlflow")
    return home


@pytest.fixture(name="place")
def copied(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    own_copy(home, tmp_path / "a home")
    with closing(sqlite3.connect(tmp_path / "a home" / DATABASE)) as connection:
        for table, column in (("runs", "artifact_uri"), ("experiments", "artifact_location")):
            change = f"UPDATE {table} SET {column} = replace({column}, ?, ?)"
            connection.execute(change, (home.as_uri(), (tmp_path / "a home").as_uri()))
        connection.commit()
    return tmp_path


def test_a_home_that_stays_has_its_files_inside(place: Path) -> None:
    assert outside_files(choose_store(place / "a home")) == ""
    assert outside_files(choose_store(place / "none")) == ""
    (place / "link").symlink_to(place / "a home")
    (place / "a home" / DATABASE).rename(place / "kept")
    shutil.copyfile(place / "kept", place / "a home" / DATABASE)
    with closing(sqlite3.connect(place / "a home" / DATABASE)) as connection:  # Another name of the same directory.
        connection.execute("UPDATE runs SET artifact_uri = replace(artifact_uri, '/a%20home/', '/link/')")
        connection.commit()
    assert outside_files(choose_store(place / "a home")) == ""


def test_ui_notices_a_moved_home(place: Path, run: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.move(place / "a home", place / "moved")
    assert (
        outside_files(choose_store(place / "moved"))
        == f"the record names files in {place / 'a home'}, outside this home"
    )
    monkeypatch.setattr("orchestrator.record.mlflow_server.serve", lambda *_: 0)
    message = run("ui", "--home", place / "moved").err
    assert f"names files in {place / 'a home'}" in message
    assert "sync --rebuild" in message
    separate("sync", "--rebuild", "--home", place / "moved").succeeded()
    assert outside_files(choose_store(place / "moved")) == ""


def test_a_copy_shows_no_files_of_the_original(place: Path) -> None:
    shutil.copytree(place / "a home", place / "copy")
    assert str(place / "a home") in outside_files(choose_store(place / "copy"))


@pytest.mark.parametrize(
    "location",
    [
        *(
            "file://{victim}",
            "{victim}",
            "file://{home}/artifacts/x/../../../victim",
            "http://127.0.0.1:9/x",
            "runs:/x",
        ),
        *("file://{home}/artifacts", "file:///%00", "file://[::1", "file://{victim}/artifacts/x/y/artifacts"),
    ],
)
@pytest.mark.parametrize("column", ["runs SET artifact_uri", "experiments SET artifact_location"])
def test_a_record_that_names_files_elsewhere_is_noticed(column: str, location: str, place: Path) -> None:
    evil = location.format(victim=place / "victim", home=place / "a home")
    with closing(sqlite3.connect(place / "a home" / DATABASE)) as connection:
        connection.execute(f"UPDATE {column} = ?", (evil,))
        connection.commit()
    assert "outside this home" in outside_files(choose_store(place / "a home"))


def test_a_link_among_the_files_of_a_record_is_noticed(place: Path) -> None:
    [folder, *_] = (place / "a home").glob("artifacts/*/*/artifacts")
    (folder / "link").symlink_to(place)
    assert outside_files(choose_store(place / "a home")) == f"{folder / 'link'} is a link"
