"""Joining a Ray cluster that has a token."""

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

from orchestrator.engine.ray.session import own_clusters
from tests.cli.program import process
from tests.engine.hosts import RAY
from tests.record.servers import free_port
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
"""The environment of this process before Ray was started in it."""
JOIN = (
    "import sys\nfrom orchestrator.engine.ray.cluster import cluster_hardware\n"
    "from orchestrator.system.errors import SweepError\n"
    "try: print(cluster_hardware(sys.argv[1]).cpus)\nexcept SweepError as error: print(error)\n"
)


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
            env=PLAIN | {"HOME": str(home), "RAY_AUTH_MODE": "token"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_for(lambda: is_open(port), 100)
            # On a busy machine the raylet starts much later than the server that listens at the port.
            wait_for(lambda: any(cluster.endswith(f":{port}") for cluster in own_clusters()), 100)
            yield f"127.0.0.1:{port}", token
        finally:
            parts = psutil.Process(head.pid).children()
            head.terminate()
            _, left = psutil.wait_procs([head, *parts], timeout=20)
            for item in left:
                item.kill()


def is_open(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


@pytest.mark.parametrize("has_token", [True, False])
def test_a_cluster_with_a_token_admits_only_those_who_have_it(
    has_token: bool, guarded: tuple[str, Path], tmp_path: Path
) -> None:
    address, token = guarded
    mine = PLAIN | {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    if has_token:
        mine["RAY_AUTH_MODE"] = "token"
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text(token.read_text())
    done = process([sys.executable, "-c", JOIN, address], environment=mine, within_s=100)
    assert done.code == 0, done.err
    remedy = f"set RAY_AUTH_MODE=token, and copy the head node's ~/.ray/auth_token to {tmp_path}/.ray/auth_token"
    assert ("3" if has_token else remedy) in done.out
