"""MLflow's page is served as intended, whatever the user has configured for other servers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from orchestrator.record.store import DATABASE
from tests.record.servers import experiments_at, free_port
from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import sys
from pathlib import Path
from orchestrator.record.mlflow_server import serve
from orchestrator.record.store import choose
sys.exit(serve(choose(Path(sys.argv[1])), int(sys.argv[2])))
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
def test_the_page_answers_despite_settings_for_other_servers(empty: Path, tmp_path: Path) -> None:
    home, port = tmp_path / "job_feature%2Fx", free_port()
    home.mkdir()
    shutil.copyfile(empty, home / DATABASE)
    (tmp_path / "mlflow.py").write_text("raise SystemExit('the mlflow of other work')\n")
    environment = os.environ | SETTINGS | {"PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-P", "-c", SCRIPT, str(home), str(port)]
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
