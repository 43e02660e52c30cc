"""The choice of a store, and errors of one that does not answer."""

from __future__ import annotations

import http.server
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from mlflow import MlflowClient

from orchestrator.errors import UserError
from orchestrator.record.store import (
    ARTIFACTS,
    DATABASE,
    PASSWORD,
    TOKEN,
    USERNAME,
    Store,
    StoreError,
    check,
    choose,
    make_database,
)


def test_the_default_lies_in_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chosen = choose(Path("results"), {})
    assert chosen.uri == f"sqlite:///{tmp_path.resolve()}/results/mlflow.db"
    assert chosen.artifacts == tmp_path.resolve() / "results" / "artifacts"
    check(chosen)
    assert (tmp_path / "results").is_dir()


@pytest.mark.parametrize(("value", "place"), [("", None), ("  ", None), ("http://tracker:5000", "http://tracker:5000")])
def test_the_variable_names_the_store(value: str, place: str | None, tmp_path: Path) -> None:
    chosen = choose(tmp_path, {"MLFLOW_TRACKING_URI": value})
    assert chosen == (Store(place, None) if place else choose(tmp_path, {}))


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("https://ann:secret@tracker.example:5000/base?token=secret", "https://tracker.example:5000/base"),
        ("postgresql+psycopg2://ann:secret@db/mlflow?password=secret", "postgresql+psycopg2://db/mlflow"),
        ("sqlite:////data/mlflow.db", "sqlite:////data/mlflow.db"),
        ("http://ann:p@ss@tracker", "http://tracker"),
    ],
)
def test_credentials_are_never_shown(uri: str, shown: str) -> None:
    assert Store(uri, None).shown == shown


@pytest.mark.parametrize("uri", ["file:///tmp/mlruns", "mlruns", "ftp://ann:secret@host/x", "sqlite:///mlflow.db"])
def test_what_is_no_store_is_refused_with_what_is(uri: str) -> None:
    with pytest.raises(UserError, match=r"which cannot hold sweeps|relative path") as refused:
        check(Store(uri, None))
    assert "sqlite:////absolute/path" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_damaged_file_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_text("not a database, but a text of some length" * 20)
    with pytest.raises(StoreError, match=r"not a database.*`sync --rebuild`"):
        check(choose(tmp_path, {}))


@pytest.mark.parametrize("scheme", ["http", "postgresql"])
def test_a_store_that_does_not_answer_is_named_without_its_password(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(StoreError, match="refused") as refused:
            check(Store(f"{scheme}://ann:secret@127.0.0.1:{port}/mlflow", None))
    assert f"{scheme}://127.0.0.1:{port}" in str(refused.value)
    assert "secret" not in str(refused.value)
    assert not isinstance(refused.value, UserError)


@contextmanager
def answering(status: int) -> Iterator[str]:
    """A server that answers every request with one status."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Keep the tests' output clean."""

        do_POST = do_GET

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "password", "said"),
    [
        (401, "", "asks for a login: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"),
        (401, "given-Xq7", "refuses this user name or password: set MLFLOW_TRACKING_USERNAME and"),
        (403, "given-Xq7", "permission MANAGE"),
        (404, "", "error code 404"),
        (502, "", "502"),
    ],
)
def test_a_server_that_refuses_says_what_to_set(
    status: int, password: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    for name in (USERNAME, PASSWORD, TOKEN):
        monkeypatch.delenv(name, raising=False)
    if password:
        monkeypatch.setenv(USERNAME, "ann")
        monkeypatch.setenv(PASSWORD, password)
    with answering(status) as uri, pytest.raises(StoreError, match=said) as refused:
        check(Store(uri, None))
    assert uri in str(refused.value)
    assert "given-Xq7" not in str(refused.value)


def test_a_moved_home_does_not_write_into_the_original(empty: Path, tmp_path: Path) -> None:
    home = tmp_path / "a home"
    home.mkdir()
    shutil.copyfile(empty, home / DATABASE)
    client = MlflowClient(choose(home, {}).uri)
    client.create_experiment("ours", (home / ARTIFACTS / "ours").as_uri())
    client.create_experiment("bucket", "s3://bucket/artifacts/elsewhere")
    check(choose(home, {}))
    copy = tmp_path / "copy"
    shutil.copytree(home, copy)
    with pytest.raises(StoreError, match=r"moved or copied.*`sync --rebuild`") as refused:
        check(choose(copy, {}))
    assert (home / ARTIFACTS / "ours").as_uri() in str(refused.value)


def test_a_new_database_is_whole_and_made_once(tmp_path: Path) -> None:
    """Several processes that begin in one home at once would each make it."""
    store = choose(tmp_path / "home", {})
    threads = [threading.Thread(target=make_database, args=(store,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client = MlflowClient(store.uri)
    assert client.create_experiment("ours", store.location_of("ours"))
    before = (tmp_path / "home" / DATABASE).read_bytes()
    make_database(store)
    assert (tmp_path / "home" / DATABASE).read_bytes() == before
