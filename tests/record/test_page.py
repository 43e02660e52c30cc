"""MLflow's own page ends when asked to, whatever its server is doing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import sys
from orchestrator.record import mlflow_server
from orchestrator.record.mlflow_server import serve
from orchestrator.record.store import Store
mlflow_server.END_S = 1.0
sys.exit(serve(Store(sys.argv[1], None), int(sys.argv[2])))
"""


def _servers(page: int) -> list[psutil.Process]:
    """Return the page's servers. Once a server has a child, it has its process group and the page waits for it."""
    with suppress(psutil.NoSuchProcess):  # The page has already ended.
        return [child for child in psutil.Process(page).children() if child.children()]
    return []


def test_a_server_that_does_not_end_by_itself_is_killed(empty: Path, tmp_path: Path) -> None:
    """The server is suspended, so that it does not react to signals."""
    words = [sys.executable, "-c", SCRIPT, f"sqlite:///{empty}", "1"]
    page = subprocess.Popen(words, cwd=ROOT, start_new_session=True)
    try:
        (server,) = wait_for(lambda: _servers(page.pid))
        os.killpg(server.pid, signal.SIGSTOP)
        interrupted = time.monotonic()
        page.send_signal(signal.SIGINT)
        assert page.wait(60) == 0
    finally:
        page.kill()
    assert 1.0 <= time.monotonic() - interrupted < 30
    assert not server.is_running()
