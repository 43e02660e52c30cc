"""The environment that a journal records is that of this program."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from orchestrator.home.environment import describe_environment


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"])
def test_the_commit_is_that_of_this_program_inside_a_git_hook(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git sets these for hooks and for `git rebase --exec`, and a shell may for a repository of dotfiles."""
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    undisturbed = describe_environment()["git"]
    monkeypatch.setenv(name, str(tmp_path / ".git"))
    assert describe_environment()["git"] == undisturbed
