"""What every test begins with."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import hypothesis
import pytest

from tests.cli.program import Program, command

# The models and matrices of these tests are small. Threads make nothing of them faster; beside other tests they wait
# for one another, and burn the processor meanwhile. It must be said before torch and numpy are imported, and programs
# that tests start inherit it; a stack's own threads are set by its worker all the same.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

# A shell lets what it starts in the background ignore Ctrl-C, and so would every program of a test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """As many threads as at first, where a sweep in this process has set as many as its stacks asked for."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


@pytest.fixture
def workplace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty working directory, with no MLflow server around."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, workplace: Path) -> Program:
    """Run a command of the program in the workplace."""
    monkeypatch.setenv("COLUMNS", "200")
    return command
