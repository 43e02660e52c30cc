"""Ray during a sweep: its token, its ports and its end."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest
import ray

from orchestrator.engine.ray.engine import RayEngine
from orchestrator.engine.ray.files import TOKEN, TOKEN_PATH, protect_token
from orchestrator.engine.ray.session import PATIENT
from orchestrator.errors import UserError
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


def listening() -> dict[str, set[str]]:
    """Return the addresses that this process and its children listen on, by process name."""
    addresses: dict[str, set[str]] = {}
    this_process = psutil.Process()
    for listener in (this_process, *this_process.children(recursive=True)):
        at = {item.laddr.ip for item in listener.net_connections("inet") if item.status == psutil.CONN_LISTEN}
        addresses.setdefault(listener.name(), set()).update(at)
    return addresses


@pytest.mark.slow
def test_ray_listens_on_loopback_and_ends_with_its_block() -> None:
    before = listening()
    with RayEngine(Resources()) as engine:
        assert "Ray on this machine: 1 node" in engine.describe()
        at = {name: addresses - before.get(name, set()) for name, addresses in listening().items()}
        gcs = next(item for item in psutil.Process().children() if item.name() == "gcs_server")
        assert {name: gcs.environ().get(name) for name in PATIENT} == PATIENT
        with pytest.raises(UserError, match="already connected to Ray"), RayEngine(Resources()):
            pass
    assert at["gcs_server"]
    assert at["raylet"]
    used = {address.removeprefix("::ffff:") for addresses in at.values() for address in addresses}
    assert used == {"127.0.0.1"}
    assert not ray.is_initialized()


IN_A_NOTEBOOK = """
import sys, threading
import orchestrator as o
from tests.sweep.sweeps import spec

small = spec(sizes=[16, 64], search={"method": "grid"}, seeds=1)
thread = threading.Thread(target=lambda: print("in a thread", o.run(small, home=sys.argv[1]).state))
thread.start()
thread.join()
"""


@pytest.mark.slow
def test_a_sweep_under_ray_runs_in_a_thread_of_a_notebook(tmp_path: Path) -> None:
    # Ray's workers get the import path from the start of this process.
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = process(
        [sys.executable, "-c", IN_A_NOTEBOOK, str(tmp_path)], cwd=tmp_path, environment=environment, within_s=280
    )
    assert "in a thread finished" in done.succeeded()
    assert "ignore_reinit_error" not in done.err
