"""Which store is chosen, and what is said about one that does not answer."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestrator.errors import SweepError, UserError
from orchestrator.tracking import store
from orchestrator.tracking.store import Store, check, choose, without_credentials


def test_the_default_lies_in_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chosen = choose(Path("results"), {})
    assert chosen.uri == f"sqlite:///{tmp_path.resolve()}/results/mlflow.db"
    assert chosen.artifacts == tmp_path.resolve() / "results" / "artifacts"
    check(chosen)
    assert (tmp_path / "results").is_dir()


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_variable_means_the_default(value: str, tmp_path: Path) -> None:
    assert choose(tmp_path, {"MLFLOW_TRACKING_URI": value}).artifacts is not None


def test_the_variable_names_the_store(tmp_path: Path) -> None:
    assert choose(tmp_path, {"MLFLOW_TRACKING_URI": "http://tracker:5000"}) == Store("http://tracker:5000", None)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("https://ann:secret@tracker.example:5000/base?token=secret", "https://tracker.example:5000/base"),
        ("postgresql+psycopg2://ann:secret@db/mlflow?password=secret", "postgresql+psycopg2://db/mlflow"),
        ("sqlite:////data/mlflow.db", "sqlite:////data/mlflow.db"),
        ("databricks", "databricks"),
        ("http://ann:p@ss@tracker", "http://tracker"),
    ],
)
def test_credentials_are_never_shown(uri: str, shown: str) -> None:
    assert without_credentials(uri) == shown
    assert Store(uri, None).shown == shown


@pytest.mark.parametrize("uri", ["file:///tmp/mlruns", "mlruns", "ftp://ann:secret@host/x"])
def test_what_is_no_store_is_refused_with_what_is(uri: str) -> None:
    with pytest.raises(UserError, match="which is no store for sweeps") as refused:
        check(Store(uri, None))
    assert "sqlite:////absolute/path" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_relative_sqlite_path_is_refused() -> None:
    with pytest.raises(UserError, match="relative path"):
        check(Store("sqlite:///mlflow.db", None))


def test_a_file_that_is_no_database_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "mlflow.db").write_text("not a database, but a text of some length" * 20)
    with pytest.raises(SweepError, match="not a database"):
        check(choose(tmp_path, {}))


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SweepError, match=r"file/home.*cannot be reached"):
        check(choose(tmp_path / "file" / "home", {}))


@pytest.mark.parametrize("scheme", ["http", "postgresql"])
def test_nobody_listens(scheme: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(SweepError, match="cannot be reached") as refused:
            check(Store(f"{scheme}://ann:secret@127.0.0.1:{port}/mlflow", None))
    assert f"127.0.0.1:{port}" in str(refused.value)
    assert "MLFLOW_TRACKING_URI" in str(refused.value)
    assert "secret" not in str(refused.value)
    assert not isinstance(refused.value, UserError)


def test_a_server_that_never_answers_is_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "TIMEOUT_S", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(SweepError, match="timed out"):
            check(Store(f"http://127.0.0.1:{silent.getsockname()[1]}", None))


@contextmanager
def answering(status: int) -> Iterator[str]:
    """A server that answers every request with one status."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("status", [200, 401, 403])
def test_a_server_that_is_there_will_do(status: int) -> None:
    with answering(status) as uri:
        check(Store(uri, None))


@pytest.mark.parametrize("status", [404, 502])
def test_a_server_that_is_no_mlflow_will_not(status: int) -> None:
    with answering(status) as uri, pytest.raises(SweepError, match=f"answers {status}"):
        check(Store(uri, None))
