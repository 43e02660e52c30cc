"""A hash of the programs in a script's directory: users are warned if it changes."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from trainables.script import nearby
from trainables.script.nearby import changed_program, hash_nearby, hash_of_mixed
from trainables.script.project import project_of


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("train.py", "package/core.py", "native/kernel.cu", "run.SH", "venv/lib/a.py", "results/runs/k/a.py"):
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text("1")
    (tmp_path / "project" / "venv" / "pyvenv.cfg").write_text("")
    (tmp_path / "project" / "results" / ".id").write_text("")
    (tmp_path / "project" / "results" / "sweeps").mkdir()
    return tmp_path / "project"


PROGRAMS = (
    *("train.py", "package/core.py", "native/kernel.cu", "run.SH", "package/new.jl", "Makefile", "caf\udce9.py"),
    *("configs/8.yaml", ".conf/8.yaml", "jobs/a.sbatch", "conf/family.yaml", "conf/config.ini", ".env", "bin/tool"),
    *("score.awk", "score-1.2", "bin/score.binary", "mixtures.yaml", "related.yaml"),
)
OTHERS = (
    "data.csv",
    "space.yaml",
    "spaces/like.yaml",
    "data.bin",
    "metrics.json",
    "LICENSE",
    "multirun/1/config.yaml",
    ".venv/a.py",
    "wandb/run-1/train.py",
    "venv/lib/a.py",
    "results/runs/k/a.py",
)


TEXTS = {
    "space.yaml": "mixes: [a]\nscript: {}\n",
    "spaces/like.yaml": "like: a\nseeds: 3\n",
    "conf/family.yaml": "family: resnet\nscript: a\ntarget: b\n",
    "mixtures.yaml": "mixes: [a]\ntarget: loss\nseeds: 3\n",
    "related.yaml": "like: a\ncolor: red\n",
    "score-1.2": "#!/bin/sh\n",
    "bin/score.binary": "\x7fELF",
}


@pytest.mark.parametrize(
    ("name", "is_program"),
    [*((name, True) for name in (*PROGRAMS, "runs/sweeps/a.py")), *((name, False) for name in (*OTHERS, "big.js"))],
)
def test_a_change_of_a_program_changes_the_hash(name: str, is_program: bool, project: Path) -> None:
    """Data, products of tools and huge files do not count."""
    before = hash_nearby(str(project))
    assert re.fullmatch("[0-9a-f]{16}", before)
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_text("2" * ((1 << 20) + 1) if name == "big.js" else TEXTS.get(name, "2"))
    if name in ("bin/tool", "score-1.2", "bin/score.binary", "data.bin"):
        (project / name).chmod(0o755)
    assert (hash_nearby(str(project)) != before) is is_program


def test_a_run_during_a_change_has_the_hash_of_neither_state() -> None:
    mixed = hash_of_mixed("0123456789abcdef", "")
    assert re.fullmatch("[0-9a-f]{16}", mixed)
    assert len({mixed, hash_of_mixed("", "0123456789abcdef"), "0123456789abcdef"}) == 3


def test_programs_are_found_beside_an_environment_and_many_directories_of_data(project: Path) -> None:
    """The project itself is an environment, and data come first in the alphabet."""
    (project / "pyvenv.cfg").write_text("")
    for number in range(3_000):
        (project / "data" / "train" / str(number)).mkdir(parents=True)
    before = hash_nearby(str(project))
    (project / "package" / "core.py").write_text("2")
    assert hash_nearby(str(project)) != before


def test_two_copies_of_a_project_have_one_hash_and_links_to_data_do_not_count(project: Path, tmp_path: Path) -> None:
    before = hash_nearby(str(project))
    shutil.copytree(project, tmp_path / "copy")
    assert hash_nearby(str(tmp_path / "copy")) == before
    (project / "linked").symlink_to(project / "package")
    (project / "package" / "itself").symlink_to(project)
    (project / "data").symlink_to(tmp_path / "data")
    (tmp_path / "data" / "images").mkdir(parents=True)
    (tmp_path / "data" / "images" / "1.png").touch()
    (tmp_path / "data" / "labels.json").touch()
    os.mkfifo(project / "pipe.py")
    (project / "gone.py").symlink_to(project / "nowhere.py")
    assert hash_nearby(str(project)) == before
    assert hash_nearby(str(tmp_path / "missing")) == ""


@pytest.mark.parametrize("name", ["linked/core.py", "linked/inner/core.py", "linked.py", "deep/inner/core.py"])
def test_a_program_behind_a_link_counts(name: str, project: Path, tmp_path: Path) -> None:
    """The packages lie elsewhere, and so does a module."""
    elsewhere = tmp_path / "elsewhere"
    for file in ("linked/core.py", "linked/inner/core.py", "linked.py", "deep/inner/core.py"):
        (elsewhere / file).parent.mkdir(parents=True, exist_ok=True)
        (elsewhere / file).write_text("1")
    (project / "linked").symlink_to(elsewhere / "linked")
    (project / "deep").symlink_to(elsewhere / "deep")
    (project / "linked.py").symlink_to(elsewhere / "linked.py")
    before = hash_nearby(str(project))
    (elsewhere / name).write_text("2")
    assert hash_nearby(str(project)) != before


@pytest.mark.parametrize("mark", [".git", "pyproject.toml", ""])
@pytest.mark.parametrize("directory", ["package", "native/deep/er/than/most"])
def test_programs_in_the_project_around_the_directory_count(mark: str, directory: str, project: Path) -> None:
    (project / directory).mkdir(parents=True, exist_ok=True)
    (project / directory / "own.py").touch()
    if mark:
        (project / mark).mkdir()
    before = hash_nearby(str(project / directory))
    (project / "train.py").write_text("2")
    assert (hash_nearby(str(project / directory)) != before) is bool(mark)
    before = hash_nearby(str(project / directory))
    (project / directory / "own.py").write_text("2")
    assert hash_nearby(str(project / directory)) != before


def test_the_project_is_the_nearest_repository_or_the_outermost_package(tmp_path: Path) -> None:
    deep = tmp_path / "shared" / "outer" / "inner" / "a" / "b" / "c" / "d"
    deep.mkdir(parents=True)
    (tmp_path / "shared" / ".git").mkdir()
    (tmp_path / "shared").chmod(0o777)
    assert project_of(deep) == deep
    (tmp_path / "shared" / "outer" / "inner" / "setup.py").touch()
    assert project_of(deep) == tmp_path / "shared" / "outer" / "inner"
    (tmp_path / "shared" / "outer" / "pyproject.toml").touch()
    assert project_of(deep) == tmp_path / "shared" / "outer"
    (deep.parents[1] / ".git").touch()  # In a worktree of git, it is a file.
    assert project_of(deep) == deep.parents[1]


def test_the_program_that_was_written_last_is_named(project: Path) -> None:
    for seconds, name in enumerate(("package/core.py", "native/kernel.cu", "train.py", "data.csv")):
        (project / name).touch()
        os.utime(project / name, (seconds, seconds))
    (project / "run.SH").unlink()
    (project / ".git").mkdir()
    os.utime(project / "package" / "core.py", (4e9, 4e9))
    assert changed_program(str(project), 1.5) == "train.py"
    assert changed_program(str(project / "package"), 1.5) == "../train.py"
    assert changed_program(str(project / "package"), 0.5, ["../train.py"]) == "../native/kernel.cu"
    assert changed_program(str(project), 2) == ""


def test_a_huge_directory_is_not_read_whole(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearby, "MOST_FILES", 2)
    first = hash_nearby(str(project))
    (project / "package" / "core.py").write_text("2")
    assert hash_nearby(str(project)) == first
    monkeypatch.setattr(nearby, "MOST_DIRECTORIES", 1)
    (project / "train.py").write_text("2")
    assert hash_nearby(str(project)) != first
