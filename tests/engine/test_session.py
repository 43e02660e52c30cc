"""One Ray instance for several sweeps."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import psutil
import pytest
import ray

from orchestrator.engine.ray.engine import RayEngine
from orchestrator.engine.ray.files import TOKEN, TOKEN_PATH, protect_token
from orchestrator.engine.ray.session import PATIENT, RaySession
from orchestrator.space.resources import Resources
from tests.cli.program import process

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The token path of a user who has no token yet."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (TOKEN, TOKEN_PATH, "RAY_AUTH_MODE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / ".ray" / "auth_token"


def test_only_the_user_can_ever_read_the_token(token: Path) -> None:
    protect_token(missing=False)
    assert not token.exists()
    protect_token(missing=True)
    written = token.read_text()
    assert len(written) >= 32
    assert token.stat().st_mode & 0o777 == 0o600
    token.chmod(0o644)
    protect_token(missing=True)
    assert token.read_text() == written
    assert token.stat().st_mode & 0o777 == 0o600


def test_no_token_is_written_if_the_user_has_configured_authentication(
    token: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "mounted"))
    protect_token(missing=True)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    protect_token(missing=True)
    assert list(tmp_path.iterdir()) == []


def node() -> str:
    """Return the ID of the node that Ray runs on."""
    return str(ray.get_runtime_context().get_node_id())


def listening() -> dict[str, set[str]]:
    """Return the addresses that this process and its children listen on, by process name."""
    addresses: dict[str, set[str]] = {}
    this_process = psutil.Process()
    for listener in (this_process, *this_process.children(recursive=True)):
        at = {item.laddr.ip for item in listener.net_connections("inet") if item.status == psutil.CONN_LISTEN}
        addresses.setdefault(listener.name(), set()).update(at)
    return addresses


@pytest.mark.slow
def test_ray_listens_on_loopback_and_is_kept_between_sweeps_unless_one_fails() -> None:
    before = listening()
    with RaySession(kept=True) as session:
        assert not ray.is_initialized()  # No sweep has asked for Ray yet.
        with RayEngine(Resources(), session):
            first = node()
            at = {name: addresses - before.get(name, set()) for name, addresses in listening().items()}
            gcs = next(item for item in psutil.Process().children() if item.name() == "gcs_server")
            assert {name: gcs.environ().get(name) for name in PATIENT} == PATIENT
        assert at["gcs_server"]
        assert at["raylet"]
        used = {address.removeprefix("::ffff:") for addresses in at.values() for address in addresses}
        assert used == {"127.0.0.1"}
        with RayEngine(Resources(), session) as engine:
            assert node() == first
            assert "Ray on this machine: 1 node" in engine.describe()
        with pytest.raises(ZeroDivisionError), RayEngine(Resources(), session):
            1 / 0  # noqa: B018
        assert not ray.is_initialized()
        with RayEngine(Resources(), session):
            assert node() != first
    assert not ray.is_initialized()


IN_A_NOTEBOOK = """
import sys, threading
sys.path.insert(0, sys.argv[1])
import ray
import orchestrator as o
from orchestrator.errors import UserError
from tests.sweep.sweeps import spec

ray.init(num_cpus=1, log_to_driver=False, include_dashboard=False)
node = ray.get_runtime_context().get_node_id()
small = spec(sizes=[16, 64], search={"method": "grid"}, seeds=1)
print("joined", o.run(small, home=sys.argv[2]).state, ray.get_runtime_context().get_node_id() == node)
address = ray.get_runtime_context().gcs_address
again = threading.Thread(target=lambda: print("in a thread", o.run(small, home=sys.argv[3], address=address).state))
again.start()
again.join()
print("left running", ray.is_initialized())
try:
    o.run(small, home=sys.argv[4], quiet=True, address="10.77.0.1:6379")
except UserError as error:
    print("refused", error)
ray.shutdown()
again = threading.Thread(target=lambda: print("alone in a thread", o.run(small, home=sys.argv[4]).state))
again.start()
again.join()
"""
"""A program that runs sweeps in the process of its own Ray, and then without it."""


@pytest.mark.night
def test_a_ray_already_joined_by_this_process_is_used_and_left_running(tmp_path: Path) -> None:
    homes = [str(tmp_path / name) for name in ("one", "two", "three")]
    command = [sys.executable, "-c", IN_A_NOTEBOOK, str(ROOT), *homes]
    # Ray's workers get the import path from the start of this process.
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = process(command, cwd=tmp_path, environment=environment, within_s=280)
    output = done.succeeded()
    assert "the Ray of this process: 1 node, 1 CPU core, 1 stack at a time" in output
    assert "joined finished True" in output
    assert "in a thread finished" in output
    assert "left running True" in output
    assert "alone in a thread finished" in output
    assert re.search(r"refused this process uses the Ray at \S+, but the address is 10\.77\.0\.1:6379", output)
    assert "ignore_reinit_error" not in done.err
