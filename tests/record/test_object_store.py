"""Artifacts that go straight to an object store: a server on loopback that speaks as much of S3 as an upload needs."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from mlflow import MlflowClient

from orchestrator.home.run_files import ARRAYS
from orchestrator.record.mlflow_tracker import MlflowTracker
from orchestrator.record.store import Store, StoreError
from tests.record.samples import finish


class ObjectStore(ThreadingHTTPServer):
    """Answers every upload with ``status`` and ``code``; ``kept`` are the paths of those it took."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Upload)
        self.status, self.code = 200, ""
        self.kept: list[str] = []


class _Upload(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ObjectStore

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        said = f"<Error><Code>{self.server.code}</Code></Error>" if self.server.code else ""
        if not said:
            self.server.kept.append(self.path)
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Keep the tests' output clean."""


@pytest.fixture(name="objects")
def running_object_store() -> Iterator[ObjectStore]:
    with ObjectStore() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(name="home")
def store_with_artifacts_elsewhere(empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database whose experiment keeps its artifacts in a bucket."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "of-a-test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    shutil.copyfile(empty, tmp_path / "mlflow.db")
    return tmp_path


def tracker_of(home: Path, experiment: str, port: int, monkeypatch: pytest.MonkeyPatch) -> MlflowTracker:
    monkeypatch.setenv("MLFLOW_S3_ENDPOINT_URL", f"http://127.0.0.1:{port}")
    uri = f"sqlite:///{home}/mlflow.db"
    MlflowClient(uri).create_experiment(experiment, artifact_location="s3://bucket/sweeps")
    return MlflowTracker(Store(uri, None))


@pytest.mark.parametrize(("status", "code"), [(503, "SlowDown"), (400, "RequestTimeout"), (403, "AccessDenied")])
def test_records_arrive_once_an_object_store_takes_them(
    home: Path, objects: ObjectStore, status: int, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    finished = finish(home)
    tracker = tracker_of(home, finished.sweep.spec.name, objects.server_port, monkeypatch)
    objects.status, objects.code = status, code
    with pytest.raises(StoreError, match=code):
        tracker.run_ended(finished.sweep, finished.runs[0])
    assert not objects.kept
    objects.status, objects.code = 200, ""
    tracker.run_ended(finished.sweep, finished.runs[0])
    assert any(path.endswith(ARRAYS) for path in objects.kept)
