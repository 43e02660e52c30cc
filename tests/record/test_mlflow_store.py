"""The choice of a store, and errors of stores that do not answer."""

from __future__ import annotations

import http.server
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from unittest.mock import Mock
from urllib.parse import quote

import pytest
import requests
from mlflow import MlflowClient
from mlflow.store.entities.paged_list import PagedList

from orchestrator.home.directories import DATABASE, Home
from orchestrator.record import mlflow_store
from orchestrator.record.mlflow_store import Store, all_runs, check_store, choose_store, make_database, store_errors
from orchestrator.record.mlflow_tracker import MlflowTracker, delete_record
from orchestrator.record.tracker import StoreError
from orchestrator.system.errors import UserError
from tests.catalog.fabricated import write_sweep
from tests.cli.program import command
from tests.record.samples import finish, record


def test_the_variable_names_the_store(tmp_path: Path) -> None:
    here = Store(f"sqlite:///{tmp_path}/mlflow.db", tmp_path / DATABASE)
    assert choose_store(tmp_path, {}) == choose_store(tmp_path, {"MLFLOW_TRACKING_URI": "  "}) == here
    assert choose_store(tmp_path / "home", {"MLFLOW_TRACKING_URI": here.uri}) == here
    assert choose_store(tmp_path, {"MLFLOW_TRACKING_URI": "http://tracker:5000"}) == Store("http://tracker:5000")


@pytest.mark.parametrize("uri", ["file:///tmp/mlruns", "mlruns", "ftp://ann:secret@host/x"])
def test_unsupported_stores_are_refused_with_the_supported_ones(uri: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="which cannot store sweeps") as refused:
        choose_store(tmp_path, {"MLFLOW_TRACKING_URI": uri})
    assert "sqlite:////absolute/path" in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("name", ["job_feature%2Fx", "a?b"])
def test_a_home_whose_path_a_uri_would_change_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="pass a --home without"):
        choose_store(tmp_path / name, {})


def test_a_new_database_takes_no_changes_that_lie_next_to_it(tmp_path: Path) -> None:
    """A log of changes without its database came with a copied directory, for example."""
    other, new = tmp_path / "other.db", tmp_path / DATABASE
    make_database(other)
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE planted (x)")
        connection.commit()
        shutil.copyfile(f"{other}-wal", f"{new}-wal")
    make_database(new)
    with closing(sqlite3.connect(new)) as connection:
        assert not connection.execute("SELECT name FROM sqlite_master WHERE name = 'planted'").fetchall()
    assert not Path(f"{new}-wal").exists()


def test_a_damaged_file_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_text("not a database, but a text of some length" * 20)
    with pytest.raises(StoreError, match=r"not a database.*sync --rebuild"):
        check_store(choose_store(tmp_path, {}))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory to another user")
@pytest.mark.parametrize("has_database", [True, False])
def test_a_database_that_another_user_can_exchange_is_not_opened(
    has_database: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if has_database:
        make_database(tmp_path / DATABASE)
    os.chown(tmp_path, 65534, 65534)
    with pytest.raises(StoreError, match="belongs to another user"):
        check_store(choose_store(tmp_path, {}))
    assert (tmp_path / DATABASE).exists() == has_database
    for _ in range(2):  # The user trusts them, and is told once what they could do.
        check_store(choose_store(tmp_path, {"MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path}/{DATABASE}"}))
    assert caplog.messages == [
        f"{tmp_path} belongs to another user (nobody), who could change the record there, or make SQLite delete files "
        "of yours. If you do not trust them, set MLFLOW_TRACKING_URI to a server"
    ]


def test_a_server_that_names_further_pages_without_end_is_an_error() -> None:
    client = Mock()
    client.search_runs.return_value = PagedList([], token="more")
    with pytest.raises(StoreError, match="the MLflow store has more than 100 pages of records with a = 'b'"):
        all_runs(client, ["1"], "a = 'b'")
    assert client.search_runs.call_count == 100


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a link to another user")
def test_a_link_of_another_user_to_a_named_database_is_not_followed(tmp_path: Path) -> None:
    """It could lead to any new file in this user's directories."""
    (tmp_path / "team").mkdir()
    link = tmp_path / "team" / DATABASE
    link.symlink_to(tmp_path / "own.db")
    environment = {"MLFLOW_TRACKING_URI": f"sqlite:///{link}"}
    assert choose_store(tmp_path, environment).database == tmp_path / "own.db"
    os.lchown(link, 65534, 65534)
    with pytest.raises(UserError, match=r"is a link of another user \(nobody\), which is not followed: name another"):
        choose_store(tmp_path, environment)
    assert not (tmp_path / "own.db").exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory to another user")
@pytest.mark.parametrize("words", [["sync"], ["sync", "--rebuild"], ["rm", "logistic", "--yes"]])
def test_commands_leave_the_database_in_a_home_of_another_user_alone(words: list[str], tmp_path: Path) -> None:
    write_sweep(Home(tmp_path / "home"))
    make_database(tmp_path / "home" / DATABASE)
    before = (tmp_path / "home" / DATABASE).read_bytes()
    os.chown(tmp_path / "home", 65534, 65534)
    done = command(*words, "--home", tmp_path / "home")
    assert done.code == 1
    assert "belongs to another user" in done.err
    assert (tmp_path / "home" / DATABASE).read_bytes() == before
    assert command("sync", "--record", "jsonl", "--home", tmp_path / "home").succeeded()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory to another group")
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o770])
def test_a_database_in_a_home_that_its_user_shares_for_writing_is_not_opened(mode: int, tmp_path: Path) -> None:
    """A user who can write to the directory can exchange the database, or put a journal next to it."""
    home = tmp_path / "home"
    home.mkdir()
    make_database(home / DATABASE)
    check_store(choose_store(home, {}))
    os.chown(home, -1, 12345)
    home.chmod(mode)
    with pytest.raises(StoreError, match="can be written by other users"):
        check_store(choose_store(home, {}))
    check_store(choose_store(home, {"MLFLOW_TRACKING_URI": f"sqlite:///{home}/{DATABASE}"}))
    home.chmod(0o755)
    check_store(choose_store(home, {}))


def test_a_link_in_place_of_a_database_is_never_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user may put it there between two looks."""
    (tmp_path / "other.db").touch()
    (tmp_path / DATABASE).symlink_to(tmp_path / "other.db")
    with pytest.raises(UserError, match="is a link"):
        choose_store(tmp_path, {})
    monkeypatch.setattr(Path, "is_symlink", lambda path: False)
    assert choose_store(tmp_path, {}).database == tmp_path / DATABASE


def test_passwords_are_hidden_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        here = f"127.0.0.1:{unused.getsockname()[1]}"
        for address, why in ((here, "refused"), ("[::1", "Invalid IPv6 URL"), ("127.0.0.1:99999", "Invalid url")):
            with pytest.raises(StoreError, match=why) as refused:
                check_store(Store(f"http://ann:secret@{address}/base"))
            assert f"the MLflow store http://{address}/base: " in str(refused.value)
            assert "secret" not in str(refused.value)
    assert Store("http://ann:p@ss@tracker").shown == "http://tracker"


URIS = {
    "http://ann:correct horse-Battery@127.0.0.1:5956": "http://127.0.0.1:5956",
    "http://alice:SLASH/Secret@host": "http://host",
    "https://alice:pa@Secret@host/base": "https://host/base",
    "http:alice:Secret@host": "http:host",
    "http://host/?token=Secret": "http://host/",
    "http://host/base#Secret": "http://host/base",
    "http://Secret@host": "http://host",
    "http://host/?mail=ann@b&token=Secret": "http://...",
    "http://ann:one?Secret@host": "http://...",
    "alice:Secret@host": "host",
    "postgresql://alice:Secret/9@host/mlflow?sslpassword=Secret": "postgresql://host/mlflow",
    "http://host:5000/base": "http://host:5000/base",
}
"""URIs that a user may have set, and their forms in messages."""


@pytest.mark.parametrize("uri", URIS)
def test_a_uri_is_shown_without_its_secrets(uri: str, tmp_path: Path) -> None:
    assert Store(uri).shown == URIS[uri]
    if not uri.startswith(("http://", "https://")):
        with pytest.raises(UserError) as refused:
            choose_store(tmp_path, {"MLFLOW_TRACKING_URI": uri})
        assert f"MLFLOW_TRACKING_URI is '{URIS[uri]}', which cannot store sweeps" in str(refused.value)


@pytest.mark.parametrize("uri", URIS)
@pytest.mark.parametrize("form", [str, quote])
def test_an_error_of_a_server_has_no_secrets_of_its_uri(uri: str, form: Callable[[str], str]) -> None:
    store = Store(uri)
    parts = " ".join(repr(part) for part in uri.replace("@", "/").split("/"))
    with pytest.raises(StoreError) as failed, store_errors(store):
        raise OSError(f"no answer from {uri}/api: {form(uri)}, a bad port in {parts}")
    message = str(failed.value)
    assert f"OSError: no answer from {store.shown}/api: " in message
    assert [word for word in ("Secret", "SLASH", "horse", "Battery") if word in message] == []


def test_an_at_sign_in_the_path_of_a_database_is_shown(tmp_path: Path) -> None:
    store = choose_store(tmp_path / "ann@lab", {})
    assert store.shown == f"sqlite:///{tmp_path}/ann@lab/mlflow.db"


@contextmanager
def answering(status: int) -> Iterator[str]:
    """Run a server that answers every request with one status."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(status)
            self.end_headers()

        do_GET = do_POST

        def log_message(self, format: str, *args: object) -> None:
            """Keep the tests' output clean."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_error_for_a_refusing_server_has_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with answering(401) as uri, pytest.raises(StoreError, match="error code 401") as refused:
        check_store(Store(uri))
    assert uri in str(refused.value)


def test_a_login_without_permission_is_told_whom_to_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    finished = finish(tmp_path)
    with answering(403) as uri:
        with pytest.raises(StoreError, match="error code 403") as refused:
            check_store(Store(uri))
        with pytest.raises(StoreError, match="error code 403") as not_recorded:
            record(MlflowTracker(Store(uri)), finished)
        with pytest.raises(StoreError, match="error code 403") as not_deleted:
            delete_record(Store(uri), "other", finished.sweep.id)
    remedy = "unset MLFLOW_TRACKING_URI to keep the record in the home"
    assert str(refused.value).endswith(
        f". It gives your login no permission: ask its administrator for one, or {remedy}"
    )
    for failed, name in ((not_recorded, finished.sweep.spec.name), (not_deleted, "other")):
        assert str(failed.value).endswith(
            f". It gives your login no permission for the experiment {name}, which may belong to another user: ask "
            f"its owner for the permission MANAGE, start the sweep under another name (--set name=NAME), or {remedy}"
        )
        assert "Start it" not in str(failed.value)


def test_a_refusal_of_files_by_a_server_names_the_experiment() -> None:
    """MLflow's client reports it with the library that it sends files with."""
    answer = requests.Response()
    answer.status_code = 403
    store = Store("http://host")
    expected = "no permission for the experiment parity, which"
    with pytest.raises(StoreError, match=expected), store_errors(store, "parity"):
        raise requests.HTTPError("403 Client Error: FORBIDDEN", response=answer)
    answer.status_code = 502
    with pytest.raises(StoreError, match="Start it, or unset MLFLOW_TRACKING_URI"), store_errors(store, "parity"):
        raise requests.HTTPError("502 Server Error", response=answer)


@pytest.mark.parametrize(("uses_server", "mode"), [(True, 0o600), (False, 0o644)])
def test_only_the_user_can_read_the_login_to_a_server(
    uses_server: bool, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("HOME", str(tmp_path))
    login = tmp_path / ".mlflow" / "credentials"
    login.parent.mkdir()
    login.write_text("[mlflow]\nmlflow_tracking_username = ann\nmlflow_tracking_password = secret\n")
    login.chmod(0o644)
    if uses_server:
        with answering(401) as uri, pytest.raises(StoreError, match="error code 401"):
            check_store(Store(uri))
    else:
        check_store(choose_store(tmp_path / "home", {}))
    assert login.stat().st_mode & 0o777 == mode
    assert "password = secret" in login.read_text()


def test_a_new_database_is_complete_and_created_once(tmp_path: Path) -> None:
    """Several processes that start in one home would otherwise all create it."""
    store, database = choose_store(tmp_path / "home", {}), tmp_path / "home" / DATABASE
    threads = [threading.Thread(target=make_database, args=(database,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client = MlflowClient(store.uri)
    assert client.create_experiment("ours", store.location_of("ours"))
    before = database.read_bytes()
    make_database(database)
    assert database.read_bytes() == before


def test_a_home_contains_its_runs_and_artifacts(empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    home = tmp_path / "homes" / "é;&=@[x]:\\'\"#"
    home.mkdir(parents=True)
    shutil.copyfile(empty, home / DATABASE)
    store = choose_store(home, {})
    check_store(store)
    client = MlflowClient(store.uri)
    run_id = client.create_run(client.create_experiment("ours", store.location_of("ours"))).info.run_id
    client.log_text(run_id, "answer", "answer.txt")
    assert (home / "artifacts" / "ours" / run_id / "artifacts" / "answer.txt").read_text() == "answer"
    assert list(home.parent.iterdir()) == [home]
    assert list((tmp_path / "here").iterdir()) == []


def test_more_runs_than_fit_one_answer_are_all_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlflow_store, "RUNS_A_PAGE", 2)
    chosen = choose_store(tmp_path, {})
    assert chosen.database is not None
    make_database(chosen.database)
    client = MlflowClient(chosen.uri)
    experiment = client.create_experiment("many")
    made = {client.create_run(experiment).info.run_id for _ in range(5)}
    assert {run.info.run_id for run in all_runs(client, [experiment], "")} == made


def test_a_database_that_another_process_made_is_accepted(tmp_path: Path) -> None:
    """MLflow writes some constraints from sets, whose order depends on the process."""
    made = "from mlflow import MlflowClient; MlflowClient('sqlite:///{}').search_experiments()"
    for seed in range(3):
        home = tmp_path / str(seed)
        home.mkdir()
        variables = os.environ | {"PYTHONHASHSEED": str(seed)}
        subprocess.run([sys.executable, "-c", made.format(home / DATABASE)], env=variables, check=True, timeout=200)
        check_store(choose_store(home, {}))
