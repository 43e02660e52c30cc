"""Setup of all tests."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from orchestrator.home.trusted_code import trust
from tests.cli.program import Program, command

# A failed assertion of a suite then shows its values. Register each module before a test imports it.
pytest.register_assert_rewrite(
    "tests.conformance.searchers", "tests.engine.suite", "tests.record.suite", "tests.trainables.stacks"
)

# Models and matrices in tests are small: threads do not speed them up, and next to other tests they wait for one
# another and waste processor time. Set this before torch and numpy are imported; child processes inherit it, and
# workers set the threads of their stacks themselves.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Settings of tests and of the programs they start are not those of the user. Tests' own families are in this clone.
os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="orchestrator-tests-")
atexit.register(shutil.rmtree, os.environ["XDG_CONFIG_HOME"], ignore_errors=True)
trust(Path(__file__).resolve().parents[1])

# As in an activated environment, so that printed commands begin with ``python``.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])

# No deadlines, because the time of an example depends on the load of the machine.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

# Processes that a shell starts in the background ignore Ctrl-C, and so would every program started by a test.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Reset the number of threads, which a sweep in this process may have changed."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


@pytest.fixture(scope="module")
def undrawn() -> Iterator[None]:
    """Sweeps in this process have no figures and no report, which take ten times as long as a sweep of milliseconds.
    For modules that look at something else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orchestrator.sweep.answering.draw", lambda *given: [])
        yield


@pytest.fixture
def workplace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty working directory, without a configured MLflow server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, workplace: Path) -> Program:
    """A function that runs a command of the program in the workplace."""
    monkeypatch.setenv("COLUMNS", "200")
    return command
