"""What workers left that were killed while they wrote is removed when a sweep is driven; what others write stays."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest

from orchestrator.drive.sweep import RunOptions, run_sweep
from orchestrator.store import lifecycle
from orchestrator.store.files import Home
from orchestrator.store.runs import SweepRuns, tidy
from orchestrator.store.storage import LONGEST_WRITE_S
from tests.drive.sweeps import quiet, spec


def leave_aside(directory: str, name: str, age_s: float = 0.0) -> Path:
    """A directory as a writer leaves it that was killed so long ago."""
    Path(directory).mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=directory))
    (aside / "weights.safetensors").write_bytes(b"half")
    os.utime(aside, (time.time() - age_s,) * 2)
    return aside


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home(tmp_path)
    for name in ("mine-1", "dead-1", "alive-1"):
        found.sweep(name).directory.mkdir(parents=True)
    return found


def test_claims_tell_who_is_dead(home: Home) -> None:
    mine, dead, alive = (home.sweep(f"{name}-1") for name in ("mine", "dead", "alive"))
    with lifecycle.driving(mine), lifecycle.driving(alive):
        for files in (mine, dead, alive):
            assert SweepRuns(files).claim(f"key-of-{files.directory.name}")
        claimed = {
            files.directory.name: leave_aside(home.runs_at, f"key-of-{files.directory.name}")
            for files in (mine, dead, alive)
        }
        nobodys = {age_s: leave_aside(home.runs_at, "other", age_s) for age_s in (60.0, LONGEST_WRITE_S + 60)}
        tidy(mine)
        assert {name for name, path in claimed.items() if path.exists()} == {"alive-1"}
        assert {age_s for age_s, path in nobodys.items() if path.exists()} == {60.0}


def test_what_is_a_sweeps_own_is_written_by_its_workers_alone(home: Home) -> None:
    mine, alive = home.sweep("mine-1"), home.sweep("alive-1")
    for files in (mine, alive):
        files.own_runs.mkdir()
    with lifecycle.driving(mine), lifecycle.driving(alive):
        left = [leave_aside(at, "key") for files in (mine, alive) for at in (files.runs_at, files.checkpoints_at)]
        tidy(mine)
        assert [path.exists() for path in left] == [False, False, True, True]


def test_what_is_not_ours_is_left_alone(home: Home) -> None:
    strangers = [Path(home.runs_at) / name for name in (".snapshot", ".trash-1", "notes")]
    for path in strangers:
        path.mkdir(parents=True)
        os.utime(path, (0, 0))
    tidy(home.sweep("mine-1"))
    assert all(path.is_dir() for path in strangers)


def test_a_sweep_that_is_begun_removes_them(home: Home) -> None:
    with lifecycle.driving(home.sweep("dead-1")):
        assert SweepRuns(home.sweep("dead-1")).claim("key")
    aside = leave_aside(home.runs_at, "key")
    asked = spec(search={"method": "grid"}, mixes=["add"], sizes=[8])
    run_sweep(asked, RunOptions(home=home.root, local_debug=True), quiet())
    assert not aside.exists()
    assert not [path for path in Path(home.runs_at).iterdir() if path.name.startswith(".")]
