"""A sweep recorded in a team's MLflow as in deploy/README.md: PostgreSQL, an S3 server, and MLflow with its own
login, all running on loopback. test_store.py tests refusals of servers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from mlflow import MlflowClient
from mlflow.entities import Run

from orchestrator.home.directories import Home
from orchestrator.record.store import VARIABLE
from tests.cli.program import process
from tests.objects import CREDENTIALS, ObjectStore
from tests.record.servers import free_port
from tests.sweep.sweeps import ended

START_S = 120.0
BUCKET = "mlflow"
DATABASE_PASSWORD = "database-Jq8wVz"
ADMIN, ADMIN_PASSWORD = "admin", "administrators-Kd7yLs"
PASSWORDS = (DATABASE_PASSWORD, CREDENTIALS["AWS_SECRET_ACCESS_KEY"], ADMIN_PASSWORD)


POSTGRES = max(Path("/usr/lib/postgresql").glob("*/bin"), default=Path("/usr/bin"))  # Debian's are not on PATH.


@dataclass(frozen=True)
class Team:
    """A running server, its PostgreSQL (an address with the password), its objects and its output."""

    uri: str
    database: str
    objects: ObjectStore
    log: Path


@contextmanager
def serving_team() -> Iterator[Team]:
    """Run a database, a bucket and an MLflow server with a login."""
    with ExitStack() as held:
        place = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="team-")))
        database = held.enter_context(postgres(place / "postgres"))
        objects = ObjectStore()
        held.callback(objects.stop)
        objects.start()
        objects.client().create_bucket(Bucket=BUCKET)
        settings = place / "auth.ini"
        settings.write_text(
            f"[mlflow]\ndefault_permission = READ\ndatabase_uri = {database}\nadmin_username = {ADMIN}\n"
            "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
            "auth_cache_ttl_seconds = 60\n"  # Checking a password takes a tenth of a second each time.
        )
        port = free_port()
        command = [sys.executable, "-m", "mlflow", "server", "--app-name", "basic-auth", "--workers", "1"]
        command += ["--host", "127.0.0.1", "--port", str(port), "--artifacts-destination", f"s3://{BUCKET}"]
        variables = objects.environment | {
            "MLFLOW_S3_ENDPOINT_URL": objects.environment["AWS_ENDPOINT_URL"],
            "MLFLOW_BACKEND_STORE_URI": database,
            "MLFLOW_AUTH_CONFIG_PATH": str(settings),
            "MLFLOW_AUTH_ADMIN_PASSWORD": ADMIN_PASSWORD,
            "MLFLOW_FLASK_SERVER_SECRET_KEY": "of-a-test-Wn5rGh",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }
        log = place / "mlflow.log"
        held.enter_context(_running(command, log, variables))
        uri = f"http://127.0.0.1:{port}"
        _wait_for(lambda: requests.get(f"{uri}/health", timeout=5).ok, log)
        yield Team(uri, database, objects, log)


@contextmanager
def postgres(place: Path) -> Iterator[str]:
    """Run a new PostgreSQL with a database ``mlflow``. Yield its address. Root starts it as Debian's user
    ``postgres``."""
    user = "postgres" if os.geteuid() == 0 else None
    place.mkdir()
    if user:
        shutil.chown(place, user)
        place.parent.chmod(0o711)
    secret = place / "secret"
    secret.write_text(DATABASE_PASSWORD)
    if user:
        shutil.chown(secret, user)
    data, port, log = place / "data", free_port(), place.parent / "postgres.log"
    made = [str(POSTGRES / "initdb"), "-D", str(data), "-U", "mlflow", "-A", "scram-sha-256", f"--pwfile={secret}"]
    subprocess.run(made, check=True, user=user, group=user, cwd=place, capture_output=True, timeout=START_S)
    command = [str(POSTGRES / "postgres"), "-D", str(data), "-p", str(port), "-h", "127.0.0.1", "-k", str(place)]
    server = f"postgresql+psycopg2://mlflow:{DATABASE_PASSWORD}@127.0.0.1:{port}"
    with _running(command, log, {}, user):
        import psycopg2

        def make() -> bool:
            connection = psycopg2.connect(f"{server}/postgres".replace("+psycopg2", ""))
            connection.autocommit = True
            connection.cursor().execute("CREATE DATABASE mlflow")
            connection.close()
            return True

        _wait_for(make, log)
        yield f"{server}/mlflow"


@contextmanager
def _running(command: list[str], log: Path, environment: dict[str, str], user: str | None = None) -> Iterator[None]:
    """Run a server in a separate session that ends with the block."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    who: dict[str, Any] = {"user": user, "group": user, "cwd": log.parent, "start_new_session": True}
    with log.open("ab") as output:
        server = subprocess.Popen(command, stdout=output, stderr=output, env=mine | environment, **who)
    try:
        yield
    finally:
        if user:  # SIGINT, because a killed PostgreSQL leaves shared memory behind.
            server.send_signal(signal.SIGINT)
        else:
            os.killpg(server.pid, signal.SIGKILL)
        server.wait(60)


def _wait_for(answers: Callable[[], bool], log: Path) -> None:
    until = time.monotonic() + START_S
    while True:
        try:
            if answers():
                return
        except Exception:  # noqa: BLE001 - each client has its own error for a server that is not there yet
            if time.monotonic() > until:
                raise AssertionError(f"it does not start:\n{log.read_text(errors='replace')[-2000:]}") from None
        time.sleep(0.2)


ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "orchestrator", "run"]
ANN, ANNS_PASSWORD = "ann", "anns-password-Fc6uRb"
SECRETS = (*PASSWORDS, ANNS_PASSWORD)

pytestmark = [
    pytest.mark.night,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not (POSTGRES / "initdb").exists(), reason="needs PostgreSQL (apt-get install postgresql)"),
    pytest.mark.xdist_group("team"),
]


@pytest.fixture(scope="module", name="team")
def running_team() -> Iterator[Team]:
    with serving_team() as team:
        account = {"username": ANN, "password": ANNS_PASSWORD}
        made = requests.post(
            f"{team.uri}/api/2.0/mlflow/users/create", json=account, auth=(ADMIN, ADMIN_PASSWORD), timeout=30
        )
        made.raise_for_status()
        yield team


def records(team: Team, experiment: str) -> tuple[MlflowClient, list[Run]]:
    """Return the contents of an experiment as seen by the administrator."""
    with as_administrator():
        client = MlflowClient(team.uri)
        stored = client.get_experiment_by_name(experiment)
        return client, [] if stored is None else list(client.search_runs([stored.experiment_id], max_results=1000))


@contextmanager
def as_administrator() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_USERNAME", ADMIN)
        patch.setenv("MLFLOW_TRACKING_PASSWORD", ADMIN_PASSWORD)
        yield


def test_a_sweep_is_recorded_completely_and_without_passwords(team: Team, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    login = {"MLFLOW_TRACKING_USERNAME": ANN, "MLFLOW_TRACKING_PASSWORD": ANNS_PASSWORD}
    done = process(
        [*COMMAND, "add_vs_add_prod", "--profile", "smoke", "--engine=local", "--home", str(tmp_path)],
        cwd=tmp_path,
        environment=environment | login | {VARIABLE: team.uri, "PYTHONPATH": str(ROOT)},
        within_s=300,
    )
    output = done.out + done.err
    (tmp_path / "output").write_text(output)
    assert done.code == 0, output
    assert "not in MLflow yet" not in output
    assert "View run" not in output  # MLflow prints two lines per run.
    [sweep_id] = Home(tmp_path).sweep_ids()
    trained = {entry.key: entry.outcome for entry in ended(tmp_path, sweep_id)}

    client, runs = records(team, "add_vs_add_prod")
    assert Counter(run.data.tags["kind"] for run in runs) == {"sweep": 1, "run": len(trained), "transition": 2}
    assert {run.info.status for run in runs} == {"FINISHED"}
    client_of_objects = team.objects.client()
    keys = [entry["Key"] for entry in client_of_objects.list_objects_v2(Bucket=BUCKET)["Contents"]]
    for run in runs:
        if run.data.tags["kind"] != "run":
            continue
        outcome = trained[run.data.tags["run_key"]]
        with as_administrator():
            losses = client.get_metric_history(run.info.run_id, "loss")
            names = {file.path for file in client.list_artifacts(run.info.run_id)}
        assert [metric.value for metric in losses] == [point.loss for point in outcome.curve]
        assert "arrays.npz" in names
        assert any(f"/{run.info.run_id}/artifacts/arrays.npz" in key for key in keys), keys[:5]

    for path in (team.log, *(path for path in tmp_path.rglob("*") if path.is_file())):
        content = path.read_bytes()
        assert not [secret for secret in SECRETS if secret.encode() in content], path
    for key in keys:
        body = client_of_objects.get_object(Bucket=BUCKET, Key=key)["Body"].read()
        assert not [secret for secret in SECRETS if secret.encode() in body], key
    dumped = process(["pg_dump", "--inserts", team.database.replace("+psycopg2", "")]).succeeded()
    assert not [secret for secret in SECRETS if secret in dumped]
