"""The environment recorded in a journal describes this program."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orchestrator.home.sweeps import describe_environment


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"])
def test_the_recorded_commit_is_this_programs_even_inside_a_git_hook(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git sets these variables for hooks and `git rebase --exec`, and a shell may set them for a dotfiles
    repository."""
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    undisturbed = describe_environment()["git"]
    monkeypatch.setenv(name, str(tmp_path / ".git"))
    assert describe_environment()["git"] == undisturbed
