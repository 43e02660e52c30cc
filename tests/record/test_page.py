"""MLflow's own page: it ends when it is asked to, whatever its server is doing."""

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
    """A server with a child of its own has its process group, and the page waits for it."""
    with suppress(psutil.NoSuchProcess):  # It has ended meanwhile.
        return [child for child in psutil.Process(page).children() if child.children()]
    return []


def test_a_server_that_does_not_end_by_itself_is_ended(empty: Path, tmp_path: Path) -> None:
    """It is halted, so that it hears of nothing, as one that has no time to."""
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
