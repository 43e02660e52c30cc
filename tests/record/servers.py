"""A real MLflow server, for tests that need one."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from orchestrator.record.mlflow_store import Store, check_store
from orchestrator.system.errors import SweepError
from tests.waiting import wait_for

START_S = 180.0


def free_port() -> int:
    """Return a free port on loopback, below the range that systems assign, so that connections of other tests do not
    take it first."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


@contextmanager
def serving(home: Path, port: int) -> Iterator[Store]:
    """Run an MLflow server on loopback over the store in ``home``."""
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += [
        "--backend-store-uri",
        f"sqlite:///{home}/mlflow.db",
        "--artifacts-destination",
        str(home / "artifacts"),
    ]
    environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    store = Store(f"http://127.0.0.1:{port}")
    with (home / "server.log").open("ab") as log:
        # A separate session, so that its workers end with it.
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        try:
            wait_for(lambda: _answers(store, server), START_S)
            yield store
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _answers(store: Store, server: subprocess.Popen[bytes]) -> bool:
    assert server.poll() is None, "the server ended"
    with suppress(SweepError):
        check_store(store)
        return True
    return False
