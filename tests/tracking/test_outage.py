"""Outages are told from mistakes by what MLflow really raises."""

from __future__ import annotations

import errno
import shutil
import socket
import sqlite3
from pathlib import Path

import pytest
import requests
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException, RestException

from orchestrator.tracking.base import OutageError, RefusedError
from orchestrator.tracking.mlflow_tracker import MlflowTracker
from orchestrator.tracking.outage import is_outage, outages
from orchestrator.tracking.store import Store
from tests.tracking.samples import finish


def refusal(code: str, message: str) -> MlflowException:
    """A server's answer, as MLflow's client raises it."""
    return RestException({"error_code": code, "message": message})  # type: ignore[no-untyped-call]


def http_error(status: int) -> requests.HTTPError:
    response = requests.Response()
    response.status_code = status
    return requests.HTTPError(response=response)


def unused_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_server_that_is_gone_is_an_outage_and_its_password_stays_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    tracker = MlflowTracker(Store(f"http://ann:secret@127.0.0.1:{unused_port()}", None))
    finished = finish(tmp_path)
    with pytest.raises(OutageError, match="refused") as at_begin:
        tracker.begin(finished.sweep)
    with pytest.raises(OutageError, match="refused") as at_end:
        tracker.run_ended(finished.sweep, finished.runs[0])
    assert "secret" not in f"{at_begin.value} {at_end.value}"
    assert "secret" not in tracker.describe()


def test_a_database_in_trouble_is_an_outage(empty: Path, tmp_path: Path) -> None:
    shutil.copyfile(empty, tmp_path / "mlflow.db")
    client = MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    with sqlite3.connect(tmp_path / "mlflow.db") as connection:
        connection.execute("ALTER TABLE experiments RENAME TO hidden")
    connection.close()
    with pytest.raises(OutageError, match="no such table"), outages():
        client.get_experiment_by_name("anything")


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_a_server_in_trouble_is_an_outage(status: int) -> None:
    assert is_outage(http_error(status))


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_server_that_refuses_is_none(status: int) -> None:
    assert not is_outage(http_error(status))


@pytest.mark.parametrize(
    ("error", "login", "said"),
    [
        (refusal("UNAUTHENTICATED", "no"), "", "asks for a login: set MLFLOW_TRACKING_USERNAME and"),
        (
            refusal("UNAUTHENTICATED", "no"),
            "given",
            "refuses the user name or password it is given: set MLFLOW_TRACKING",
        ),
        (http_error(401), "given", "refuses the user name or password"),
        (refusal("PERMISSION_DENIED", "no"), "given", "permission MANAGE"),
        (http_error(403), "given", "permission MANAGE"),
    ],
)
def test_a_refused_login_is_no_outage_and_says_what_to_set(
    error: Exception, login: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    if login:
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", login)
    assert not is_outage(error)
    with pytest.raises(RefusedError, match=said) as refused, outages():
        raise error
    assert "given" not in str(refused.value).replace("it is given", "")


@pytest.mark.parametrize(
    ("error", "outage"),
    [
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (FileNotFoundError(errno.ENOENT, "arrays.npz"), False),
        (PermissionError(errno.EACCES, "artifacts"), False),
        (refusal("TEMPORARILY_UNAVAILABLE", "busy"), True),
        (refusal("INVALID_PARAMETER_VALUE", "no"), False),
        (MlflowException("the run is deleted"), False),
        (ValueError("a bug"), False),
    ],
)
def test_what_passes_and_what_does_not(error: Exception, outage: bool) -> None:
    assert is_outage(error) == outage
    with pytest.raises(OutageError if outage else type(error)), outages():
        raise error
