"""MPS is begun where it is asked for and allowed, shared, and ended by the last who used it.

There is no GPU and no MPS where these run: a stand-in of its control program (mps_control.sh) keeps a list of what it
was asked. What MPS does on a GPU they cannot show.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.drive.beginning import mps_where_asked
from orchestrator.drive.sweep import RunOptions, run_sweep
from orchestrator.engine.mps import COMMAND, multi_process_service
from orchestrator.errors import UserError
from orchestrator.space.hardware import MPS_PIPE_VARIABLE, Hardware, has_mps
from tests.drive.sweeps import quiet, spec

Calls = Callable[[], list[str]]


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory of its own for temporary files."""
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@pytest.fixture
def calls(short: Path, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The stand-in is installed; what it was asked, the directory it was given left out."""
    (short / "bin").mkdir()
    command = short / "bin" / COMMAND
    shutil.copy(Path(__file__).with_name("mps_control.sh"), command)
    command.chmod(0o755)
    said = short / "calls"
    said.touch()
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MPS_CALLS", str(said))
    monkeypatch.setattr(tempfile, "tempdir", str(short))
    monkeypatch.setenv(MPS_PIPE_VARIABLE, str(short / "nobody"))
    return lambda: [line.split()[0] for line in said.read_text().splitlines()]


def refuse(said: str) -> None:
    raise AssertionError(said)


def test_it_runs_in_a_directory_of_its_own_for_as_long_as_the_block(calls: Calls, short: Path) -> None:
    assert not has_mps()
    with multi_process_service(refuse):
        assert has_mps()
        place = Path(os.environ[MPS_PIPE_VARIABLE])
        assert place.parent == short
        assert place.stat().st_mode & 0o777 == 0o700
        assert os.environ["CUDA_MPS_LOG_DIRECTORY"] == str(place)
        with multi_process_service(refuse):  # As of one sweep among several that share a Ray.
            assert calls() == ["-d"]
    assert calls() == ["-d", "quit"]
    assert not has_mps()
    assert os.environ[MPS_PIPE_VARIABLE] == str(short / "nobody")


IN_ANOTHER = """
from orchestrator.engine.mps import multi_process_service
with multi_process_service(print):
    print("in", flush=True)
    input()
"""


@pytest.fixture
def another(calls: Calls, short: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that uses it until it is told to go on."""
    environment = os.environ | {"TMPDIR": str(short)}
    words = [sys.executable, "-c", IN_ANOTHER]
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
        yield process
        process.kill()


def test_who_comes_later_shares_it_and_the_last_who_goes_ends_it(another: subprocess.Popen[str], calls: Calls) -> None:
    with multi_process_service(refuse):
        assert calls() == ["-d", "get_server_list"]
        another.communicate("\n")
        assert another.returncode == 0
        assert "quit" not in calls()
    assert calls() == ["-d", "get_server_list", "quit"]


def test_that_of_a_process_which_was_killed_is_ended_by_the_next(another: subprocess.Popen[str], calls: Calls) -> None:
    another.kill()
    another.wait()
    with multi_process_service(refuse):
        pass
    assert calls() == ["-d", "get_server_list", "quit"]


def test_one_that_was_killed_is_begun_anew(calls: Calls, short: Path) -> None:
    place = short / f"orchestrator-mps-{os.getuid()}"
    place.mkdir()
    (place / "control").touch()
    with multi_process_service(refuse):
        assert calls() == ["get_server_list", "-d"]


def test_one_that_runs_already_is_used_and_left_alone(calls: Calls, short: Path) -> None:
    (short / "nobody").mkdir()
    (short / "nobody" / "control").touch()
    with multi_process_service(refuse):
        assert os.environ[MPS_PIPE_VARIABLE] == str(short / "nobody")
    assert calls() == []


def test_where_it_is_not_allowed_that_is_said(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPS_REFUSES", "Cannot start: compute mode is prohibited")
    said: list[str] = []
    with multi_process_service(said.append):
        assert not has_mps()
    [line] = said
    assert "stacks on one GPU take turns: Cannot start: compute mode is prohibited" in line
    assert calls() == ["-d"]


def test_where_it_is_not_installed_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    said: list[str] = []
    with multi_process_service(said.append):
        pass
    assert said == [f"resources.mps: {COMMAND} is not installed here, so stacks on one GPU take turns"]


@pytest.mark.parametrize(
    ("resources", "where", "begun"),
    [
        ({"gpu_per_stack": 0.5, "mps": True}, {}, True),
        ({"gpu_per_stack": 0.5}, {}, False),
        ({"mps": True}, {}, False),
        ({"gpu_per_stack": 0.5, "mps": True}, {"local_debug": True}, False),
        ({"gpu_per_stack": 0.5, "mps": True}, {"address": "10.0.0.1:6379"}, False),
    ],
)
def test_it_is_begun_for_stacks_that_share_a_gpu_of_this_machine(
    calls: Calls, resources: dict[str, object], where: dict[str, object], begun: bool
) -> None:
    asked = spec(resources=resources)
    with mps_where_asked([asked], lambda said: None, **{"local_debug": False, "address": None} | where):  # type: ignore[arg-type]
        assert has_mps() is begun
    assert calls() == (["-d", "quit"] if begun else [])


@pytest.mark.slow
def test_a_sweep_begins_and_ends_it(calls: Calls, tmp_path: Path) -> None:
    """Up to where it has no GPU here."""
    asked = spec(resources={"gpu_per_stack": 0.5, "mps": True})
    with pytest.raises(UserError, match="no node has room"):
        run_sweep(asked, RunOptions(home=tmp_path, hardware=Hardware(8, 16.0, gpus=1, gpu_name="H200")), quiet())
    assert calls() == ["-d", "quit"]
