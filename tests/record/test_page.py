"""MLflow's page is served as intended, whatever the user configured for other servers, and ends when asked to."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
from contextlib import suppress
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


SETTINGS = {
    "MLFLOW_STATIC_PREFIX": "/proxied",
    "MLFLOW_SERVER_ALLOWED_HOSTS": "tracker.example",
    "MLFLOW_WORKERS": "7",
    "UVICORN_PORT": "1",
    "MLFLOW_PORT": "1",
    "MLFLOW_BACKEND_STORE_URI": "sqlite:////no/such.db",
}


@pytest.mark.slow
def test_the_page_answers_despite_settings_for_other_servers(empty: Path, tmp_path: Path) -> None:
    home, port = tmp_path / "job_feature%2Fx", free_port()
    home.mkdir()
    shutil.copyfile(empty, home / DATABASE)
    (tmp_path / "mlflow.py").write_text("raise SystemExit('the mlflow of other work')\n")
    environment = os.environ | SETTINGS | {"PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-P", "-c", SCRIPT, choose(home).uri, str(port)]
    page = subprocess.Popen(words, cwd=tmp_path, env=environment)
    try:
        assert wait_for(lambda: _experiments(port, page), 180) == ["Default"]
    finally:
        page.terminate()
        page.wait(60)
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
