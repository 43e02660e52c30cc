"""Printed commands run this program from the shell that shows them."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest

from orchestrator.environment import command_line

INTERPRETER = Path(sys.executable)


def test_a_shell_that_finds_this_python_needs_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.pathsep.join([str(INTERPRETER.parent), os.defpath]))
    assert command_line("run", "a space.yaml") == "python -m orchestrator run 'a space.yaml'"


def test_another_python_on_the_path_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Environments link to one file, so a link to the same Python elsewhere does not have this program."""
    (tmp_path / "python").symlink_to(INTERPRETER.resolve())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert command_line("status") == f"{shlex.quote(sys.executable)} -m orchestrator status"


def test_an_environment_below_the_working_directory_is_named_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    project = INTERPRETER.parents[2]
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir(project)
    assert command_line("status") == f"{INTERPRETER.relative_to(project)} -m orchestrator status"
