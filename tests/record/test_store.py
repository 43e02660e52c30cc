"""The choice of a store, and errors of stores that do not answer."""

from __future__ import annotations

import http.server
import shutil
import socket
import sqlite3
import ssl
import string
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import example, given
from hypothesis import strategies as st
from mlflow import MlflowClient
from sqlalchemy.engine import make_url

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
    sqlite_uri,
    store_errors,
)


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
def test_unsupported_stores_are_refused_with_the_supported_ones(uri: str) -> None:
    with pytest.raises(UserError, match=r"which cannot store sweeps|relative path") as refused:
        check(Store(uri, None))
    assert "sqlite:////absolute/path" in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "uri",
    [
        "http://ann:secret@[::1",
        "postgresql://ann:secret@[db/x",
        "http://ann:secret@tracker..example",
        f"https://ann:secret@{'long' * 20}:5000",
        "http://ann:secret@127.0.0.1:99999",
    ],
)
def test_a_malformed_address_is_refused_without_showing_its_password(uri: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="MLFLOW_TRACKING_URI") as refused:
        check(choose(tmp_path, {"MLFLOW_TRACKING_URI": uri}))
    assert "Write http" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_damaged_file_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_text("not a database, but a text of some length" * 20)
    with pytest.raises(StoreError, match=r"not a database.*sync --rebuild --home"):
        check(choose(tmp_path, {}))


@pytest.mark.parametrize("scheme", ["http", "postgresql"])
def test_an_unreachable_store_is_named_without_showing_its_password(
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
def answering(status: int, certificate: Path | None = None) -> Iterator[str]:
    """Run a server that answers every request with one status, over TLS if ``certificate`` is given."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Keep the tests' output clean."""

        do_POST = do_GET

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "password", "message"),
    [
        (401, "", "requires a login: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"),
        (401, "given-Xq7", "rejects this user name or password: set MLFLOW_TRACKING_USERNAME and"),
        (403, "given-Xq7", "ask for MANAGE"),
        (404, "", "error code 404"),
        (502, "", "502"),
    ],
)
def test_the_error_for_a_refusing_server_names_the_setting_to_change(
    status: int, password: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    for name in (USERNAME, PASSWORD, TOKEN):
        monkeypatch.delenv(name, raising=False)
    if password:
        monkeypatch.setenv(USERNAME, "ann")
        monkeypatch.setenv(PASSWORD, password)
    with answering(status) as uri, pytest.raises(StoreError, match=message) as refused:
        check(Store(uri, None))
    assert uri in str(refused.value)
    assert "given-Xq7" not in str(refused.value)


def logged(home: Path, experiment: str) -> Path:
    """Log an artifact to a new run of an experiment. Return its path."""
    client = MlflowClient(choose(home, {}).uri)
    stored = client.get_experiment_by_name(experiment)
    assert stored is not None
    run_id: str = client.create_run(stored.experiment_id).info.run_id
    client.log_text(run_id, "answer", "answer.txt")
    artifact: Path = home / ARTIFACTS / experiment / run_id / "artifacts" / "answer.txt"
    return artifact


@pytest.fixture(name="home")
def home_with_a_record(empty: Path, tmp_path: Path) -> Path:
    """A home with an experiment of its own and one that is stored elsewhere."""
    home = tmp_path / "a home"
    home.mkdir()
    shutil.copyfile(empty, home / DATABASE)
    client = MlflowClient(choose(home, {}).uri)
    client.create_experiment("ours", choose(home, {}).location_of("ours"))
    client.create_experiment("bucket", "s3://bucket/artifacts/elsewhere")
    assert logged(home, "ours").is_file()
    return home


def test_a_home_works_under_two_paths(home: Path, tmp_path: Path) -> None:
    """Containers may mount a home elsewhere."""
    other = tmp_path / "mounted %2F"
    for place in (other, home, other):
        (home if home.is_dir() else other).rename(tmp_path / "moving")
        (tmp_path / "moving").rename(place)
        check(choose(place, {}))
        assert logged(place, "ours").is_file()
    client = MlflowClient(choose(other, {}).uri)
    assert len(client.search_runs(["1"])) == 4
    for run in client.search_runs(["1"]):
        assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["answer.txt"]
        assert run.info.artifact_uri.startswith((other / ARTIFACTS).as_uri())
    bucket = client.get_experiment_by_name("bucket")
    assert bucket is not None
    assert bucket.artifact_location == "s3://bucket/artifacts/elsewhere"


def test_a_database_of_another_mlflow_is_named_with_the_remedy(home: Path) -> None:
    with sqlite3.connect(home / DATABASE) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0123456789ab'")
    store = choose(home, {})
    why = (
        r"another version of MLflow made it \(found version 0123456789ab, .*sync --rebuild --home '.*a home'` rebuilds"
    )
    with pytest.raises(StoreError, match=why), store_errors(store):
        # Use a new database engine, not the one that has the file open.
        MlflowClient(f"{store.uri}?").search_experiments()
    with pytest.raises(StoreError, match="mlflow db upgrade"), store_errors(Store(store.uri, None)):
        MlflowClient(f"{store.uri}?").search_experiments()


def test_the_error_for_an_untrusted_certificate_names_the_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with answering(200, certificate(tmp_path)) as uri, pytest.raises(StoreError) as refused:
        check(Store(uri, None))
    assert "its certificate is not trusted here (certificate verify failed: self-signed" in str(refused.value)
    assert "set MLFLOW_TRACKING_SERVER_CERT_PATH" in str(refused.value)


def certificate(place: Path) -> Path:
    """Return the path of a self-signed certificate with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")]), datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(1))
        .not_valid_after(now + timedelta(1))
        .sign(key, hashes.SHA256())
    )
    coded = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (place / "server.pem").write_bytes(made.public_bytes(Encoding.PEM) + coded)
    return place / "server.pem"


def test_a_new_database_is_complete_and_created_once(tmp_path: Path) -> None:
    """Several processes that start in one home would otherwise all create it."""
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


NAMES = st.text(st.sampled_from(string.printable.replace("/", "") + "é"), min_size=1, max_size=12)


@given(NAMES)
@example("job_feature%2Fx")
@example("a?b")
@example("%")
def test_the_uri_of_a_path_is_parsed_back_to_that_path(name: str) -> None:
    path = Path("/data") / name / DATABASE
    uri = sqlite_uri(path)
    assert make_url(uri).database == str(path)
    assert Store(uri, None).database == path
    # MLflow creates the parent of this text, which must be the home or the existing working directory.
    assert Path(uri.removeprefix("sqlite:///")).parent in (path.parent, Path())


@pytest.mark.parametrize("name", ["job_feature%2Fx", "a?b", "é;&=@[x]:\\'\"%#"])
def test_a_home_contains_its_runs_and_artifacts(
    name: str, empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    home = tmp_path / "homes" / name
    home.mkdir(parents=True)
    shutil.copyfile(empty, home / DATABASE)
    store = choose(home, {})
    check(store)
    client = MlflowClient(store.uri)
    run_id = client.create_run(client.create_experiment("ours", store.location_of("ours"))).info.run_id
    client.log_text(run_id, "answer", "answer.txt")
    assert (home / "artifacts" / "ours" / run_id / "artifacts" / "answer.txt").read_text() == "answer"
    assert [path.name for path in home.parent.iterdir()] == [name]
    assert list((tmp_path / "here").iterdir()) == []
