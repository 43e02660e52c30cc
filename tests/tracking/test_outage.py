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

from orchestrator.tracking.base import OutageError
from orchestrator.tracking.mlflow_tracker import MlflowTracker
from orchestrator.tracking.outage import is_outage, outages
from orchestrator.tracking.store import Store
from tests.tracking.samples import finish


def refusal(code: str, message: str) -> MlflowException:
    """A server's answer, as MLflow's client raises it."""
    return RestException({"error_code": code, "message": message})  # type: ignore[no-untyped-call]


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
    response = requests.Response()
    response.status_code = status
    assert is_outage(requests.HTTPError(response=response))


@pytest.mark.parametrize("status", [400, 401, 404])
def test_a_server_that_refuses_is_none(status: int) -> None:
    response = requests.Response()
    response.status_code = status
    assert not is_outage(requests.HTTPError(response=response))


@pytest.mark.parametrize(
    ("error", "outage"),
    [
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (FileNotFoundError(errno.ENOENT, "arrays.npz"), False),
        (PermissionError(errno.EACCES, "artifacts"), False),
        (refusal("TEMPORARILY_UNAVAILABLE", "busy"), True),
        (refusal("PERMISSION_DENIED", "no"), False),
        (refusal("INVALID_PARAMETER_VALUE", "no"), False),
        (MlflowException("the run is deleted"), False),
        (ValueError("a bug"), False),
    ],
)
def test_what_passes_and_what_does_not(error: Exception, outage: bool) -> None:
    assert is_outage(error) == outage
    with pytest.raises(OutageError if outage else type(error)), outages():
        raise error
