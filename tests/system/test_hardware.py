"""What the hardware of this machine is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.system import hardware

PID_FILE = "nvidia-cuda-mps-control.pid"


@pytest.fixture
def ended() -> int:
    """Id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_mps_runs_if_the_process_of_its_daemon_exists(
    tmp_path: Path, ended: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    assert not hardware.mps_runs()
    (tmp_path / "control").touch()  # It stays when the daemon stops.
    assert not hardware.mps_runs()
    seen = {}
    for text in (f"{os.getpid()}", f"{os.getpid()}\n", f"{ended}", "", "x", "0", "-1"):
        (tmp_path / PID_FILE).write_text(text)
        seen[text] = hardware.mps_runs()
    assert [text for text, runs in seen.items() if runs] == [f"{os.getpid()}", f"{os.getpid()}\n"]


def test_a_pipe_in_place_of_the_daemons_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_MPS_PIPE_DIRECTORY", raising=False)
    monkeypatch.setattr(hardware, "MPS_DIRECTORY", str(tmp_path))
    os.mkfifo(tmp_path / PID_FILE)
    assert not hardware.mps_runs()
    (tmp_path / PID_FILE).unlink()
    (tmp_path / PID_FILE).write_text(str(os.getpid()))
    assert hardware.mps_runs()
