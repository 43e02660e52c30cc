"""Unusable homes are refused, read-only homes are read, and the directory of training data is private."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from orchestrator.history.sweeps import load_sweep
from orchestrator.home.directories import Home
from orchestrator.space.spaces import load_space
from orchestrator.system.environment import scratch
from orchestrator.system.errors import SweepError, UserError
from tests.catalog.fabricated import write_sweep
from tests.cli.program import command
from tests.disks import mounted
from tests.sweep.sweeps import spec


def test_a_home_given_as_an_address_is_refused() -> None:
    message = command("sweeps", "--home", "s3://bucket/home").refused()
    assert "pass a directory as --home" in " ".join(message.replace("│", " ").split())


@pytest.fixture(name="frozen")
def read_only_home(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A home with a sweep on a read-only file system, and the ID of the sweep."""
    with mounted(tmp_path / "disk") as place:
        sweep_id = write_sweep(Home(place / "home")).id
        (Home(place / "home").sweep(sweep_id).directory / "driver.lock").touch()
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
        yield place / "home", sweep_id


def test_a_read_only_home_is_read(frozen: tuple[Path, str], tmp_path: Path) -> None:
    home, sweep_id = frozen
    for words in (
        ("sweeps",),
        ("status", sweep_id),
        ("report", sweep_id, "--output", tmp_path / "report.html"),
        ("export", sweep_id, "--output", tmp_path / "tables"),
    ):
        done = command(*words, "--home", home)
        assert (done.code, done.err) == (0, ""), (words, done.err)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory for the system's temporary files."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_the_default_scratch_is_private(temporary: Path) -> None:
    result = scratch(None)
    assert result.parent == temporary
    assert result.stat().st_mode & 0o077 == 0
    assert scratch(None) == result
    result.chmod(0o777)
    with pytest.raises(SweepError, match="--scratch"):
        scratch(None)


def test_a_symlink_in_place_of_the_private_directory_is_refused(temporary: Path) -> None:
    (temporary / "elsewhere").mkdir()
    (temporary / f"orchestrator-{os.getuid()}").symlink_to(temporary / "elsewhere")
    with pytest.raises(SweepError, match="does not belong to this user alone"):
        scratch(None)


def test_a_scratch_that_others_can_write_has_a_private_directory(temporary: Path) -> None:
    """Files of other users there would be taken for training data. Without the sticky bit, they could also rename the
    private directory and put another in its place."""
    shared = temporary / "scratch"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(
        UserError, match=f"other users can write {shared}, and could replace .*: pass another directory"
    ):
        scratch(str(shared))
    shared.chmod(0o1777)
    result = scratch(str(shared))
    assert result.parent == shared
    assert result.stat().st_mode & 0o077 == 0
    (temporary / "own").mkdir(mode=0o755)
    assert scratch(str(temporary / "own")) == temporary / "own"
    result.chmod(0o777)
    with pytest.raises(SweepError, match="--scratch"):
        scratch(str(shared))


@pytest.mark.parametrize("place", ["home", "elsewhere"])
def test_the_file_of_a_sweep_does_not_choose_where_training_data_are(place: str, tmp_path: Path) -> None:
    """Another user's home could have data of theirs in that directory."""
    home = Home(tmp_path / "home")
    sweep = write_sweep(home)
    data = tmp_path / "home" / "data" if place == "home" else tmp_path / "data"
    values = yaml.safe_load(sweep.files.spec.read_text())
    values["resources"]["scratch"] = str(data)
    sweep.files.spec.write_text(yaml.safe_dump(values))
    assert load_sweep(home, sweep.id).spec.resources.scratch is None
    assert load_space(str(sweep.files.spec)).resources.scratch is None
    chosen = load_space(str(sweep.files.spec), overrides=["resources.scratch=/data"])
    assert chosen.resources.scratch == "/data"
    (tmp_path / "own.yaml").write_text(f"like: {sweep.files.spec}\nname: own\n")
    assert load_space(str(tmp_path / "own.yaml")).resources.scratch is None


def test_a_sweep_keeps_its_training_data_in_scratch(tmp_path: Path) -> None:
    words = ["run", "add_vs_add_prod", "--profile", "smoke", "--engine=local", "--home", tmp_path / "home"]
    words += ["--set", "sizes=[4]", "--set", "seeds=1", "--set", "mixes=[add]", "--set", "settings.training.steps=50"]
    command(*words, "--scratch", tmp_path / "here: #1").succeeded()
    assert [path.name[:8] for path in (tmp_path / "here: #1").iterdir()] == ["listops-"]
    assert not (tmp_path / "home" / "data").exists()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_refused_before_a_sweep_begins(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS without its lock service raises these errors. They do not mean that another process has the lock."""
    driven = write_sweep(Home(tmp_path / "home")).files
    with driven.driving():
        pass

    def refuse(*words: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refuse)
    assert not driven.is_driven()
    (tmp_path / "space.yaml").write_text(spec().to_yaml())
    done = command("run", tmp_path / "space.yaml", "--engine=local", "--home", tmp_path / "new")
    assert (done.code, "without locks" in done.err, "--home" in done.err) == (2, True, True), done.err
    assert not (tmp_path / "new" / "sweeps").exists()
