"""Somebody moved a home: `ui` says that MLflow does not find its pictures."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from orchestrator.record.store import choose, moved_from
from tests.cli.program import Program, separate
from tests.sweep.sweeps import run_here, spec


@pytest.fixture(name="place")
def swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    run_here(spec(sizes=[8, 16], search={"method": "grid"}), tmp_path / "a home")
    return tmp_path


def test_a_home_that_stays_is_not_moved(place: Path) -> None:
    assert moved_from(choose(place / "a home")) is None
    assert moved_from(choose(place / "none")) is None


def test_ui_notices_a_moved_home(place: Path, run: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.move(place / "a home", place / "moved")
    assert moved_from(choose(place / "moved")) == place / "a home"
    monkeypatch.setattr("orchestrator.record.mlflow_server.serve", lambda *_: 0)
    message = run("ui", "--home", place / "moved").err
    assert f"was moved from {place / 'a home'}" in message
    assert "sync --rebuild" in message
    separate("sync", "--rebuild", "--home", place / "moved").succeeded()
    assert moved_from(choose(place / "moved")) is None


def test_a_copy_is_noticed_once_the_original_is_gone(place: Path) -> None:
    shutil.copytree(place / "a home", place / "copy")
    shutil.rmtree(place / "a home")
    assert moved_from(choose(place / "copy")) == place / "a home"
