"""Starting and joining Ray: the interfaces it listens on, and the message for a refused token."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from orchestrator.engine.ray.engine import RayEngine
from orchestrator.engine.ray.session import PATIENT
from orchestrator.space.resources import Resources
from tests.cli.program import process
from tests.engine.nodes import RAY
from tests.record.servers import free_port
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
JOIN = (
    "import sys\nfrom orchestrator.engine.ray.cluster import cluster_hardware\n"
    "from orchestrator.errors import SweepError\n"
    "try: print(cluster_hardware(sys.argv[1]).cpus)\nexcept SweepError as error: print(error)\n"
)


def listening() -> dict[str, set[str]]:
    """Return the addresses that this process and its children listen on, by process name."""
    addresses: dict[str, set[str]] = {}
    this_process = psutil.Process()
    for listener in (this_process, *this_process.children(recursive=True)):
        at = {item.laddr.ip for item in listener.net_connections("inet") if item.status == psutil.CONN_LISTEN}
        addresses.setdefault(listener.name(), set()).update(at)
    return addresses


def test_a_plain_run_listens_only_on_loopback_with_long_timeouts(tmp_path: Path) -> None:
    before = listening()
    with RayEngine(Resources()):
        at = {name: addresses - before.get(name, set()) for name, addresses in listening().items()}
        gcs = next(item for item in psutil.Process().children() if item.name() == "gcs_server")
        assert {name: gcs.environ().get(name) for name in PATIENT} == PATIENT
    assert {"gcs_server", "raylet"} <= at.keys()
    assert at["gcs_server"]
    assert at["raylet"]
    assert {address.removeprefix("::ffff:") for addresses in at.values() for address in addresses} == {"127.0.0.1"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a cluster with a token, and the token's file."""
    home = tmp_path_factory.mktemp("owner")
    port, token = free_port(), home / ".ray" / "auth_token"
    token.parent.mkdir()
    token.write_text("c0ffee" * 10 + "beef")
    words = ["start", "--head", f"--port={port}", "--num-cpus=3", "--block", "--disable-usage-stats"]
    with tempfile.TemporaryDirectory(prefix="ray-") as files:  # The path of a socket has at most 107 characters.
        head = subprocess.Popen(
            [RAY, *words, "--include-dashboard=false", f"--temp-dir={files}"],
            env=plain_environment() | {"HOME": str(home), "RAY_AUTH_MODE": "token"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_for(lambda: is_open(port), 100)
            yield f"127.0.0.1:{port}", token
        finally:
            parts = psutil.Process(head.pid).children()
            head.terminate()
            _, left = psutil.wait_procs([head, *parts], timeout=20)
            for item in left:
                item.kill()


def plain_environment() -> dict[str, str]:
    """The environment of this process before Ray was started in it."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}


def is_open(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@pytest.mark.parametrize(
    ("mode", "output"),
    [
        ("", "needs its token, but this machine sent none: set RAY_AUTH_MODE=token, and copy the head node's"),
        (
            "wrong",
            "rejected this machine's token, which is not the cluster's; copy the head node's ~/.ray/auth_token to",
        ),
        ("missing", "RAY_AUTH_MODE is token, but this machine has no token: copy the head node's ~/.ray/auth_token to"),
        ("right", "3"),
    ],
)
def test_a_refused_token_has_its_own_message(mode: str, output: str, guarded: tuple[str, Path], tmp_path: Path) -> None:
    address, token = guarded
    mine = {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    if mode:
        mine["RAY_AUTH_MODE"] = "token"
    if mode in ("wrong", "right"):
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text(token.read_text() if mode == "right" else "0" * 64)
    command = [sys.executable, "-c", JOIN, address]
    environment = plain_environment() | mine
    done = process(command, environment=environment, within_s=100)
    assert done.code == 0, done.err
    assert output in done.out
    assert "InvalidAuthToken" not in done.err
