"""MLflow's page is served as intended, whatever the user configured for other servers, and ends when asked to."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
from pathlib import Path

import psutil
import pytest

from orchestrator.record.store import DATABASE, choose
from tests.record.servers import experiments_at, free_port
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import sys
from orchestrator.record import mlflow_server
from orchestrator.record.mlflow_server import serve
from orchestrator.record.store import Store
mlflow_server.END_S = 1.0
sys.exit(serve(Store(sys.argv[1]), int(sys.argv[2])))
"""


SETTINGS = {
    "MLFLOW_STATIC_PREFIX": "/proxied",
    "MLFLOW_SERVER_ALLOWED_HOSTS": "tracker.example",
    "MLFLOW_WORKERS": "7",
    "UVICORN_PORT": "1",
    "MLFLOW_PORT": "1",
    "MLFLOW_BACKEND_STORE_URI": "sqlite:////no/such.db",
}


@pytest.mark.slow
def test_the_page_answers_despite_settings_for_other_servers_and_ends_when_asked(empty: Path, tmp_path: Path) -> None:
    home, port = tmp_path / "a home", free_port()
    home.mkdir()
    shutil.copyfile(empty, home / DATABASE)
    (tmp_path / "mlflow.py").write_text("raise SystemExit('the mlflow of other work')\n")
    environment = os.environ | SETTINGS | {"PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-P", "-c", SCRIPT, choose(home).uri, str(port)]
    page = subprocess.Popen(words, cwd=tmp_path, env=environment, start_new_session=True)
    try:
        assert wait_for(lambda: _experiments(port, page), 180) == ["Default"]
        (server,) = psutil.Process(page.pid).children()
        os.killpg(server.pid, signal.SIGSTOP)  # It no longer reacts to signals, so it must be killed.
        interrupted = time.monotonic()
        page.send_signal(signal.SIGINT)
        assert page.wait(60) == 0
    finally:
        page.kill()
    assert 1.0 <= time.monotonic() - interrupted < 30
    assert not server.is_running()
    assert {path.name for path in tmp_path.iterdir()} == {home.name, "mlflow.py"}


def _experiments(port: int, page: subprocess.Popen[bytes]) -> list[str]:
    """Return the server's experiments, or an empty list before it answers."""
    assert page.poll() is None, "the server ended"
    try:
        return experiments_at(port)
    except urllib.error.HTTPError as error:
        pytest.fail(f"the server refuses: {error}")
    except OSError:
        return []
