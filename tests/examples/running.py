"""Runs an example as its readers do: in a copy of its folder, from the command line."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def configuration(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the list of trusted folders of this user unchanged."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("configuration")))


def copied(name: str, workplace: Path) -> Path:
    """Copy an example into the working directory of a test."""
    shutil.copytree(Path(__file__).parent / name, workplace, dirs_exist_ok=True)
    return workplace
