"""What is published: a source distribution with every file of the repository, and a wheel with what runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
BUILD = "from setuptools import build_meta; import sys; build_meta.build_sdist(sys.argv[1])"
UNPACK = "from setuptools import build_meta; import sys; build_meta.build_wheel(sys.argv[1])"
ADDED = {"MANIFEST.in", "PKG-INFO", "setup.cfg"}
"""Files that setuptools needs in the root, or writes there."""


def tracked() -> list[str]:
    """Return the files of the repository. Skip the test without a repository."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("the files of the repository are unknown without git")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def build(code: str, source: Path, target: Path) -> Path:
    """Build a distribution from a source and return it. CXX that fails leaves out the compiled training step."""
    environment = {**os.environ, "CXX": "false", "CC": "false"}
    target.mkdir()
    command = [sys.executable, "-c", code, str(target)]
    done = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [built] = target.iterdir()
    return built


@pytest.mark.slow
def test_the_source_distribution_is_complete_and_builds_a_wheel(tmp_path: Path) -> None:
    names, source = tracked(), tmp_path / "source"
    for name in names:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name)
    shutil.copy2(ROOT / "deploy" / "MANIFEST.in", source)
    (source / "orchestrator" / "__pycache__").mkdir()
    (source / "orchestrator" / "__pycache__" / "api.cpython-311.pyc").touch()
    (source / ".env").write_text("SECRET=1")
    with tarfile.open(build(BUILD, source, tmp_path / "sdist")) as archive:
        files = [member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()]
        archive.extractall(tmp_path / "unpacked", filter="data")
    published = {name for name in files if not name.startswith("transition_sweeps.egg-info/")}
    assert published - ADDED == set(names)
    [unpacked] = (tmp_path / "unpacked").iterdir()
    with zipfile.ZipFile(build(UNPACK, unpacked, tmp_path / "wheel")) as wheel:
        own = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert {name.partition("/")[0] for name in own} == {"orchestrator", "trainables", "search_spaces"}
    modules = {name for name in names if name.endswith(".py") and not name.startswith(("tests/", "deploy/"))}
    assert modules <= own
    assert {name for name in names if name.startswith("search_spaces/") and name.endswith(".yaml")} <= own
    assert {"orchestrator/py.typed", "trainables/py.typed"} <= own
