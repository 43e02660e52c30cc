"""Training data lie on the machine that trains, in a directory that is one's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.errors import SweepError
from orchestrator.home.files import scratch
from tests.cli.program import command


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty temporary directory of the system."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_by_default_it_is_private(temporary: Path) -> None:
    found = scratch(None)
    assert found.parent == temporary
    assert found.stat().st_mode & 0o077 == 0
    assert scratch(None) == found


def test_a_directory_that_others_may_write_is_refused(temporary: Path) -> None:
    scratch(None).chmod(0o777)
    with pytest.raises(SweepError, match="--scratch"):
        scratch(None)


def test_a_link_put_there_by_somebody_is_refused(temporary: Path) -> None:
    (temporary / "elsewhere").mkdir()
    (temporary / f"orchestrator-{os.getuid()}").symlink_to(temporary / "elsewhere")
    with pytest.raises(SweepError, match="not this user's alone"):
        scratch(None)


def test_what_is_chosen_is_made_and_what_cannot_be_is_named(tmp_path: Path) -> None:
    assert scratch(str(tmp_path / "a" / "b")).is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(SweepError, match="no room for training data"):
        scratch(str(tmp_path / "file" / "below"))


def test_a_sweep_keeps_its_training_data_there(tmp_path: Path) -> None:
    words = ["run", "add_vs_add_prod", "--profile", "smoke", "--local-debug", "--home", tmp_path / "home"]
    words += ["--set", "sizes=[4]", "--set", "seeds=1", "--set", "mixes=[add]", "--set", "settings.training.steps=50"]
    done = command(*words, "--scratch", tmp_path / "here: #1")
    assert done.code == 0, done.out + done.err
    assert [path.name[:8] for path in (tmp_path / "here: #1").iterdir()] == ["listops-"]
    assert not (tmp_path / "home" / "data").exists()
