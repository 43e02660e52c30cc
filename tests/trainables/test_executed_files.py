"""Scripts in the commands that a process starts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from trainables.contract.executed_files import executed_files, watch_executed_files

COMMANDS = {
    "perl plain data": ["plain"],
    "ruby -w plain data": ["plain"],
    "/usr/bin/python3.11 -B plain data": ["plain"],
    "bash -eu plain data": ["plain"],
    "python package data": ["package/__main__.py"],
    "awk -f score.awk data": ["score.awk"],
    "Rscript score.R data": ["score.R"],
    "python -c pass data": [],
    "python -m json.tool data": [],
    "python -mjson.tool data": [],
    "python - data": [],
    "perl -ne print data": [],
    "sh -ec true data": [],
    "cat data plain": [],
}
"""For each command, the files in it that are code."""


@pytest.mark.parametrize("command", COMMANDS)
def test_the_scripts_of_a_command_are_noted_and_its_data_are_not(command: str, tmp_path: Path) -> None:
    for name in ("plain", "data", "score.awk", "score.R", "package/__main__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    watch_executed_files()
    subprocess.run(command.split(), executable="/bin/true", cwd=tmp_path, check=True)
    assert [path for path in executed_files() if path.startswith(f"{tmp_path}/")] == [
        os.path.join(tmp_path, name) for name in COMMANDS[command]
    ]
