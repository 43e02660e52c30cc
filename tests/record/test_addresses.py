"""Where a server sends files. The user who created an experiment chose it, also for the records of other users."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from orchestrator.record.mlflow_store import Store, address_flaw
from orchestrator.record.mlflow_tracker import MlflowTracker, delete_record
from orchestrator.record.tracker import StoreError
from tests.record.samples import finish, records_of

RUN = "a" * 32


@contextmanager
def served(location: str = "") -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Run an MLflow server with an experiment of another user, whose files are at a location. Yield its host, and the
    paths of its requests, with the login."""
    requests: list[tuple[str, str]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path = urlsplit(self.path).path
            requests.append((path, self.headers.get("Authorization", "")))
            info = {"run_id": RUN, "run_uuid": RUN, "experiment_id": "1", "status": "RUNNING", "start_time": 1}
            info |= {"artifact_uri": f"{location}/{RUN}/artifacts", "lifecycle_stage": "active"}
            run = {"info": info, "data": {"tags": [{"key": "kind", "value": "sweep"}]}}
            experiment = {"experiment_id": "1", "name": "x", "artifact_location": location, "lifecycle_stage": "active"}
            answers = {
                "experiments/get-by-name": {"experiment": experiment},
                "runs/create": {"run": run},
                "runs/get": {"run": run},
                "runs/search": {"runs": [run]},
            }
            reply = next((answer for end, answer in answers.items() if path.endswith(end)), {})
            content = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

        def log_message(self, format: str, *args: object) -> None:
            """Keep the tests' output clean."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def login(monkeypatch: pytest.MonkeyPatch) -> None:
    """A login, which MLflow's client sends to the server, and to wherever the server keeps files."""
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ann")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "secret-Kd82x")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")


@pytest.mark.parametrize("form", ["mlflow-artifacts://{}", "http://{}/api/2.0/mlflow-artifacts/artifacts"])
def test_the_login_is_not_sent_where_another_user_keeps_files(form: str, tmp_path: Path) -> None:
    finished = finish(tmp_path / "sweeps")
    with served() as (elsewhere, requests), served(form.format(elsewhere)) as (host, seen):
        store = Store(f"http://{host}")
        with pytest.raises(StoreError, match=f"{elsewhere}.* is not on {host}.*--set name=NAME"):
            records_of(MlflowTracker(store), finished.sweep).begin()
        delete_record(store, finished.sweep.spec.name, finished.sweep.id)
        assert requests == []
        assert any(login.startswith("Basic") for _, login in seen)


@pytest.mark.parametrize("form", ["file://{}", "{}"])
def test_no_file_of_this_machine_is_written_because_a_server_says_so(form: str, tmp_path: Path) -> None:
    finished, place = finish(tmp_path / "sweeps"), tmp_path / "place"
    with served(form.format(place)) as (host, _):
        store = Store(f"http://{host}")
        with pytest.raises(StoreError, match="is a path on this machine"):
            records_of(MlflowTracker(store), finished.sweep).begin()
        (place / RUN / "artifacts").mkdir(parents=True)
        delete_record(store, finished.sweep.spec.name, finished.sweep.id)
    assert (place / RUN / "artifacts").is_dir()


@pytest.mark.parametrize(
    ("address", "is_allowed"),
    [
        ("mlflow-artifacts:/1", True),
        ("mlflow-artifacts://tracker:5000/1", True),
        ("http://Tracker:5000/api/2.0/mlflow-artifacts/artifacts/1", True),
        ("s3://bucket/1", True),
        ("gs://bucket/1", True),
        ("wasbs://container@account.blob.core.windows.net/1", True),
        ("abfss://container@account.dfs.core.windows.net/1", True),
        ("abfss://container@account.dfs.core.windows.net.evil.org/1", False),
        ("abfss://container@evil.org\\.dfs.core.windows.net/1", False),
        ("mlflow-artifacts://tracker:5000@evil.org/1", False),
        ("mlflow-artifacts://tracker:5001/1", False),
        ("http:/1", False),
        ("HTTP://evil.org/1", False),
        ("sftp://evil.org/1", False),
        ("dbfs:/1", False),
        ("", False),
    ],
)
def test_addresses_whose_host_somebody_can_choose_are_refused(address: str, is_allowed: bool) -> None:
    assert (address_flaw(Store("http://ann:secret@tracker:5000"), address) == "") is is_allowed
